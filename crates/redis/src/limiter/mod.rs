//! A policy whose state is in Redis.

mod all;
mod builder;
mod call;
mod leased;
mod stats;
mod tier;

pub use all::{RedisAsk, check_all};
pub use builder::RedisLimiterBuilder;
pub use stats::RedisStats;
pub use tier::RedisTier;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slidegate::{
    Cost, Decision, Error, Event, FailureMode, Key, Mode, Outcome, Policy, Quota, QuotaDecision,
    Receipt, Secret, Store, Usage,
};
use tokio::time::Instant;

use crate::deny::{DenyCache, Times};
use crate::lease::Leases;
use crate::local::Local;
use crate::redis::Redis;
use crate::script::{Answer, Ask, Op, ScriptLimits};
use crate::servers::{Failure, FailureKind};
use crate::who::Who;
use stats::LimiterCounts;

/// Decides who may go on, under one policy, together with every other process that has a limiter
/// of the same name and prefix on the same servers.
///
/// Shared by reference or in an `Arc`. One script call a decision, fewer with the deny cache and
/// leases. A check always gets an answer within the deadline: when Redis has none, the policy's
/// [`FailureMode`] answers, and the decision says that it is degraded. A future that is dropped
/// may have been charged.
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
        self.check_cost(key, Cost::ONE).await
    }

    /// Asks for several units, and takes them all if allowed.
    pub async fn check_cost(&self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.inner.decide(key.as_ref(), None, cost).await
    }

    /// As [`check_cost`](RedisLimiter::check_cost), for a key that has other quotas than the
    /// policy.
    pub async fn check_tier(
        &self,
        key: impl AsRef<[u8]>,
        tier: &RedisTier,
        cost: Cost,
    ) -> Decision {
        self.inner.decide(key.as_ref(), Some(tier), cost).await
    }

    /// Decides as if asked, and takes nothing: `remaining` is what is left now.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn peek(&self, key: impl AsRef<[u8]>, cost: Cost) -> Result<Decision, Error> {
        let op = Op::Peek { cost: cost.get() };
        let answer = self.inner.ask(key.as_ref(), &self.inner.limits(None), op).await?;
        Ok(self.inner.finish(answer.decision(0)?))
    }

    /// Takes an estimate now; [`settle`](RedisLimiter::settle) corrects it when the cost is known.
    pub async fn reserve(&self, key: impl AsRef<[u8]>, estimate: Cost) -> Decision {
        self.check_cost(key, estimate).await
    }

    /// Gives back the very units that a receipt names, and says how many there were to give: none
    /// after they have expired, the key was reset, or Redis has lost them.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer; the units may have been given back.
    pub async fn refund(&self, key: impl AsRef<[u8]>, receipt: Receipt) -> Result<u64, Error> {
        self.inner.give_back(key.as_ref(), &receipt, receipt.units()).await
    }

    /// Gives back up to `units` that no receipt names, and says how many there were: the oldest
    /// that count first, as they would be free again soonest anyway. For callers that cannot keep
    /// receipts.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer; the units may have been given back.
    pub async fn forgive(
        &self,
        key: impl AsRef<[u8]>,
        tier: Option<&RedisTier>,
        units: u64,
    ) -> Result<u64, Error> {
        let key = key.as_ref();
        let op = Op::Forgive { units };
        let answer = self.inner.ask(key, &self.inner.limits(tier), op).await?;
        self.inner.forget_denial(key);
        match answer.only()? {
            Answer::Units(units) => Ok(*units),
            other => Err(unexpected(other)),
        }
    }

    /// Corrects an estimate to the real cost, and says how many units were charged for it in all.
    /// What was taken too little is recorded as debt, above the limit if need be.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn settle(
        &self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        let key = key.as_ref();
        let units = receipt.units();
        if actual < units {
            let given = self.inner.give_back(key, &receipt, units - actual).await?;
            return Ok(units - given);
        }
        let debt = (actual - units).min(UNITS_MAX);
        if debt > 0 {
            let op = Op::Charge { cost: debt };
            self.inner.ask(key, &self.inner.limits(None), op).await?;
        }
        Ok(units + debt)
    }

    /// Units that count against each quota now.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn usage(&self, key: impl AsRef<[u8]>) -> Result<Usage, Error> {
        let op = Op::Peek { cost: 1 };
        let answer = self.inner.ask(key.as_ref(), &self.inner.limits(None), op).await?;
        match answer.only()? {
            Answer::Decided { used, .. } => Ok(Usage::new(used)),
            other => Err(unexpected(other)),
        }
    }

    /// Every request that is still in the longest window, oldest first, for audits.
    ///
    /// # Errors
    ///
    /// When the algorithm is not a log, or Redis gave no answer.
    pub async fn history(&self, key: impl AsRef<[u8]>) -> Result<Vec<Event>, Error> {
        let limits = self.inner.limits(None);
        let ask = Ask::new(&limits, Op::History)?;
        let answer = self.inner.redis.ask(&[self.inner.name(key.as_ref())], &[ask]).await?;
        let tick = self.inner.tick;
        match answer.only()? {
            Answer::History(events) => {
                Ok(events.iter().map(|(at, units)| Event::new(times(tick, *at), *units)).collect())
            }
            other => Err(unexpected(other)),
        }
    }

    /// Forgets a key; whether there was anything to forget. Receipts handed out for it are void, and
    /// so are this limiter's leases. Leases of other processes last to their end: until then each
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
            Answer::Found(found) => Ok(*found),
            other => Err(unexpected(other)),
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

