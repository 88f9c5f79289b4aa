//! Builds a limiter on Redis.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Algorithm, Error, ErrorKind, FailureMode, Policy, Quota, Secret, StoreId};

use super::stats::LimiterCounts;
use super::tier::longest;
use super::{Guard, Inner, RedisLimiter};
use crate::deny::DenyCache;
use crate::lease::{LeaseSettings, Leases};
use crate::local::LocalFallback;
use crate::redis::Redis;
use crate::script::ScriptLimits;
use crate::servers::BackgroundTask;
use crate::wait_queue::WaitQueues;

/// Builds a [`RedisLimiter`].
#[derive(Debug)]
pub struct RedisLimiterBuilder {
    redis: Redis,
    policy: Policy,
    tick: Duration,
    guard: f64,
    secret_keys: bool,
    deny_keys: usize,
    deny_cap: Option<Duration>,
    lease: Option<Duration>,
    lease_share: u64,
    nodes: u64,
    local_memory: usize,
    waiters_max: usize,
    waiters_per_key_max: usize,
}

impl RedisLimiterBuilder {
    pub(crate) fn new(redis: Redis, policy: Policy) -> Self {
        Self {
            redis,
            policy,
            tick: Duration::from_millis(1),
            guard: 1.0,
            secret_keys: false,
            deny_keys: 16_384,
            deny_cap: Some(Duration::from_millis(100)),
            lease: None,
            lease_share: 16,
            nodes: 1,
            local_memory: 32 << 20,
            waiters_max: 1024,
            waiters_per_key_max: 1000,
        }
    }

    /// Sets the unit of stored time, by default 1 ms. It must be the same in all processes.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Uses only this share of every limit, for example 0.95, rounded down. It compensates for the
    /// error of approximate algorithms.
    #[must_use]
    pub fn guard_band(mut self, share: f64) -> Self {
        self.guard = share;
        self
    }

    /// Marks keys as secrets, such as tokens: they are hashed with the
    /// [`key_secret`](crate::RedisBuilder::key_secret) before they leave the process.
    #[must_use]
    pub fn secret_keys(mut self) -> Self {
        self.secret_keys = true;
        self
    }

    /// Repeats the denials of up to `keys` keys without calling Redis, by default 16384. Zero
    /// disables the cache.
    ///
    /// A cached denial of one cost also denies larger ones. `retry_after` is exact for the cost
    /// that Redis denied, and a lower bound for a larger one.
    #[must_use]
    pub fn deny_cache(mut self, keys: usize) -> Self {
        self.deny_keys = keys;
        self
    }

    /// Sets the maximum time that a denial is repeated without calling Redis, by default 100 ms. It
    /// is also the delay after which refunds, resets and raised limits of other processes take
    /// effect.
    ///
    /// With `None`, a denial is repeated for a sixteenth of the longest window, but at least 100
    /// ms, and not after time has freed units. This is exact if only time frees units. If the
    /// server's clock steps back, a key may be denied for a sixteenth more than one window.
    #[must_use]
    pub fn deny_cache_cap(mut self, cap: Option<Duration>) -> Self {
        self.deny_cap = cap;
        self
    }

    /// Takes units of hot keys for the next `length`, for example 5 ms, in one call. This requires
    /// the log or GCRA, which support entries in the future.
    ///
    /// Every unit counts for up to `length` longer than its window. Unused units are refunded at
    /// the end of the lease. Until then, other processes cannot use them, and the units of a
    /// process that is killed count as used.
    #[must_use]
    pub fn leases(mut self, length: Duration) -> Self {
        self.lease = Some(length);
        self
    }

    /// Sets the maximum size of a lease: the limit divided by `parts`, by default 16.
    #[must_use]
    pub fn lease_share(mut self, parts: u64) -> Self {
        self.lease_share = parts;
        self
    }

