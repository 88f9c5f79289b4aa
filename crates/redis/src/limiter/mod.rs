//! A policy whose state is in Redis.

mod all;
mod block;
mod builder;
mod call;
mod charge;
mod degraded;
mod leased;
mod many;
mod report;
mod stats;
mod store;
mod tier;
mod wait;
mod with_quotas;

pub use all::{RedisAsk, check_all};
pub use builder::RedisLimiterBuilder;
pub use stats::RedisStats;
pub use with_quotas::RedisWithQuotas;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slidegate::{
    Cost, Decision, DegradedReason, Error, Event, Key, Mode, Policy, Quota, Quotas, Receipt,
    Secret, StoreId, Tier, Usage,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::deny::{CachedDenial, DeniedCheck, DenyCache, ReplyTimes};
use crate::key::TieredKey;
use crate::lease::{LeaseEntry, Leases};
use crate::local::LocalFallback;
use crate::redis::Redis;
use crate::script::{KeyReply, Op, ScriptLimits};
use crate::servers::{BackgroundTask, Failure};
use crate::wait_queue::WaitQueues;
use call::TimedReply;
use stats::LimiterCounts;
use tier::RedisTier;
use with_quotas::TierOf;

/// Decides checks with one policy, together with every other process that has a limiter of the same
/// name and prefix on the same servers.
///
/// Share it by reference or in an `Arc`. A decision takes one script call, or fewer with batching,
/// the deny cache and leases. It is made within the deadline: without a reply, the policy's
/// [`FailureMode`](slidegate::FailureMode) decides, and the decision is marked as degraded. A check
/// whose future is dropped may have been charged.
///
/// Calls need a tokio runtime with timers and I/O enabled. Outside of one, the failure mode
/// decides.
#[derive(Debug)]
pub struct RedisLimiter {
    inner: Arc<Inner>,
}

/// The state that the tasks of leases share.
#[derive(Debug)]
struct Inner {
    id: StoreId,
    redis: Redis,
    policy: Policy,
    /// The policy's name in the names of keys.
    stored_as: Box<str>,
    tick: Duration,
    guard: Guard,
    /// Whether keys are hashed before they leave the process.
    secret_keys: bool,
    limits: Arc<ScriptLimits>,
    /// The longest window of the policy and all its tiers, in nanoseconds.
    keep: AtomicU64,
    /// The secret of fingerprints in this process.
    secret: Secret,
    deny: Option<DenyCache>,
    leases: Option<Leases>,
    local: Option<LocalFallback>,
    /// Callers that wait for units.
    wait_queues: WaitQueues,
    /// The task that reports units of the local fallback.
    reporter: BackgroundTask,
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
    /// Checks one unit, and takes it if allowed.
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Decision {
        self.with_policy().check(key).await
    }

    /// Checks several units, and takes them all if allowed.
    pub async fn check_cost(&self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.with_policy().check_cost(key, cost).await
    }

    /// Takes as many units as fit, at most `cost`: see [`RedisWithQuotas::check_at_most`].
    pub async fn check_at_most(&self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.with_policy().check_at_most(key, cost).await
    }

    /// Checks many keys independently of each other, and stores one decision for each in the same
    /// order. A key that occurs several times with the same quotas is checked in order.
    ///
    /// Checks that can share a script call do, up to
    /// [`checks_per_call_max`](crate::RedisBuilder::checks_per_call_max) per call; in a cluster, only those of
    /// the same slot can. All calls are sent at the same time under one deadline, that of a single
    /// check. Without a reply to a call, the policy's failure mode decides its checks. A call
    /// counts once against [`in_flight_max`](crate::RedisBuilder::in_flight_max), however many
    /// checks it has.
    ///
    /// ```no_run
    /// # async fn run(limiter: slidegate_redis::RedisLimiter) {
    /// use slidegate::Cost;
    ///
    /// let mut decisions = Vec::new();
    /// limiter.check_many(&["alice", "bob"], Cost::ONE, &mut decisions).await;
    /// assert_eq!(decisions.len(), 2);
    /// # }
    /// ```
    pub async fn check_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        cost: Cost,
        decisions: &mut Vec<Decision>,
    ) {
        self.with_policy().check_many(keys, cost, decisions).await;
    }

    /// Evaluates [`check`](RedisLimiter::check) without taking units.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not reply.
    pub async fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision, Error> {
        self.with_policy().peek(key).await
    }

    /// Evaluates [`check_cost`](RedisLimiter::check_cost) without taking units.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not reply.
    pub async fn peek_cost(&self, key: impl AsRef<[u8]>, cost: Cost) -> Result<Decision, Error> {
        self.with_policy().peek_cost(key, cost).await
    }

    /// Takes an estimate now, which [`settle`](RedisLimiter::settle) corrects when the cost is
    /// known: see [`RedisWithQuotas::reserve`].
    pub async fn reserve(&self, key: impl AsRef<[u8]>, estimate: u64) -> Decision {
        self.with_policy().reserve(key, estimate).await
    }

    /// Takes units as soon as they are available, within `timeout`: see
    /// [`RedisWithQuotas::wait_timeout`].
    ///
    /// # Errors
    ///
    /// As [`RedisWithQuotas::wait_timeout`].
    pub async fn wait_timeout(
        &self,
        key: impl AsRef<[u8]>,
        cost: Cost,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        self.with_policy().wait_timeout(key, cost, timeout).await
    }

    /// Refunds exactly the units of a receipt: see [`RedisWithQuotas::refund`].
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not reply. The units may have been refunded.
    pub async fn refund(&self, key: impl AsRef<[u8]>, receipt: Receipt) -> Result<u64, Error> {
        self.with_policy().refund(key, receipt).await
    }

    /// Corrects a reservation to its actual cost: see [`RedisWithQuotas::settle`].
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not reply.
    pub async fn settle(
        &self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        self.with_policy().settle(key, receipt, actual).await
    }

    /// Records units without a check, above the limit if necessary: see
    /// [`RedisWithQuotas::charge`].
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not reply. The units may have been recorded.
    pub async fn charge(&self, key: impl AsRef<[u8]>, units: u64) -> Result<u64, Error> {
        self.with_policy().charge(key, units).await
    }

    /// Refunds up to `units` without a receipt: see [`RedisWithQuotas::forgive`].
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not reply. The units may have been refunded.
    pub async fn forgive(&self, key: impl AsRef<[u8]>, units: u64) -> Result<u64, Error> {
        self.with_policy().forgive(key, units).await
    }

    /// Returns the units that count against each quota now.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not reply.
    pub async fn usage(&self, key: impl AsRef<[u8]>) -> Result<Usage, Error> {
        self.with_policy().usage(key).await
    }

    /// Returns every request that is still in the longest window, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm is not a log, or if Redis did not reply.
    pub async fn history(&self, key: impl AsRef<[u8]>) -> Result<Vec<Event>, Error> {
        self.with_policy().history(key).await
    }

    /// Returns the limiter with the quotas of a tier, for the keys that have it.
    ///
    /// # Errors
    ///
    /// Returns an error if another limiter created the tier.
    pub fn with<'a>(&'a self, quotas: impl Into<Quotas<'a>>) -> Result<RedisWithQuotas<'a>, Error> {
        let quotas = match quotas.into() {
            Quotas::Policy => TierOf::Policy,
            Quotas::Tier(tier) => TierOf::Prepared(tier.prepared(self.inner.id)?),
            Quotas::Given(quotas) => return self.with_quotas(quotas),
        };
        Ok(RedisWithQuotas { limiter: self, quotas })
    }

    /// Returns the limiter with quotas that are given with the request, such as a limit that a
    /// database holds for each customer. No tier has to be created before.
    ///
    /// Every process that checks the key has to know its longest window, as with tiers. Keys are
    /// kept for the longest window that any request or tier of this process ever had, so do not
    /// take windows from clients.
    ///
    /// # Errors
    ///
    /// As [`tier`](RedisLimiter::tier).
    pub fn with_quotas(&self, quotas: &[Quota]) -> Result<RedisWithQuotas<'_>, Error> {
        Tier::check(&self.inner.policy, quotas)?;
        let tier = self.inner.prepare(quotas)?;
        Ok(RedisWithQuotas { limiter: self, quotas: TierOf::Given(Arc::new(tier)) })
    }

    fn with_policy(&self) -> RedisWithQuotas<'_> {
        self.into()
    }

    /// Removes a key and ends its block, here and in Redis. Returns `true` if it existed. Its
    /// receipts and this limiter's leases become void. Leases of other processes last to their end;
    /// until then each of them may allow what it has left in addition.
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
            // If the key was not reset, they still count.
            for unused in unused {
                self.inner.return_soon(key, unused);
            }
        }
        match reply?.reply {
            KeyReply::Found(found) => {
                let fingerprint = self.inner.tiered_key(key, None).key;
                let local = self.inner.local.as_ref();
                let here = local.is_some_and(|local| local.reset(key, fingerprint));
                Ok(found || here)
            }
            other => Err(other.unexpected().into()),
        }
    }

    /// Prepares other quotas for some keys, such as paying customers. Create a tier once and use it
    /// often.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no quota or more than the policy has. Algorithms other than the
    /// log need the same number as the policy.
    pub fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        let inner = &self.inner;
        Tier::new(inner.id, &inner.policy, quotas, || inner.prepare(quotas))
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// Returns the counters.
    pub fn stats(&self) -> RedisStats {
        let Inner { counts, local, wait_queues, redis, .. } = &*self.inner;
        let stats = RedisStats::new(counts, local.as_ref(), &redis.shared.servers);
        stats.with_waiters(wait_queues.waiters())
    }
}

