//! Slidegate under measurement. No other file knows its types.

use core::future::{self, Future};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use slidegate::{
    Clock, Cost, Decision, Limiter, ManualClock, MonotonicClock, Policy, Quota, Secret,
};

pub(crate) use slidegate::{Algorithm, OnFull};

use crate::Failure;
use crate::floor::{Basis, Floor};
use crate::key::Key;
use crate::memory::Store;
use crate::numbers::BLOCK;
use crate::subject::{Subject, Timed, WINDOW_SECONDS};

/// A limiter with the default clock, checked for one key at a time.
#[derive(Debug)]
pub(crate) struct Ours {
    limiter: Limiter,
}

/// The exact log with the default clock, checked for a block of keys at a time.
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

/// Our hash and one of our clocks, for the floor.
#[derive(Debug)]
pub(crate) struct OurBasis<C> {
    secret: Secret,
    clock: C,
}

/// A whole minute since the epoch, so that aligned windows begin with the workload.
const START: Duration = Duration::from_secs(1_800_000_000);

/// Room for every workload: what happens at the limit is not measured here.
const MEMORY_LIMIT: usize = 8 << 30;

/// Shards of all parts together.
const SHARDS: usize = 1024;

/// Fixed, so that two runs place their keys alike.
const SECRET: [u8; 16] = *b"bench and secret";

fn policy(algorithm: Algorithm, limit: u64) -> Result<Policy, Failure> {
    let quota = Quota::new(limit, Duration::from_secs(60))?;
    Ok(Policy::builder("bench").quota(quota).algorithm(algorithm).build()?)
}

fn limiter(algorithm: Algorithm, limit: u32) -> Result<Limiter, Failure> {
    let builder = Limiter::builder(policy(algorithm, u64::from(limit))?);
    Ok(builder.memory_limit(MEMORY_LIMIT).build()?)
}

impl Ours {
    /// `limit` units per minute.
    pub(crate) fn new(algorithm: Algorithm, limit: u32) -> Result<Self, Failure> {
        Ok(Self { limiter: limiter(algorithm, limit)? })
    }

    /// The exact log, `limit` units per minute, within `memory_limit` bytes.
    pub(crate) fn bounded(
        limit: u32,
        memory_limit: usize,
        on_full: OnFull,
    ) -> Result<Self, Failure> {
        let builder = Limiter::builder(policy(Algorithm::Log, u64::from(limit))?);
        Ok(Self { limiter: builder.memory_limit(memory_limit).on_full(on_full).build()? })
    }
}

impl Subject for Ours {
    type Scratch = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        self.limiter.check(key).is_allowed()
    }
}

impl OursMany {
    /// `limit` units per minute.
    pub(crate) fn new(limit: u32) -> Result<Self, Failure> {
        Ok(Self { limiter: limiter(Algorithm::Log, limit)? })
    }
}

/// State of a thread that checks many keys at once: their buffers and the decisions.
#[derive(Debug)]
pub(crate) struct Batch {
    keys: [Key; BLOCK],
    decisions: Vec<Decision>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { keys: [Key::new(); BLOCK], decisions: Vec::new() }
    }
}

impl Subject for OursMany {
    type Scratch = Batch;

    fn check(&self, _lane: &mut Batch, key: &str) -> bool {
        self.limiter.check(key).is_allowed()
    }

    #[inline]
    fn check_block(&self, scratch: &mut Batch, numbers: &[u32]) -> u64 {
        for (key, number) in scratch.keys.iter_mut().zip(numbers) {
            key.write(*number);
        }
        let keys: [&str; BLOCK] = core::array::from_fn(|index| scratch.keys[index].as_str());
        self.limiter.check_many(&keys[..numbers.len()], Cost::ONE, &mut scratch.decisions);
        scratch.decisions.iter().map(|decision| u64::from(decision.is_allowed())).sum()
    }
}

impl OursTimed {
    /// `limit` units per minute.
    pub(crate) fn new(algorithm: Algorithm, limit: u64) -> Result<Self, Failure> {
        Self::part(algorithm, limit, 1)
    }

    /// As [`OursTimed::new`], one of `parts` limiters that together are as large as one.
    pub(crate) fn part(algorithm: Algorithm, limit: u64, parts: u32) -> Result<Self, Failure> {
        let clock = ManualClock::new(START);
        let limiter = Limiter::builder(policy(algorithm, limit)?)
            .clock(clock.clone())
            .memory_limit(MEMORY_LIMIT)
            .secret(SECRET);
        let limiter = if parts == 1 { limiter } else { limiter.shards(SHARDS / parts as usize) };
        Ok(Self { limiter: limiter.build()?, clock })
    }
}

