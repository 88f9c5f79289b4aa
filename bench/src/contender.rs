//! A subject with its name.

use core::fmt;
use core::num::NonZeroU32;

use crate::Failure;
use crate::floor::Floor;
use crate::harness::Harness;
use crate::ours::{Algorithm, OnFull, OurBasis, Ours, OursMany};
use crate::peers::{Governor, Pingora, Throttlecrab, Trypema};
use crate::ring::RingPerKey;
use crate::subject::Runner;

/// A subject that takes part in the rounds of a workload.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) runner: Box<dyn Runner>,
}

/// What a subject is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) keys: u32,
    /// Units per minute.
    pub(crate) limit: NonZeroU32,
    /// Bytes that ours may take. Peers and the floor have no such limit.
    pub(crate) memory_limit: usize,
}

/// The peer that ratios refer to.
pub(crate) const GOVERNOR: &str = "governor";
/// The floor that ratios refer to.
pub(crate) const FLOOR: &str = "floor";
/// The exact log, one key at a time.
pub(crate) const LOG: &str = "slidegate-log";
/// The exact log, in batches.
pub(crate) const LOG_MANY: &str = "slidegate-log-many";
/// The exact log that evicts a key when it is full.
pub(crate) const LOG_LRU: &str = "slidegate-log-lru";
/// The exact log that falls back to its sketch when it is full.
pub(crate) const LOG_OVERFLOW: &str = "slidegate-log-overflow";
/// The exact log that denies new keys when it is full.
pub(crate) const LOG_DENY: &str = "slidegate-log-deny";
/// The two weighted windows.
pub(crate) const COUNTER: &str = "slidegate-counter";
/// The loop alone.
pub(crate) const HARNESS: &str = "harness";
pub(crate) const TRYPEMA: &str = "trypema";
pub(crate) const THROTTLECRAB: &str = "throttlecrab";
pub(crate) const PINGORA: &str = "pingora-limits";
pub(crate) const RING: &str = "ring-per-key";

impl Contender {
    /// Makes the subject called `name`, with an empty table.
    pub(crate) fn make(name: &'static str, setting: Setting) -> Result<Self, Failure> {
        let Setting { keys, limit, memory_limit } = setting;
        let units = limit.get();
        let log = |on_full| Ours::bounded(units, memory_limit, on_full);
        let runner: Box<dyn Runner> = match name {
            HARNESS => Box::new(Harness),
            FLOOR => Box::new(Floor::new(units, OurBasis::monotonic())),
            LOG => Box::new(Ours::new(Algorithm::Log, units)?),
            LOG_MANY => Box::new(OursMany::new(units)?),
            LOG_LRU => Box::new(log(OnFull::Lru)?),
            LOG_OVERFLOW => Box::new(log(OnFull::Overflow)?),
            LOG_DENY => Box::new(log(OnFull::Deny)?),
            COUNTER => Box::new(Ours::new(Algorithm::Counter, units)?),
            GOVERNOR => Box::new(Governor::new(limit)),
            TRYPEMA => Box::new(Trypema::new(units)?),
            THROTTLECRAB => Box::new(Throttlecrab::new(units, keys as usize)),
            PINGORA => Box::new(Pingora::new(units)),
            RING => Box::new(RingPerKey::new(units as usize)),
            _ => return Err(format!("no subject {name:?}").into()),
        };
        Ok(Self { name, runner })
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}