impl Inner {
    /// The way of a check: what is known here first, then Redis, then the failure mode.
    async fn decide(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Decision {
        let now = Instant::now();
        let (who, until) = (self.who(key, tier), self.redis.deadline(now));
        let check = Check { key, tier, cost, who, until };
        self.counts.decisions.fetch_add(1, Ordering::Relaxed);
        if let Some(denial) = self.denied_here(check, now) {
            return denial;
        }
        if let Some(denial) = self.local.as_ref().and_then(|local| local.denies(key, cost, now)) {
            self.counts.degraded.fetch_add(1, Ordering::Relaxed);
            return self.finish(denial.into_degraded());
        }
        if let Some(leases) = &self.leases {
            return self.decide_leased(leases, check, now).await;
        }
        self.decide_there(check).await
    }

    /// A denial that Redis need not be asked for.
    fn denied_here(&self, check: Check<'_>, now: Instant) -> Option<Decision> {
        let denial = self.deny.as_ref()?.get(check.who, check.cost.get(), now)?;
        self.counts.denied_here.fetch_add(1, Ordering::Relaxed);
        Some(self.finish(denial))
    }

    async fn decide_there(&self, check: Check<'_>) -> Decision {
        let Check { key, tier, cost, who, until } = check;
        let op = Op::Check { cost: cost.get() };
        let asked = self.ask_until(key, &self.limits(tier), op, until).await;
        match asked.and_then(|asked| Ok((asked.decision(who.key)?, asked.times))) {
            Ok((decision, times)) => self.decided(key, cost, who, decision, times),
            Err(failure) => self.degrade(key, cost, &failure),
        }
    }

    /// Takes note of what Redis decided.
    fn decided(
        &self,
        key: &[u8],
        cost: Cost,
        who: Who,
        decision: Decision,
        times: Times,
    ) -> Decision {
        if decision.is_allowed() {
            if let Some(local) = &self.local {
                local.keep_warm(key, cost);
            }
        } else if let Some(deny) = &self.deny {
            deny.put(who, cost.get(), times, &decision);
        }
        self.finish(decision)
    }

    async fn give_back(&self, key: &[u8], receipt: &Receipt, units: u64) -> Result<u64, Error> {
        let op = Op::Refund { tick: receipt.tick(), units, epoch: receipt.epoch() };
        let answer = self.ask(key, &self.limits(None), op).await?;
        self.forget_denial(key);
        match answer.only()? {
            Answer::Units(units) => Ok(*units),
            other => Err(unexpected(other)),
        }
    }

    fn forget_denial(&self, key: &[u8]) {
        if let Some(deny) = &self.deny {
            deny.remove(self.who(key, None).key, Instant::now());
        }
    }

    /// What the policy says when Redis has no answer.
    fn degrade(&self, key: &[u8], cost: Cost, failure: &Failure) -> Decision {
        self.counts.degraded.fetch_add(1, Ordering::Relaxed);
        if failure.is_unknown() {
            self.counts.unknown.fetch_add(1, Ordering::Relaxed);
        }
        let decision = match (self.policy.failure_mode(), &self.local) {
            (FailureMode::Local, Some(local)) => local.judge(key, cost, Instant::now()),
            (FailureMode::Deny, _) => self.answer_all(Outcome::Deny, failure),
            _ => self.answer_all(Outcome::Allow, failure),
        };
        self.finish(decision.into_degraded())
    }

    /// An answer without knowledge: nothing is left when denying, everything when allowing.
    fn answer_all(&self, outcome: Outcome, failure: &Failure) -> Decision {
        let wait = match failure.kind {
            FailureKind::Open(left) => left,
            _ => self.redis.shared.servers.timing.breaker.open_min,
        };
        let quotas = self.policy.quotas().iter().map(|quota| {
            let limit = self.guard.of(quota.limit());
            match outcome {
                Outcome::Allow => {
                    QuotaDecision::new(limit, limit, Some(Duration::ZERO), Duration::ZERO)
                }
                Outcome::Deny => QuotaDecision::new(limit, 0, Some(wait), wait),
            }
        });
        Decision::new(outcome, &quotas.collect::<Vec<_>>(), None)
    }

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

/// The largest number of units there can be.
const UNITS_MAX: u64 = (1 << 53) - 1;

fn times(tick: Duration, count: u64) -> Duration {
    let nanos = tick.as_nanos().saturating_mul(u128::from(count));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn unexpected(answer: &Answer) -> Error {
    Failure::answer(format!("answered another question: {answer:?}")).into()
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
