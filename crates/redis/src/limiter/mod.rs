//! A policy whose state is in Redis.

mod all;
mod builder;
mod call;
mod degraded;
mod leased;
mod look;
mod receipt;
mod stats;
mod store;
mod tier;
mod with_quotas;

pub use all::{RedisAsk, check_all};
pub use builder::RedisLimiterBuilder;
pub use stats::RedisStats;
pub use with_quotas::RedisWithQuotas;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slidegate::{
    Cost, Decision, Error, Event, Key, Mode, Policy, Quota, Quotas, Receipt, Secret, StoreId, Tier,
    Usage,
};
use tokio::time::Instant;

use crate::deny::{Denied, DenyCache, Times};
use crate::lease::{Holder, Leases};
use crate::local::Local;
use crate::redis::Redis;
use crate::script::{Answer, Op, ScriptLimits};
use crate::servers::Failure;
use crate::who::Who;
use stats::LimiterCounts;
use tier::RedisTier;

/// Decides who may go on, under one policy, together with every other process that has a limiter
/// of the same name and prefix on the same servers.
///
/// Shared by reference or in an `Arc`. One script call a decision, fewer when many come at the same
/// time, with the deny cache and with leases. A check always gets an answer within the deadline: when Redis has none, the policy's
/// [`FailureMode`](slidegate::FailureMode) answers, and the decision says that it is degraded. A
/// future that is dropped may have been charged.
#[derive(Debug)]
pub struct RedisLimiter {
    inner: Arc<Inner>,
}

/// What the tasks that end leases hold on to.
#[derive(Debug)]
struct Inner {
    id: StoreId,
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
    local: Option<Local>,
    counts: LimiterCounts,
}

/// A check on its way.
#[derive(Debug, Clone, Copy)]
struct Check<'a> {
    key: &'a [u8],
    tier: Option<&'a RedisTier>,
    cost: Cost,
    who: Who,
    /// When it must have an answer.
    until: Instant,
}

/// The share of every limit that is used, in millionths.
#[derive(Debug, Clone, Copy)]
struct Guard(u64);

impl RedisLimiter {
    /// Asks for one unit, and takes it if allowed.
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Decision {
        self.with_policy().check(key).await
    }

    /// Asks for several units, and takes them all if allowed.
    pub async fn check_cost(&self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.with_policy().check_cost(key, cost).await
    }

    /// Decides as [`check_cost`](RedisLimiter::check_cost) would, without taking anything.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn peek(&self, key: impl AsRef<[u8]>, cost: Cost) -> Result<Decision, Error> {
        self.with_policy().peek(key, cost).await
    }

    /// Takes an estimate now; [`settle`](RedisLimiter::settle) corrects it when the cost is known.
    pub async fn reserve(&self, key: impl AsRef<[u8]>, estimate: Cost) -> Decision {
        self.check_cost(key, estimate).await
    }

    /// Returns the exact units of a receipt: see [`RedisWithQuotas::refund`].
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the units may have been returned.
    pub async fn refund(&self, key: impl AsRef<[u8]>, receipt: Receipt) -> Result<u64, Error> {
        self.with_policy().refund(key, receipt).await
    }

    /// Corrects a reservation to its actual cost: see [`RedisWithQuotas::settle`].
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn settle(
        &self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        self.with_policy().settle(key, receipt, actual).await
    }

    /// Returns up to `units` without a receipt: see [`RedisWithQuotas::forgive`].
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the units may have been returned.
    pub async fn forgive(&self, key: impl AsRef<[u8]>, units: u64) -> Result<u64, Error> {
        self.with_policy().forgive(key, units).await
    }

    /// Returns the units that count against each quota now.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn usage(&self, key: impl AsRef<[u8]>) -> Result<Usage, Error> {
        self.with_policy().usage(key).await
    }

    /// Returns every request that is still in the longest window, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm is not a log, or if Redis did not answer.
    pub async fn history(&self, key: impl AsRef<[u8]>) -> Result<Vec<Event>, Error> {
        self.with_policy().history(key).await
    }

    /// Returns the limiter with the quotas of a tier, for the keys that have it.
    ///
    /// # Errors
    ///
    /// Returns an error if another limiter created the tier.
    pub fn with<'a>(&'a self, quotas: impl Into<Quotas<'a>>) -> Result<RedisWithQuotas<'a>, Error> {
        let tier = match quotas.into() {
            Quotas::Policy => None,
            Quotas::Tier(tier) => Some(tier.prepared(self.inner.id)?),
        };
        Ok(RedisWithQuotas { limiter: self, tier })
    }

    fn with_policy(&self) -> RedisWithQuotas<'_> {
        self.into()
    }

    /// Forgets a key, here too; whether there was anything to forget. Receipts handed out for it are
    /// void, and so are this limiter's leases. Leases of other processes last to their end: until then each
    /// of them may allow what it has left beside what Redis allows anew.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        let asked = self.inner.ask(key, &self.inner.limits(None), Op::Reset).await;
        self.inner.forget_denial(key);
        let unused = self.inner.forget_leases(key);
        if asked.is_err() {
            // If it was not reset after all, they still count.
            for unused in unused {
                self.inner.return_soon(key, unused);
            }
        }
        match asked?.only()? {
            Answer::Found(found) => {
                let here = self.inner.local.as_ref().is_some_and(|local| local.reset(key));
                Ok(*found || here)
            }
            other => Err(unexpected(other)),
        }
    }

    /// Prepares other quotas for some keys, such as paying customers; created once, used often.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no quota or more than the policy has. Algorithms other than the
    /// log need as many as the policy has.
    pub fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        let inner = &self.inner;
        Tier::new(inner.id, &inner.policy, quotas, || {
            let tier = RedisTier::new(quotas, inner)?;
            let nanos = u64::try_from(tier.longest().as_nanos()).unwrap_or(u64::MAX);
            inner.keep.fetch_max(nanos, Ordering::Relaxed);
            Ok(tier)
        })
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

