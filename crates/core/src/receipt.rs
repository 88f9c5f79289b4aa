//! What an allowed check hands out.

/// Names exactly the units that an allowed check took, so that they can be refunded.
///
/// Consumed by value by [`Limiter::refund`](crate::Limiter::refund) or
/// [`Limiter::settle`](crate::Limiter::settle), so it works once. After a reset of the key it
/// gives back nothing.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "drop it, refund it or settle it"]
pub struct Receipt {
    pub(crate) fingerprint: u64,
    pub(crate) tick: u64,
    pub(crate) units: u64,
    pub(crate) epoch: u16,
}

impl Receipt {
    /// Creates the receipt of a store that is not in memory: how many units, taken when, in which
    /// epoch of the key.
    pub fn new(fingerprint: u64, units: u64, tick: u64, epoch: u16) -> Self {
        Self { fingerprint, tick, units, epoch }
    }

    /// Units taken.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The tick the units are dated, in ticks since the Unix epoch.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// The epoch of the key's state when the units were taken.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }
}
