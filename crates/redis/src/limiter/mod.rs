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

use crate::deny::{Denied, DenyCache, Times};
use crate::lease::{Holder, Leases};
use crate::local::Local;
use crate::redis::Redis;
use crate::script::{Answer, Op, ScriptLimits};
use crate::servers::Failure;
use crate::who::Who;
use stats::LimiterCounts;

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
        self.inner.decide(key.as_ref(), None, Cost::ONE).await
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
        let who = self.who(key, tier);
        if let Some(denied) = self.denied_here(who, cost) {
            self.counts.denied_at_once.fetch_add(1, Ordering::Relaxed);
            return self.finish(denied.decision());
        }
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let check = Check { key, tier, cost, who, until: self.redis.deadline(now) };
        match self.look_here(check, now) {
            Here::Decided(decision) => decision,
            // A future that talks to servers is large: decisions from memory do not carry it.
            here => Box::pin(self.decide_further(here, check, now)).await,
        }
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