/// What this process knows of a check by itself.
enum Here {
    Decided(Decision),
    /// By the local limiter, while Redis does not answer.
    Denied(Decision),
    /// The units of its lease are used up, or it has none yet.
    Leasing(Arc<Holder>),
    Nothing,
}

impl Inner {
    /// The way of a check: what is known here first, then Redis, then the failure mode.
    async fn decide(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Decision {
        match self.decide_cached(key, tier, cost) {
            Some(denial) => denial,
            None => self.decide_uncached(key, tier, cost).await,
        }
    }

    /// Decides a check that the deny cache did not answer.
    async fn decide_uncached(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Decision {
        let who = self.who(key, tier);
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let check = Check { key, tier, cost, who, until: self.redis.deadline(now) };
        match self.look_here(check, now) {
            Here::Decided(decision) => decision,
            // A future that talks to servers is large: decisions from memory do not carry it.
            here => Box::pin(self.decide_further(here, check, now)).await,
        }
    }

    /// Returns the denial of a check that the deny cache can answer.
    fn decide_cached(&self, key: &[u8], tier: Option<&RedisTier>, cost: Cost) -> Option<Decision> {
        let denied = self.denied_here(self.who(key, tier), cost)?;
        self.counts.denied_at_once.fetch_add(1, Ordering::Relaxed);
        Some(self.finish(denied.decision()))
    }

    /// What is known here of a check that is not denied yet.
    fn look_here(&self, check: Check<'_>, now: Instant) -> Here {
        let Check { key, tier, cost, who, .. } = check;
        if let Some(denial) = self.denied_locally(key, tier, cost, now) {
            return Here::Denied(denial);
        }
        let holder = self.leases.as_ref().and_then(|leases| {
            let holder = leases.holder(who, now)?;
            holder.note(cost.get(), now, leases.length());
            Some(holder)
        });
        match holder {
            None => Here::Nothing,
            Some(holder) => match self.take_leased(&holder, check, now) {
                Some(decision) => Here::Decided(decision),
                None => Here::Leasing(holder),
            },
        }
    }

    async fn decide_further(
        self: &Arc<Self>,
        here: Here,
        check: Check<'_>,
        now: Instant,
    ) -> Decision {
        match (here, &self.leases) {
            (Here::Decided(decision), _) => decision,
            (Here::Denied(denial), _) => {
                self.probe(check.key, check.tier, check.until).await;
                self.counts.degraded.fetch_add(1, Ordering::Relaxed);
                self.finish(denial.into_degraded())
            }
            (Here::Leasing(holder), Some(leases)) => {
                self.decide_leased(leases, holder, check, now).await
            }
            (Here::Leasing(_), None) | (Here::Nothing, _) => self.decide_there(check).await,
        }
    }

    /// A denial that Redis need not be asked for.
    #[inline]
    fn denied_here(&self, who: Who, cost: Cost) -> Option<Denied> {
        self.deny.as_ref()?.get(who, cost.get())
    }

    async fn decide_there(&self, check: Check<'_>) -> Decision {
        let Check { key, tier, cost, who, until } = check;
        let op = Op::Check { cost: cost.get() };
        let asked = self.ask_until(key, &self.limits(tier), op, until).await;
        match asked.and_then(|asked| Ok((asked.decision(who.key)?, asked.times))) {
            Ok((decision, times)) => {
                if decision.is_allowed() {
                    self.keep_warm(key, tier, cost);
                }
                self.decided(cost, who, decision, times)
            }
            Err(failure) => self.degrade(key, tier, cost, &failure),
        }
    }

    /// Remembers what Redis denied.
    fn decided(&self, cost: Cost, who: Who, decision: Decision, times: Times) -> Decision {
        if !decision.is_allowed()
            && let Some(deny) = &self.deny
        {
            deny.put(who, cost.get(), times, &decision);
        }
        self.finish(decision)
    }

    fn forget_denial(&self, key: &[u8]) {
        if let Some(deny) = &self.deny {
            deny.remove(self.who(key, None).key, Instant::now());
        }
    }

    #[inline]
    fn finish(&self, decision: Decision) -> Decision {
        if self.policy.mode() == Mode::Shadow { decision.into_shadow() } else { decision }
    }

    /// A key in the tables of this process.
    fn who(&self, key: &[u8], tier: Option<&RedisTier>) -> Who {
        Who { key: key.fingerprint(&self.secret), tier: tier.map_or(0, RedisTier::salt) }
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

fn unexpected(answer: &Answer) -> Error {
    Failure::answer(format!("answered another question: {answer:?}")).into()
}