impl Subject for OursTimed {
    type Scratch = ();

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
    type Scratch = Vec<Decision>;

    fn set_time(&self, millis: u64) {
        self.clock.set(START + Duration::from_millis(millis));
    }

    fn ask(&self, decisions: &mut Vec<Decision>, keys: &[u64]) {
        let bytes: [[u8; 8]; BLOCK] =
            core::array::from_fn(|index| keys.get(index).map_or([0; 8], |key| key.to_le_bytes()));
        self.limiter.check_many(&bytes[..keys.len()], Cost::ONE, decisions);
    }

    fn ask_units(&self, key: u64, units: u64) {
        if let Ok(cost) = Cost::new(units) {
            // Allowed or not: what counts here is what it leaves in memory.
            let _ = self.limiter.check_cost(&key.to_le_bytes(), cost);
        }
    }

    fn units(&self, key: u64) -> u64 {
        self.limiter.usage(&key.to_le_bytes()).units(0)
    }

    fn accounted_bytes(&self) -> Option<u64> {
        Some(self.limiter.stats().bytes as u64)
    }
}

impl OurBasis<MonotonicClock> {
    /// With the shipped default clock.
    pub(crate) fn monotonic() -> Self {
        Self { secret: Secret::new(SECRET), clock: MonotonicClock::new() }
    }
}

impl OurBasis<ManualClock> {
    /// With a manual clock at the start of a minute.
    pub(crate) fn manual() -> Self {
        Self { secret: Secret::new(SECRET), clock: ManualClock::new(START) }
    }
}

impl<C: Clock> Basis for OurBasis<C> {
    #[inline]
    fn fingerprint(&self, key: &str) -> u64 {
        slidegate::Key::fingerprint(key, &self.secret)
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.now()
    }
}

impl Timed for Floor<OurBasis<ManualClock>> {
    fn advance(&self, time: Duration) {
        self.basis().clock.advance(time);
    }
}

/// Many keys with one request each.
#[derive(Debug)]
pub(crate) struct Crowd {
    limiter: Limiter,
    clock: ManualClock,
}

impl Crowd {
    pub(crate) fn new() -> Result<Self, Failure> {
        let clock = ManualClock::new(START);
        let builder = Limiter::builder(policy(Algorithm::Log, 100)?).clock(clock.clone());
        Ok(Self { limiter: builder.memory_limit(MEMORY_LIMIT).secret(SECRET).build()?, clock })
    }

    pub(crate) fn check(&self, key: u64) {
        let _ = self.limiter.check(&key);
    }

    /// Advances the clock until nothing counts any more.
    pub(crate) fn let_all_expire(&self) {
        self.clock.advance(Duration::from_secs(2 * WINDOW_SECONDS));
    }

    /// Returns the number of dropped keys.
    pub(crate) fn sweep(&self, slots: usize) -> usize {
        self.limiter.sweep(slots)
    }

    pub(crate) fn save(&self, out: &mut impl std::io::Write) -> Result<(), Failure> {
        self.limiter.save(out)?;
        Ok(())
    }

    pub(crate) fn longest_hold(&self) -> Duration {
        self.limiter.stats().longest_hold
    }
}

/// A key whose log has a thousand entries, and callers that wait for its units.
#[derive(Debug)]
pub(crate) struct Line {
    limiter: Limiter,
}

impl Line {
    pub(crate) const WAITERS: u32 = 1000;

    pub(crate) fn new() -> Result<Self, Failure> {
        let clock = ManualClock::new(START);
        let limiter = Limiter::builder(policy(Algorithm::Log, Self::WAITERS.into())?);
        let limiter = limiter.clock(clock.clone()).build()?;
        for _ in 0..Self::WAITERS {
            let _ = limiter.check("busy");
            clock.advance(Duration::from_millis(7));
        }
        Ok(Self { limiter })
    }

    /// Returns a caller that waits for a unit behind all others. Dropping it moves those behind it
    /// up.
    pub(crate) fn waiter(&self) -> Result<impl Future, Failure> {
        let timeout = Duration::from_secs(10 * WINDOW_SECONDS);
        let wait = self.limiter.wait_timeout("busy", Cost::ONE, timeout, |_| future::pending());
        let mut wait = Box::pin(wait);
        match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(wait),
            Poll::Ready(_) => Err("a caller of the line need not wait".into()),
        }
    }

    pub(crate) fn longest_hold(&self) -> Duration {
        self.limiter.stats().longest_hold
    }
}
