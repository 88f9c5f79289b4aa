//! A policy whose state is in Redis.

mod all;
mod builder;
mod call;
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

use crate::deny::DenyCache;
use crate::lease::{Holder, Leases};
use crate::local::Local;
use crate::redis::Redis;
use crate::script::{Answer, Ask, Op, ScriptLimits};
use crate::servers::{Failure, FailureKind};
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

    /// Forgets a key; whether there was anything to forget. Receipts handed out for it are void.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        let answer = self.inner.ask(key, &self.inner.limits(None), Op::Reset).await?;
        self.inner.forget_denial(key);
        match answer.only()? {
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
        let fingerprint = self.fingerprint(key, tier);
        self.counts.decisions.fetch_add(1, Ordering::Relaxed);
        if let Some(denial) =
            self.deny.as_ref().and_then(|deny| deny.get(fingerprint, cost.get(), now))
        {
            self.counts.denied_here.fetch_add(1, Ordering::Relaxed);
            return self.finish(denial);
        }
        if let Some(denial) = self.local.as_ref().and_then(|local| local.denies(key, cost, now)) {
            self.counts.degraded.fetch_add(1, Ordering::Relaxed);
            return self.finish(denial.into_degraded());
        }
        if let Some(leases) = &self.leases {
            return self.decide_leased(leases, key, tier, cost, fingerprint, now).await;
        }
        self.decide_there(key, tier, cost, fingerprint).await
    }

    async fn decide_there(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        fingerprint: u64,
    ) -> Decision {
        let op = Op::Check { cost: cost.get() };
        let asked = self.ask(key, &self.limits(tier), op).await;
        match asked.and_then(|answer| Ok((answer.decision(fingerprint)?, answer.sent))) {
            Ok((decision, sent)) => self.decided(key, cost, fingerprint, decision, sent),
            Err(failure) => self.degrade(key, cost, &failure),
        }
    }

    /// Takes note of what Redis decided.
    fn decided(
        &self,
        key: &[u8],
        cost: Cost,
        fingerprint: u64,
        decision: Decision,
        sent: Instant,
    ) -> Decision {
        if decision.is_allowed() {
            if let Some(local) = &self.local {
                local.keep_warm(key, cost);
            }
        } else if let Some(deny) = &self.deny {
            deny.put(fingerprint, cost.get(), sent, &decision);
        }
        self.finish(decision)
    }

    async fn decide_leased(
        self: &Arc<Self>,
        leases: &Leases,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        fingerprint: u64,
        now: Instant,
    ) -> Decision {
        let Some(holder) = leases.holder(fingerprint, now) else {
            return self.decide_there(key, tier, cost, fingerprint).await;
        };
        holder.note(cost.get(), now, leases.length());
        if let Some(decision) = holder.take(fingerprint, cost.get(), now) {
            self.counts.leased_here.fetch_add(1, Ordering::Relaxed);
            return self.leased(key, cost, decision);
        }
        let limits = self.limits(tier);
        let limit = limits.least_limit();
        if leases.wanted(&holder, cost.get(), limit).is_none() {
            return self.decide_there(key, tier, cost, fingerprint).await;
        }
        // One caller asks, the others find the lease when it is their turn.
        let _turn = holder.turn.lock().await;
        if let Some(decision) = holder.take(fingerprint, cost.get(), Instant::now()) {
            self.counts.leased_here.fetch_add(1, Ordering::Relaxed);
            return self.leased(key, cost, decision);
        }
        let Some(wanted) = leases.wanted(&holder, cost.get(), limit) else {
            return self.decide_there(key, tier, cost, fingerprint).await;
        };
        self.lease(leases, &holder, key, &limits, cost, wanted, fingerprint).await
    }

    #[expect(clippy::too_many_arguments, reason = "one step of the way above")]
    async fn lease(
        self: &Arc<Self>,
        leases: &Leases,
        holder: &Arc<Holder>,
        key: &[u8],
        limits: &ScriptLimits,
        cost: Cost,
        wanted: u64,
        fingerprint: u64,
    ) -> Decision {
        let length = leases.length();
        let op = Op::Lease { units_min: cost.get(), units_max: wanted, ahead: length };
        let answer = match self.ask(key, limits, op).await {
            Ok(answer) => answer,
            Err(failure) => return self.degrade(key, cost, &failure),
        };
        let (granted, sent) = match answer.granted() {
            Ok(Some(granted)) => (granted, answer.sent),
            // Not even the cost fits.
            Ok(None) => {
                return match answer.decision(fingerprint) {
                    Ok(decision) => self.decided(key, cost, fingerprint, decision, answer.sent),
                    Err(failure) => self.degrade(key, cost, &failure),
                };
            }
            Err(failure) => return self.degrade(key, cost, &failure),
        };
        self.counts.leases.fetch_add(1, Ordering::Relaxed);
        if let Some(unused) = holder.put(&granted, length) {
            self.return_soon(key, unused);
        }
        self.end_later(Arc::clone(holder), key, sent, length);
        match holder.take(fingerprint, cost.get(), Instant::now()) {
            Some(decision) => self.leased(key, cost, decision),
            // The answer took longer than the lease: the units go back, and the request is judged
            // as if there were none.
            None => match answer.decision(fingerprint) {
                Ok(_) => self.degrade(key, cost, &Failure::refused("a lease came too late")),
                Err(failure) => self.degrade(key, cost, &failure),
            },
        }
    }

    fn leased(&self, key: &[u8], cost: Cost, decision: Decision) -> Decision {
        if let Some(local) = &self.local {
            local.keep_warm(key, cost);
        }
        self.finish(decision)
    }

    /// Ends a lease when its time is over, also if nobody comes any more.
    fn end_later(
        self: &Arc<Self>,
        holder: Arc<Holder>,
        key: &[u8],
        sent: Instant,
        length: Duration,
    ) {
        let (inner, key) = (Arc::clone(self), Box::<[u8]>::from(key));
        tokio::spawn(async move {
            tokio::time::sleep_until(sent + length).await;
            if let Some(unused) = holder.end(sent) {
                inner.return_unused(&key, unused).await;
            }
        });
    }

    fn return_soon(self: &Arc<Self>, key: &[u8], unused: crate::lease::Unused) {
        let (inner, key) = (Arc::clone(self), Box::<[u8]>::from(key));
        tokio::spawn(async move { inner.return_unused(&key, unused).await });
    }

    async fn return_unused(&self, key: &[u8], unused: crate::lease::Unused) {
        let crate::lease::Unused { tick, units, epoch } = unused;
        let op = Op::Refund { tick, units, epoch };
        match self.ask(key, &self.limits(None), op).await {
            Ok(_) => self.counts.returned.fetch_add(units, Ordering::Relaxed),
            // They count as used until their window has passed.
            Err(_) => self.counts.lost.fetch_add(units, Ordering::Relaxed),
        };
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
            deny.remove(self.fingerprint(key, None));
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

    /// A key's fingerprint in this process, of its own for every tier: what is denied to one may
    /// be allowed to another.
    fn fingerprint(&self, key: &[u8], tier: Option<&RedisTier>) -> u64 {
        key.fingerprint(&self.secret) ^ tier.map_or(0, RedisTier::salt)
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