/// The result of a check without calling Redis.
enum Memory {
    /// A lease allows it.
    Allowed(Decision),
    /// The local fallback denies it, and its units are not yet recorded in Redis.
    DeniedByFallback(Decision),
    /// The units of the key's lease are used up, or it has no lease yet.
    LeaseEmpty(Arc<LeaseEntry>),
    /// Redis has to decide.
    Unknown,
}

/// The path of a check: [`check_cached`](Inner::check_cached) repeats denials from the deny
/// cache,
/// [`check_memory`](Inner::check_memory) uses the local fallback and the lease,
/// [`check_by_lease`](Inner::check_by_lease) fetches a lease for a hot key, and
/// [`check_in_redis`](Inner::check_in_redis) makes a script call for this check alone, or
/// [`degrade`](Inner::degrade)s if that fails.
impl Inner {
    async fn check(self: &Arc<Self>, key: &[u8], tier: Option<&RedisTier>, cost: Cost) -> Decision {
        match self.check_cached(key, tier, cost) {
            Some(denial) => denial,
            None => self.check_uncached(key, tier, cost).await,
        }
    }

    /// Returns the denial of a check from the deny cache.
    fn check_cached(&self, key: &[u8], tier: Option<&RedisTier>, cost: Cost) -> Option<Decision> {
        let denial = self.cached_denial(self.tiered_key(key, tier), cost)?;
        self.counts.denied_at_once.fetch_add(1, Ordering::Relaxed);
        Some(self.apply_mode(denial.decision()))
    }

