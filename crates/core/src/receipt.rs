//! Receipts of allowed checks.

/// Identifies the units that an allowed check took, so that they can be refunded.
///
/// [`Limiter::refund`](crate::Limiter::refund) and [`Limiter::settle`](crate::Limiter::settle) take
/// it by value, so it can be used once. After a reset of the key, it refunds nothing.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "drop it, refund it or settle it"]
pub struct Receipt {
    pub(crate) fingerprint: u64,
    pub(crate) tick: u64,
    pub(crate) units: u64,
    pub(crate) epoch: u16,
}

impl Receipt {
    /// Creates the receipt of a store that is not in memory, from its units, tick and epoch.
    pub fn new(fingerprint: u64, units: u64, tick: u64, epoch: u16) -> Self {
        Self { fingerprint, tick, units, epoch }
    }

    /// Returns the number of units taken.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Returns the tick at which the units are recorded, in ticks since the Unix epoch.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Returns the epoch of the key's state when the units were taken.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }
}
