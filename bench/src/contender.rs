//! A subject with its name.

use core::fmt;
use core::num::NonZeroU32;

use crate::Failure;
use crate::floor::Floor;
use crate::harness::Harness;
use crate::ours::{Algorithm, OurBasis, Ours, OursMany};
use crate::peers::{Governor, Pingora, Throttlecrab, Trypema};
use crate::ring::RingPerKey;
use crate::subject::Runner;

/// A subject that takes part in the rounds of a workload.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) runner: Box<dyn Runner>,
}

/// The peer that ratios refer to.
pub(crate) const GOVERNOR: &str = "governor";
/// The floor that ratios refer to.
pub(crate) const FLOOR: &str = "floor";
/// The exact log, one key at a time.
pub(crate) const LOG: &str = "slidegate-log";
/// The exact log, in batches.
pub(crate) const LOG_MANY: &str = "slidegate-log-many";
/// The two weighted windows.
pub(crate) const COUNTER: &str = "slidegate-counter";
/// The loop alone.
pub(crate) const HARNESS: &str = "harness";

impl Contender {
    /// Everyone who can judge `keys` keys at `limit` units a minute, with empty tables.
    pub(crate) fn field(limit: NonZeroU32, keys: u32) -> Result<Vec<Self>, Failure> {
        let units = limit.get();
        let mut field = vec![
            Self::new(HARNESS, Harness),
            Self::new(FLOOR, Floor::new(units, OurBasis::monotonic())),
            Self::new(LOG, Ours::new(Algorithm::Log, units)?),
            Self::new(COUNTER, Ours::new(Algorithm::Counter, units)?),
            Self::new(GOVERNOR, Governor::new(limit)),
            Self::new("trypema", Trypema::new(units)?),
            Self::new("throttlecrab", Throttlecrab::new(units, keys as usize)),
            Self::new("ring-per-key", RingPerKey::new(units as usize)),
        ];
        if keys == 1 {
            field.push(Self::new("pingora-limits", Pingora::new(units)));
        } else {
            field.push(Self::new(LOG_MANY, OursMany::new(units)?));
        }
        Ok(field)
    }

    fn new(name: &'static str, runner: impl Runner + 'static) -> Self {
        Self { name, runner: Box::new(runner) }
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}