    /// Decides a check that is not in the deny cache.
    async fn check_uncached(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Decision {
        let tiered_key = self.tiered_key(key, tier);
        self.counts.not_cached.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let check = Check { key, tier, cost, tiered_key, until: self.redis.deadline(now) };
        match self.check_memory(check, now) {
            Memory::Allowed(decision) => decision,
            // The future of a call is large, and decisions without a call do not need it.
            memory => Box::pin(self.check_beyond_memory(memory, check, now)).await,
        }
    }

    /// Decides a check with the local fallback or the key's lease, without calling Redis.
    fn check_memory(self: &Arc<Self>, check: Check<'_>, now: Instant) -> Memory {
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
        if Handle::try_current().is_err() {
            return self.degrade(check.key, check.tier, check.cost, &Failure::no_runtime());
        }
        match (memory, &self.leases) {
            (Memory::Allowed(decision), _) => decision,
            (Memory::DeniedByFallback(denial), _) => {
                let half = now + check.until.saturating_duration_since(now) / 2;
                if self.wait_for_report(check.tiered_key.key, half).await {
                    return self.check_in_redis(check).await;
                }
                self.counts.degraded.fetch_add(1, Ordering::Relaxed);
                self.apply_mode(denial.into_degraded(DegradedReason::Recovering))
            }
            (Memory::LeaseEmpty(entry), Some(leases)) => {
                self.check_by_lease(leases, entry, check, now).await
            }
            (Memory::LeaseEmpty(_), None) | (Memory::Unknown, _) => {
                self.check_in_redis(check).await
            }
        }
    }

    /// Takes as many units as fit, at most `cost`. If one unit is denied without a call, more are
    /// denied too.
    async fn check_at_most(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Decision {
        if let Some(denial) = self.check_cached(key, tier, Cost::ONE) {
            return denial;
        }
        self.counts.not_cached.fetch_add(1, Ordering::Relaxed);
        let (now, tiered_key) = (Instant::now(), self.tiered_key(key, tier));
        let until = self.redis.deadline(now);
        let check = Check { key, tier, cost: Cost::ONE, tiered_key, until };
        if let Some(denial) = self.fallback_denial(key, tier, Cost::ONE, now) {
            return self.check_beyond_memory(Memory::DeniedByFallback(denial), check, now).await;
        }
        self.run_check(check, Op::AtMost { units_max: cost.get() }).await
    }

    /// Decides a check with a separate script call.
    async fn check_in_redis(self: &Arc<Self>, check: Check<'_>) -> Decision {
        self.run_check(check, Op::Check { cost: check.cost.get() }).await
    }

    /// Decides a check with the script operation `op`, or with the failure mode.
    async fn run_check(self: &Arc<Self>, check: Check<'_>, op: Op<'_>) -> Decision {
        let turn = match self.redis.shared.servers.enter(check.until).await {
            Ok(turn) => turn,
            Err(failure) => return self.degrade(check.key, check.tier, check.cost, &failure),
        };
        // A check that has waited may be denied by the reply to another one.
        if turn.has_waited
            && let Some(denial) = self.cached_denial(check.tiered_key, check.cost)
        {
            self.counts.denied_later.fetch_add(1, Ordering::Relaxed);
            return self.apply_mode(denial.decision());
        }
        let limits = self.limits(check.tier);
        let called = self.run_op_in_turn(check.key, &limits, op, &turn).await;
        self.conclude(check, &limits, called)
    }

    /// Turns the reply to a check into its decision, or lets the failure mode decide.
    fn conclude(
        self: &Arc<Self>,
        check: Check<'_>,
        limits: &ScriptLimits,
        called: Result<TimedReply, Failure>,
    ) -> Decision {
        let Check { key, tier, cost, tiered_key, .. } = check;
        let decided = called.and_then(|called| {
            let decision = called.reply.decision(tiered_key.key)?;
            Ok((called, decision))
        });
        match decided {
            Ok((called, decision)) => {
                let taken = decision.receipt().and_then(|taken| Cost::new(taken.units()).ok());
                if let Some(taken) = taken {
                    self.notice_lost_key(tiered_key, &called.reply);
                    self.keep_warm(key, tier, taken);
                }
                self.note_reply(key, tier, &decision, called.times);
                let (cost, window) = (cost.get(), limits.window());
                let denied = DeniedCheck { key: tiered_key, cost, window, decision: &decision };
                self.remember_denial(denied, called.times);
                self.apply_mode(decision)
            }
            Err(failure) => self.degrade(key, tier, cost, &failure),
        }
    }

    /// Returns a denial from the deny cache.
    #[inline]
    fn cached_denial(&self, tiered_key: TieredKey, cost: Cost) -> Option<CachedDenial> {
        self.deny.as_ref()?.get(tiered_key, cost.get())
    }

    /// Stores a decision of Redis in the deny cache, if it is a denial.
    fn remember_denial(&self, checked: DeniedCheck<'_>, times: ReplyTimes) {
        if !checked.decision.is_allowed()
            && let Some(deny) = &self.deny
        {
            deny.put(checked, times);
        }
    }

    /// Counts a key that is empty although Redis has just denied it.
    fn notice_lost_key(&self, tiered_key: TieredKey, reply: &KeyReply) {
        if reply.took_first_units()
            && let Some(deny) = &self.deny
            && deny.has_unexpired_units(tiered_key)
        {
            self.counts.lost_keys.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that units of a key may be available earlier than Redis said.
    fn forget_denial(&self, key: &[u8]) {
        let key = self.tiered_key(key, None).key;
        if let Some(deny) = &self.deny {
            deny.remove(key, Instant::now());
        }
        self.wait_queues.notify(key);
    }

    /// In shadow mode, turns a denial into an allowance that is marked as shadow-denied.
    #[inline]
    fn apply_mode(&self, decision: Decision) -> Decision {
        if self.policy.mode() == Mode::Shadow { decision.into_shadow() } else { decision }
    }

    fn tiered_key(&self, key: &[u8], tier: Option<&RedisTier>) -> TieredKey {
        TieredKey { key: key.fingerprint(&self.secret), tier: tier.map_or(0, |tier| tier.salt) }
    }

    fn limits(&self, tier: Option<&RedisTier>) -> ScriptLimits {
        self.keeping(tier.map_or(&self.limits, |tier| &tier.limits))
    }

    /// Returns the same limits, with entries kept for the longest window of the policy and all its
    /// tiers.
    fn keeping(&self, limits: &ScriptLimits) -> ScriptLimits {
        limits.keeping(Duration::from_nanos(self.keep.load(Ordering::Relaxed)))
    }
}

impl Guard {
    const WHOLE: u64 = 1_000_000;

    /// Returns the share, rounded down, but at least one unless the limit is zero.
    fn of(self, limit: u64) -> u64 {
        let guarded = u128::from(limit) * u128::from(self.0) / u128::from(Self::WHOLE);
        u64::try_from(guarded).unwrap_or(limit).max(limit.min(1))
    }

    fn quotas(self, quotas: &[Quota]) -> Result<Vec<Quota>, Error> {
        quotas.iter().map(|quota| Quota::new(self.of(quota.limit()), quota.window())).collect()
    }
}
