//! Builds a limiter.

use core::fmt::Debug;
use core::time::Duration;
use std::sync::Arc;

use super::{Limiter, StoreId};
use crate::error::{Error, ErrorKind};
use crate::key::Secret;
use crate::memory::{AnyStore, MemoryStore, OnFull, StoreSettings};
use crate::policy::{Algorithm, Mode, Policy};
use crate::sync::atomic::AtomicUsize;
use crate::time::{AnyClock, Clock, ManualClock, MonotonicClock, TickScale};
use crate::window::{Counter, Fixed, Gcra, Limits, Log, PerQuota, Segments, Window};

/// Builds a [`Limiter`].
///
/// | setting | default |
/// |---|---|
/// | `clock` | [`MonotonicClock::new`] |
/// | `tick` | 1 ms |
/// | `memory_limit` | 256 MiB, a quarter of it kept for the overflow sketch |
/// | `on_full` | [`OnFull::Overflow`] |
/// | `shards` | 1024, fewer for a small `memory_limit` |
/// | `waiters_max` | 1024 |
/// | `waiters_per_key_max` | 1000 |
/// | `secret` | random |
#[derive(Debug)]
#[must_use = "call `build` to get a limiter"]
pub struct LimiterBuilder {
    policy: Policy,
    clock: Option<AnyClock>,
    tick: Duration,
    memory_limit: usize,
    on_full: OnFull,
    shards: Option<usize>,
    waiters_max: usize,
    waiters_per_key_max: usize,
    secret: Option<Secret>,
}

/// Two shards.
pub(super) const MEMORY_MIN: usize = 16 * 1024;
const SHARDS_MAX: usize = 65_536;

impl LimiterBuilder {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            clock: None,
            tick: Duration::from_millis(1),
            memory_limit: 256 << 20,
            on_full: OnFull::default(),
            shards: None,
            waiters_max: 1024,
            waiters_per_key_max: 1000,
            secret: None,
        }
    }

    /// Sets the clock.
    pub fn clock<C: Clock + 'static>(mut self, clock: C) -> Self {
        // The two clocks of this crate are called without a virtual call.
        let clock: Box<dyn core::any::Any> = Box::new(clock);
        self.clock = Some(match clock.downcast::<ManualClock>() {
            Ok(manual) => AnyClock::Manual(*manual),
            Err(clock) => match clock.downcast::<MonotonicClock>() {
                Ok(monotonic) => AnyClock::Monotonic(Arc::from(monotonic)),
                Err(clock) => match clock.downcast::<C>() {
                    Ok(other) => AnyClock::Other(Arc::from(other as Box<dyn Clock>)),
                    Err(_) => return self,
                },
            },
        });
        self
    }

    /// Sets the unit of stored time, 100 us to 1 s. A finer tick makes logs larger.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Keeps all state within `bytes`, at least [`Limiter::MEMORY_MIN`].
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// Sets how keys that do not fit into the table are treated.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Sets the number of shards, each with a lock: a power of two, at most 65536.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets the maximum number of callers that wait, for all keys together. Callers that get their
    /// units immediately do not count.
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiters_max = waiters;
        self
    }

    /// Sets the maximum number of callers that wait for the same key. Refunded units move the whole
    /// queue up while the key's shard is locked, so this bounds that time.
    pub fn waiters_per_key_max(mut self, waiters: usize) -> Self {
        self.waiters_per_key_max = waiters;
        self
    }

    /// Sets the secret for fingerprints, instead of a random one.
    pub fn secret(mut self, secret: [u8; 16]) -> Self {
        self.secret = Some(Secret::new(secret));
        self
    }

    /// Checks the settings and builds the limiter.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of range.
    pub fn build(self) -> Result<Limiter, Error> {
        let scale = TickScale::new(self.tick)?;
        let limits = Limits::new(self.policy.quotas(), self.policy.algorithm(), &scale);
        let settings = StoreSettings {
            shards: self.shard_count()?,
            memory_limit: self.memory_limit,
            on_full: self.on_full,
            scale,
            limits,
            waiters_max: self.waiters_max,
            waiters_per_key_max: self.waiters_per_key_max,
        };
        let clock = self.clock.unwrap_or_else(|| MonotonicClock::new().into());
        Ok(Limiter {
            limits,
            store: store(&self.policy, &settings),
            scale: scale.with_lag(clock.lag()),
            clock,
            secret: self.secret.unwrap_or_else(Secret::random),
            waits: self.policy.algorithm().supports_future_entries(),
            memory_limit: AtomicUsize::new(self.memory_limit),
            sweep_at: AtomicUsize::new(0),
            id: StoreId::unique(),
            lost: Vec::new(),
            policy: self.policy,
        })
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn tick_nanos(&self) -> u64 {
        u64::try_from(self.tick.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn set_secret(&mut self, secret: Secret) {
        self.secret = Some(secret);
    }

    /// Returns the checked number of shards. Each takes about 256 bytes when empty.
    fn shard_count(&self) -> Result<usize, Error> {
        if self.memory_limit < MEMORY_MIN {
            let (value, allowed) = (self.memory_limit, "16384 bytes or more");
            return Err(Error::out_of_range(ErrorKind::Setting, "memory_limit", value, allowed));
        }
        let most = (self.memory_limit / 8192).next_power_of_two().min(SHARDS_MAX);
        let shards = self.shards.unwrap_or(most.min(1024));
        if !shards.is_power_of_two() || shards > most {
            let allowed = format!("a power of two, at most {most} with this memory_limit");
            return Err(Error::out_of_range(ErrorKind::Setting, "shards", shards, &allowed));
        }
        Ok(shards)
    }
}

/// Returns the minimum memory limit for this number of shards.
pub(super) fn memory_least(shards: usize) -> usize {
    (shards / 2 * 8192 + 8192).max(MEMORY_MIN)
}

/// Creates the table for the policy's algorithm. A log has all its quotas over one sequence of
/// codes; the others have one state per quota.
fn store(policy: &Policy, settings: &StoreSettings) -> AnyStore {
    let is_usual = policy.quotas().len() == 1 && policy.mode() == Mode::Enforce;
    match policy.algorithm() {
        Algorithm::Log | Algorithm::LogCapped { .. } if is_usual => {
            AnyStore::Log(MemoryStore::new(settings))
        }
        Algorithm::Log | Algorithm::LogCapped { .. } => {
            AnyStore::Other(Box::new(MemoryStore::<Log>::new(settings)))
        }
        Algorithm::Counter if is_usual => AnyStore::Counter(MemoryStore::new(settings)),
        Algorithm::Counter => one_or_many::<Counter>(policy, settings),
        Algorithm::Segments { .. } => one_or_many::<Segments>(policy, settings),
        Algorithm::Gcra => one_or_many::<Gcra>(policy, settings),
        Algorithm::Fixed => one_or_many::<Fixed>(policy, settings),
    }
}

fn one_or_many<W: Window + Debug + 'static>(policy: &Policy, settings: &StoreSettings) -> AnyStore {
    match policy.quotas() {
        [_] => AnyStore::Other(Box::new(MemoryStore::<W>::new(settings))),
        _ => AnyStore::Other(Box::new(MemoryStore::<PerQuota<W>>::new(settings))),
    }
}
