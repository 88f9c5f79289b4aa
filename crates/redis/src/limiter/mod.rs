//! A policy whose state is in Redis.

mod all;
mod builder;
mod call;
mod degraded;
mod leased;
mod look;
mod receipt;
mod stats;
mod tier;

pub use all::{RedisAsk, check_all};
pub use builder::RedisLimiterBuilder;
pub use stats::RedisStats;
pub use tier::RedisTier;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Cost, Decision, Error, Key, Mode, Policy, Quota, Receipt, Secret, Store};
use tokio::time::Instant;

use crate::deny::{CachedDenial, DenyCache, ReplyTimes};
use crate::key::TieredKey;
use crate::lease::{LeaseEntry, Leases};
use crate::local::LocalFallback;
use crate::redis::Redis;
use crate::script::{KeyReply, Op, ScriptLimits};
use stats::LimiterCounts;

/// Decides checks under one policy, together with every other process that has a limiter of the
/// same name and prefix on the same servers.
///
/// Shared by reference or in an `Arc`. A decision takes one script call; fewer when many come at the
/// same time, with the deny cache and with leases. It is made within the deadline: without a reply
/// the policy's [`FailureMode`](slidegate::FailureMode) decides, and the decision is marked as
/// degraded. A check whose future is dropped may have been charged.
#[derive(Debug)]
pub struct RedisLimiter {
    inner: Arc<Inner>,
}

/// What the tasks that end leases hold on to.
#[derive(Debug)]
struct Inner {
    redis: Redis,
    policy: Policy,
    /// The policy's name in the names of keys.
    stored_as: Box<str>,
    tick: Duration,
    guard: Guard,
    /// Keys are hashed before they leave the process.
    secret_keys: bool,
    limits: ScriptLimits,
    /// The longest window of the policy and all its tiers, in nanoseconds.
    keep: AtomicU64,
    /// For fingerprints in this process's tables.
    secret: Secret,
    deny: Option<DenyCache>,
    leases: Option<Leases>,
    local: Option<LocalFallback>,
    counts: LimiterCounts,
}

/// A check that is being decided.
#[derive(Debug, Clone, Copy)]
struct Check<'a> {
    key: &'a [u8],
    tier: Option<&'a RedisTier>,
    cost: Cost,
    tiered_key: TieredKey,
    /// The deadline for its decision.
    until: Instant,
}

/// The share of every limit that is used, in millionths.
#[derive(Debug, Clone, Copy)]
struct Guard(u64);

impl RedisLimiter {
    /// Asks for one unit, and takes it if allowed.
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Decision {
        self.inner.check(key.as_ref(), None, Cost::ONE).await
    }

    /// Asks for several units, and takes them all if allowed.
    pub async fn check_cost(&self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.inner.check(key.as_ref(), None, cost).await
    }

    /// As [`check_cost`](RedisLimiter::check_cost), for a key that has other quotas than the
    /// policy.
    pub async fn check_tier(
        &self,
        key: impl AsRef<[u8]>,
        tier: &RedisTier,
        cost: Cost,
    ) -> Decision {
        self.inner.check(key.as_ref(), Some(tier), cost).await
    }

    /// Removes a key, here and in Redis. Returns `true` if it existed. Its receipts and this limiter's
    /// leases become void. Leases of other processes last to their end; until then each of them may
    /// allow what it has left in addition.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        let reply = self.inner.run_op(key, &self.inner.limits(None), Op::Reset).await;
        self.inner.forget_denial(key);
        let unused = self.inner.reset_leases(key);
        if reply.is_err() {
            // If it was not reset after all, they still count.
            for unused in unused {
                self.inner.return_soon(key, unused);
            }
        }
        match reply?.reply {
            KeyReply::Found(found) => {
                let here = self.inner.local.as_ref().is_some_and(|local| local.reset(key));
                Ok(found || here)
            }
            other => Err(other.unexpected().into()),
        }
    }

    /// Other quotas for some keys, as for paying customers; made once, used often.
    ///
    /// # Errors
    ///
    /// When there is no quota, or more than the policy has; for other algorithms than the log also
    /// when there are fewer.
    pub fn tier(&self, quotas: &[Quota]) -> Result<RedisTier, Error> {
        let tier = RedisTier::new(quotas, &self.inner)?;
        let nanos = u64::try_from(tier.longest().as_nanos()).unwrap_or(u64::MAX);
        self.inner.keep.fetch_max(nanos, Ordering::Relaxed);
        Ok(tier)
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// What has happened so far.
    pub fn stats(&self) -> RedisStats {
        RedisStats::new(&self.inner.counts, &self.inner.redis.shared.servers)
    }
}

/// What this process can say about a check without calling Redis.
enum Memory {
    /// A lease allows it.
    Allowed(Decision),
    /// The local fallback denies it, because of what it allowed while Redis was unavailable.
    DeniedByFallback(Decision),
    /// The units of the key's lease are used up, or it has no lease yet.
    LeaseEmpty(Arc<LeaseEntry>),
    /// Redis has to decide.
    Unknown,
}

