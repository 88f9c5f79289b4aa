//! Which keys are asked for, and how many units each may have.

use core::num::NonZeroU32;

use crate::contender::{
    COUNTER, FLOOR, GOVERNOR, HARNESS, LOG, LOG_DENY, LOG_LRU, LOG_MANY, LOG_OVERFLOW, PINGORA,
    RING, Setting, THROTTLECRAB, TRYPEMA,
};

/// One way of asking.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    pub(crate) draw: Draw,
    /// In the order of the table.
    pub(crate) subjects: &'static [&'static str],
    pub(crate) targets: &'static [Target],
}

/// How the next key is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    One,
    Uniform,
    Zipf,
    /// Every key once. Each subject starts with an empty table in every round.
    Fresh,
}

/// The maximum time of a Slidegate subject, as a share of the time of another subject.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) subject: &'static str,
    pub(crate) other: &'static str,
    pub(crate) share: f64,
}

impl Target {
    const fn new(subject: &'static str, other: &'static str, share: f64) -> Self {
        Self { subject, other, share }
    }
}

const FEW: [Target; 4] = [
    Target::new(LOG, GOVERNOR, 0.5),
    Target::new(LOG, FLOOR, 1.3),
    Target::new(COUNTER, LOG, 1.0),
    Target::new(LOG_MANY, LOG, 1.0),
];
const MANY: [Target; 3] = [
    Target::new(LOG, GOVERNOR, 0.65),
    Target::new(LOG, FLOOR, 1.7),
    Target::new(LOG_MANY, LOG, 1.0),
];
const NEW: [Target; 1] = [Target::new(LOG, GOVERNOR, 1.0)];
const NEW_WHEN_FULL: [Target; 3] = [
    Target::new(LOG_LRU, GOVERNOR, 1.0),
    Target::new(LOG_OVERFLOW, GOVERNOR, 1.0),
    Target::new(LOG_DENY, GOVERNOR, 1.0),
];

const ONE_KEY: [&str; 10] =
    [HARNESS, FLOOR, LOG, COUNTER, GOVERNOR, TRYPEMA, THROTTLECRAB, RING, LOG_MANY, PINGORA];
const MANY_KEYS: [&str; 9] =
    [HARNESS, FLOOR, LOG, COUNTER, GOVERNOR, TRYPEMA, THROTTLECRAB, RING, LOG_MANY];
const NEW_KEYS: [&str; 5] = [HARNESS, FLOOR, LOG, COUNTER, GOVERNOR];
const NEW_KEYS_WHEN_FULL: [&str; 6] = [HARNESS, FLOOR, LOG_LRU, LOG_OVERFLOW, LOG_DENY, GOVERNOR];

/// More than all rounds together ask for, so no request is ever denied.
const PLENTY: NonZeroU32 = NonZeroU32::new(20_000_000).unwrap();
const HUNDRED: NonZeroU32 = NonZeroU32::new(100).unwrap();
const TEN: NonZeroU32 = NonZeroU32::new(10).unwrap();

const MILLION: u32 = 1_000_000;

/// Room for every workload but those that fill the table.
const MEMORY_LIMIT: usize = 8 << 30;

const MIB: usize = 1 << 20;

impl Workload {
    /// The workloads in the order they are run. With `quick`, those of new keys have fewer keys.
    pub(crate) fn all(quick: bool) -> Vec<Self> {
        let mut all = vec![
            Self::steady("hot", 1, PLENTY, Draw::One),
            Self::steady("denied", 1, TEN, Draw::One),
            Self::steady("uniform-1m", MILLION, HUNDRED, Draw::Uniform),
            Self::steady("zipf-1m", MILLION, HUNDRED, Draw::Zipf),
        ];
        all.extend(if quick {
            [Self::fresh("fresh-100k", MILLION / 10), Self::full("fresh-full-500k", 500_000, 7)]
        } else {
            [Self::fresh("fresh-1m", MILLION), Self::full("fresh-full", 5 * MILLION, 64)]
        });
        all
    }

    /// Asks for keys that are in the table.
    fn steady(name: &'static str, keys: u32, limit: NonZeroU32, draw: Draw) -> Self {
        let setting = Setting { keys, limit, memory_limit: MEMORY_LIMIT };
        let (subjects, targets): (&[_], &[_]) =
            if keys == 1 { (&ONE_KEY, &FEW) } else { (&MANY_KEYS, &MANY) };
        Self { name, setting, draw, subjects, targets }
    }

    /// Asks for new keys, for which there is room.
    fn fresh(name: &'static str, keys: u32) -> Self {
        let setting = Setting { keys, limit: HUNDRED, memory_limit: MEMORY_LIMIT };
        Self { name, setting, draw: Draw::Fresh, subjects: &NEW_KEYS, targets: &NEW }
    }

    /// Asks for about six times as many new keys as fit into `mebibytes`.
    fn full(name: &'static str, keys: u32, mebibytes: usize) -> Self {
        let setting = Setting { keys, limit: HUNDRED, memory_limit: mebibytes * MIB };
        let (subjects, targets) = (&NEW_KEYS_WHEN_FULL, &NEW_WHEN_FULL);
        Self { name, setting, draw: Draw::Fresh, subjects, targets }
    }
}
