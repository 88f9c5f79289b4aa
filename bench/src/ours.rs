//! Slidegate under measurement. No other file knows its types.

use core::time::Duration;

use slidegate::{Clock, Cost, Decision, Limiter, ManualClock, MonotonicClock, Policy, Quota};

pub(crate) use slidegate::Algorithm;

use crate::Failure;
use crate::floor::{Floor, Time};
use crate::key::Key;
use crate::memory::Store;
use crate::numbers::BLOCK;
use crate::subject::{Subject, Timed};

/// A limiter with the shipped default clock, asked for one key at a time.
#[derive(Debug)]
pub(crate) struct Ours {
    limiter: Limiter,
}

/// The exact log with the shipped default clock, asked for a block of keys at a time.
#[derive(Debug)]
pub(crate) struct OursMany {
    limiter: Limiter,
}

/// A limiter with a manual clock.
#[derive(Debug)]
pub(crate) struct OursTimed {
    limiter: Limiter,
    clock: ManualClock,
}

/// The shipped default clock, for the floor.
#[derive(Debug)]
pub(crate) struct MonotonicTime(MonotonicClock);

/// A manual clock, for the floor.
#[derive(Debug)]
pub(crate) struct ManualTime(ManualClock);

/// A whole minute since the epoch, so that aligned windows begin with the workload.
const START: Duration = Duration::from_secs(1_800_000_000);

/// Room for every workload: what happens at the limit is not measured here.
const MEMORY_LIMIT: usize = 8 << 30;

/// Fixed, so that two runs place their keys alike.
const SECRET: [u8; 16] = *b"bench and secret";

fn policy(algorithm: Algorithm, limit: u64) -> Result<Policy, Failure> {
    let quota = Quota::per_minute(limit)?;
    Ok(Policy::builder("bench")
        .quota(quota)
        .algorithm(algorithm)
        .build()?)
}

fn limiter(algorithm: Algorithm, limit: u32) -> Result<Limiter, Failure> {
    let builder = Limiter::builder(policy(algorithm, u64::from(limit))?);
    Ok(builder.memory_limit(MEMORY_LIMIT).build()?)
}

impl Ours {
    /// `limit` units a minute.
    pub(crate) fn new(algorithm: Algorithm, limit: u32) -> Result<Self, Failure> {
        Ok(Self {
            limiter: limiter(algorithm, limit)?,
        })
    }
}

impl Subject for Ours {
    type Lane = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        self.limiter.check(key).is_allowed()
    }
}

impl OursMany {
    /// `limit` units a minute.
    pub(crate) fn new(limit: u32) -> Result<Self, Failure> {
        Ok(Self {
            limiter: limiter(Algorithm::Log, limit)?,
        })
    }
}

/// What a thread that asks for many keys at once keeps: their buffers and the answers.
#[derive(Debug)]
pub(crate) struct Batch {
    keys: [Key; BLOCK],
    decisions: Vec<Decision>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            keys: [Key::new(); BLOCK],
            decisions: Vec::new(),
        }
    }
}

impl Subject for OursMany {
    type Lane = Batch;

    fn check(&self, _lane: &mut Batch, key: &str) -> bool {
        self.limiter.check(key).is_allowed()
    }

    #[inline]
    fn check_block(&self, lane: &mut Batch, numbers: &[u32]) -> u64 {
        for (key, number) in lane.keys.iter_mut().zip(numbers) {
            key.write(*number);
        }
        let keys: [&str; BLOCK] = core::array::from_fn(|index| lane.keys[index].as_str());
        self.limiter
            .check_many(&keys[..numbers.len()], Cost::ONE, &mut lane.decisions);
        lane.decisions
            .iter()
            .map(|decision| u64::from(decision.is_allowed()))
            .sum()
    }
}

impl OursTimed {
    /// `limit` units a minute.
    pub(crate) fn new(algorithm: Algorithm, limit: u64) -> Result<Self, Failure> {
        let clock = ManualClock::new(START);
        let limiter = Limiter::builder(policy(algorithm, limit)?)
            .clock(clock.clone())
            .memory_limit(MEMORY_LIMIT)
            .secret(SECRET)
            .build()?;
        Ok(Self { limiter, clock })
    }
}

impl Subject for OursTimed {
    type Lane = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        self.limiter.check(key).is_allowed()
    }
}

impl Timed for OursTimed {
    fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }
}

impl Store for OursTimed {
    type Lane = Vec<Decision>;

    fn set_time(&self, millis: u64) {
        self.clock.set(START + Duration::from_millis(millis));
    }

    fn ask(&self, decisions: &mut Vec<Decision>, keys: &[u64]) {
        self.limiter.check_many(keys, Cost::ONE, decisions);
    }

    fn ask_units(&self, key: u64, units: u64) {
        if let Ok(cost) = Cost::new(units) {
            // Allowed or not: what counts here is what it leaves in memory.
            let _ = self.limiter.check_cost(&key, cost);
        }
    }

    fn units(&self, key: u64) -> u64 {
        self.limiter.usage(&key).units(0)
    }

    fn accounted_bytes(&self) -> Option<u64> {
        Some(self.limiter.stats().bytes as u64)
    }
}

impl MonotonicTime {
    /// A clock of its own.
    pub(crate) fn new() -> Self {
        Self(MonotonicClock::new())
    }
}

impl Time for MonotonicTime {
    #[inline]
    fn nanos(&self) -> u64 {
        self.0.now()
    }
}

impl ManualTime {
    /// Stands at the start of a minute.
    pub(crate) fn new() -> Self {
        Self(ManualClock::new(START))
    }
}

impl Time for ManualTime {
    #[inline]
    fn nanos(&self) -> u64 {
        self.0.now()
    }
}

impl Timed for Floor<ManualTime> {
    fn advance(&self, time: Duration) {
        self.time().0.advance(time);
    }
}
