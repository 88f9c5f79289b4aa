//! Which keys are asked for, and how many units each may have.

use core::num::NonZeroU32;

/// One way of asking.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) keys: u32,
    /// Units a minute.
    pub(crate) limit: NonZeroU32,
    pub(crate) draw: Draw,
    /// What the exact log should take, compared with governor and with the floor.
    pub(crate) target: Target,
}

/// How the next key is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    One,
    Uniform,
    Zipf,
}

/// The most the exact log may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) to_governor: f64,
    pub(crate) to_floor: f64,
}

const FEW: Target = Target { to_governor: 0.5, to_floor: 1.3 };
const MANY: Target = Target { to_governor: 0.65, to_floor: 1.7 };

/// More than all rounds together ask for, so nobody is ever denied.
const PLENTY: NonZeroU32 = NonZeroU32::new(20_000_000).unwrap();
const HUNDRED: NonZeroU32 = NonZeroU32::new(100).unwrap();
const TEN: NonZeroU32 = NonZeroU32::new(10).unwrap();

const MILLION: u32 = 1_000_000;

impl Workload {
    /// All of them, in the order they are run.
    pub(crate) const ALL: [Self; 4] = [
        Self { name: "hot", keys: 1, limit: PLENTY, draw: Draw::One, target: FEW },
        Self { name: "denied", keys: 1, limit: TEN, draw: Draw::One, target: FEW },
        Self {
            name: "uniform-1m",
            keys: MILLION,
            limit: HUNDRED,
            draw: Draw::Uniform,
            target: MANY,
        },
        Self { name: "zipf-1m", keys: MILLION, limit: HUNDRED, draw: Draw::Zipf, target: MANY },
    ];
}