/// The path of a check: [`check`](Inner::check) repeats denials from the deny cache,
/// [`check_memory`](Inner::check_memory) uses the local fallback and the lease,
/// [`check_by_lease`](Inner::check_by_lease) fetches a lease for a hot key, and
/// [`check_in_redis`](Inner::check_in_redis) makes a script call for this check alone, or
/// [`degrade`](Inner::degrade)s if that fails.
impl Inner {
    async fn check(self: &Arc<Self>, key: &[u8], tier: Option<&RedisTier>, cost: Cost) -> Decision {
        let tiered_key = self.tiered_key(key, tier);
        if let Some(denial) = self.cached_denial(tiered_key, cost) {
            self.counts.denied_at_once.fetch_add(1, Ordering::Relaxed);
            return self.apply_mode(denial.decision());
        }
        self.counts.not_cached.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let check = Check { key, tier, cost, tiered_key, until: self.redis.deadline(now) };
        match self.check_memory(check, now) {
            Memory::Allowed(decision) => decision,
            // The future of a call is large: decisions from memory do not carry it.
            memory => Box::pin(self.check_beyond_memory(memory, check, now)).await,
        }
    }

    /// Decides a check by the local fallback or the key's lease, without calling Redis.
    fn check_memory(&self, check: Check<'_>, now: Instant) -> Memory {
        let Check { key, tier, cost, tiered_key, .. } = check;
        if let Some(denial) = self.fallback_denial(key, tier, cost, now) {
            return Memory::DeniedByFallback(denial);
        }
        let entry = self.leases.as_ref().and_then(|leases| {
            let entry = leases.entry(tiered_key, now)?;
            entry.note_demand(cost.get(), now, leases.length());
            Some(entry)
        });
        let Some(entry) = entry else {
            return Memory::Unknown;
        };
        match self.take_from_lease(&entry, check, now) {
            Some(decision) => Memory::Allowed(decision),
            None => Memory::LeaseEmpty(entry),
        }
    }

    async fn check_beyond_memory(
        self: &Arc<Self>,
        memory: Memory,
        check: Check<'_>,
        now: Instant,
    ) -> Decision {
        match (memory, &self.leases) {
            (Memory::Allowed(decision), _) => decision,
            (Memory::DeniedByFallback(denial), _) => {
                self.probe(check.key, check.tier, check.until).await;
                self.counts.degraded.fetch_add(1, Ordering::Relaxed);
                self.apply_mode(denial.into_degraded())
            }
            (Memory::LeaseEmpty(entry), Some(leases)) => {
                self.check_by_lease(leases, entry, check, now).await
            }
            (Memory::LeaseEmpty(_), None) | (Memory::Unknown, _) => {
                self.check_in_redis(check).await
            }
        }
    }

    /// Decides a check by a script call of its own.
    async fn check_in_redis(&self, check: Check<'_>) -> Decision {
        let Check { key, tier, cost, tiered_key, until } = check;
        let op = Op::Check { cost: cost.get() };
        let called = self.run_op_until(key, &self.limits(tier), op, until).await;
        let decided =
            called.and_then(|called| Ok((called.reply.decision(tiered_key.key)?, called.times)));
        match decided {
            Ok((decision, times)) => {
                if decision.is_allowed() {
                    self.keep_warm(key, tier, cost);
                }
                self.remember_denial(cost, tiered_key, times, &decision);
                self.apply_mode(decision)
            }
            Err(failure) => self.degrade(key, tier, cost, &failure),
        }
    }

    /// A denial that the deny cache repeats.
    #[inline]
    fn cached_denial(&self, tiered_key: TieredKey, cost: Cost) -> Option<CachedDenial> {
        self.deny.as_ref()?.get(tiered_key, cost.get())
    }

    /// Stores a decision of Redis in the deny cache, if it is a denial.
    fn remember_denial(
        &self,
        cost: Cost,
        tiered_key: TieredKey,
        times: ReplyTimes,
        decision: &Decision,
    ) {
        if !decision.is_allowed()
            && let Some(deny) = &self.deny
        {
            deny.put(tiered_key, cost.get(), times, decision);
        }
    }

    fn forget_denial(&self, key: &[u8]) {
        if let Some(deny) = &self.deny {
            deny.remove(self.tiered_key(key, None).key, Instant::now());
        }
    }

    /// In shadow mode a denial becomes an allowance that is marked as shadow-denied.
    #[inline]
    fn apply_mode(&self, decision: Decision) -> Decision {
        if self.policy.mode() == Mode::Shadow { decision.into_shadow() } else { decision }
    }

    fn tiered_key(&self, key: &[u8], tier: Option<&RedisTier>) -> TieredKey {
        TieredKey { key: key.fingerprint(&self.secret), tier: tier.map_or(0, RedisTier::salt) }
    }

    fn limits(&self, tier: Option<&RedisTier>) -> ScriptLimits {
        let limits = tier.map_or(&self.limits, RedisTier::limits);
        limits.keeping(Duration::from_nanos(self.keep.load(Ordering::Relaxed)))
    }
}

impl Guard {
    const WHOLE: u64 = 1_000_000;

    /// Rounded down, but at least one.
    fn of(self, limit: u64) -> u64 {
        let guarded = u128::from(limit) * u128::from(self.0) / u128::from(Self::WHOLE);
        u64::try_from(guarded).unwrap_or(limit).max(1)
    }

    fn quotas(self, quotas: &[Quota]) -> Result<Vec<Quota>, Error> {
        quotas.iter().map(|quota| Quota::new(self.of(quota.limit()), quota.window())).collect()
    }
}

impl Store for RedisLimiter {
    fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    async fn check(&self, key: &[u8], cost: Cost) -> Result<Decision, Error> {
        Ok(self.check_cost(key, cost).await)
    }

    async fn peek(&self, key: &[u8], cost: Cost) -> Result<Decision, Error> {
        Self::peek(self, key, cost).await
    }

    async fn refund(&self, key: &[u8], receipt: Receipt) -> Result<u64, Error> {
        Self::refund(self, key, receipt).await
    }

    async fn reset(&self, key: &[u8]) -> Result<bool, Error> {
        Self::reset(self, key).await
    }
}