    /// Sets the number of processes that share the limit when each has to decide alone, for
    /// [`FailureMode::Local`]. The default is 1.
    #[must_use]
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.nodes = nodes;
        self
    }

    /// Sets the memory limit of the limiter for [`FailureMode::Local`], by default 32 MiB. Units that
    /// it admitted and has to report to Redis may take half as much in addition, and so may the last
    /// replies.
    #[must_use]
    pub fn local_memory(mut self, bytes: usize) -> Self {
        self.local_memory = bytes;
        self
    }

    /// Lets at most `waiters` callers of this process wait at a time, for all keys together; 1024 by
    /// default. Callers that get their units at once do not count.
    #[must_use]
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiters_max = waiters;
        self
    }

    /// Lets at most `waiters` callers of this process wait for units of the same key; 1000 by default.
    #[must_use]
    pub fn waiters_per_key_max(mut self, waiters: usize) -> Self {
        self.waiters_per_key_max = waiters;
        self
    }

    /// Validates the settings; calls no server.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of range or does not fit the policy.
    pub fn build(self) -> Result<RedisLimiter, Error> {
        self.check()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between zero and a million, rounded down"
        )]
        let guard = Guard((self.guard * 1e6) as u64);
        let (policy, keep) = (&self.policy, longest(self.policy.quotas()));
        let quotas = guard.quotas(policy.quotas())?;
        let limits = ScriptLimits::new(&quotas, policy.algorithm(), self.tick, keep)?;
        let algorithm = policy.algorithm();
        if self.lease.is_some() && !algorithm.supports_future_entries() {
            let message = format!("{algorithm:?} does not support leases: use Log or Gcra");
            return Err(Error::new(ErrorKind::Setting, message));
        }
        let local = match policy.failure_mode() {
            FailureMode::Local => {
                Some(LocalFallback::new(policy, &quotas, self.nodes, self.local_memory)?)
            }
            _ => None,
        };
        let deny = (self.deny_keys > 0).then(|| DenyCache::new(self.deny_keys, self.deny_cap));
        let inner = Inner {
            id: StoreId::unique(),
            stored_as: stored_as(policy.name(), self.tick, policy.algorithm()),
            tick: self.tick,
            guard,
            secret_keys: self.secret_keys,
            limits: Arc::new(limits),
            keep: AtomicU64::new(u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX)),
            secret: Secret::random(),
            deny,
            leases: self.lease.map(|length| {
                Leases::new(LeaseSettings { length, keys_max: 1024, share: self.lease_share })
            }),
            local,
            wait_queues: WaitQueues::new(self.waiters_max, self.waiters_per_key_max),
            reporter: BackgroundTask::default(),
            counts: LimiterCounts::default(),
            redis: self.redis,
            policy: self.policy,
        };
        Ok(RedisLimiter { inner: Arc::new(inner) })
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Setting, message));
        if !(self.guard > 0.0 && self.guard <= 1.0) {
            let share = self.guard;
            return refuse(format!("guard band {share} is out of range: use more than 0, up to 1"));
        }
        if self.secret_keys && !self.redis.shared.names.has_secret() {
            return refuse("secret keys need a secret: set RedisBuilder::key_secret".to_owned());
        }
        if !(1..=1_000_000).contains(&self.nodes) {
            return refuse(format!("nodes {} is out of range: use 1 to 1000000", self.nodes));
        }
        if self.deny_keys > 1 << 24 {
            return refuse(format!("deny cache of {} keys: use up to 16777216", self.deny_keys));
        }
        if self.lease_share == 0 {
            return refuse("lease share 0 is out of range: use 1 or more".to_owned());
        }
        let Some(length) = self.lease else {
            return Ok(());
        };
        if !(self.tick..=Duration::from_secs(1)).contains(&length) {
            return refuse(format!("lease of {length:?} is out of range: use a tick to 1 s"));
        }
        let shortest = self.policy.quotas().iter().map(Quota::window).min().unwrap_or_default();
        if length > shortest {
            return refuse(format!(
                "lease of {length:?} is longer than the window of {shortest:?}: use a small part \
                 of it"
            ));
        }
        Ok(())
    }
}

/// Returns the name under which a policy's keys are stored. It contains the tick and the algorithm,
/// because state of others would be misread, or rejected until it has expired. So a policy whose
/// algorithm changes starts from zero, and processes with the old one count separately.
fn stored_as(policy: &str, tick: Duration, algorithm: Algorithm) -> Box<str> {
    let algorithm = match algorithm {
        // Both read each other's state.
        Algorithm::Log | Algorithm::LogCapped { .. } => "",
        other => other.name(),
    };
    let tick = match tick.as_micros() {
        1000 => String::new(),
        micros => format!("{micros}us"),
    };
    match (algorithm, tick.as_str()) {
        ("", "") => policy.into(),
        ("", mark) | (mark, "") => format!("{policy}@{mark}").into(),
        (algorithm, tick) => format!("{policy}@{algorithm}-{tick}").into(),
    }
}

#[cfg(test)]
mod tests;
