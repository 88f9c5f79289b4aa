//! Several keys, all or nothing.

use core::fmt;
use core::sync::atomic::Ordering;
use core::time::Duration;

use futures_util::future::join_all;
use slidegate::{Cost, Decision, DegradedReason, Error, ErrorKind, Mode, Outcome, Receipt};
use tokio::time::{Instant, timeout_at};

use super::tier::RedisTier;
use super::with_quotas::TierOf;
use super::{RedisLimiter, RedisWithQuotas};
use crate::redis::Redis;
use crate::script::{KeyOp, Op, ScriptLimits};
use crate::servers::{Failure, FailureKind, slot_of};

/// One of several checks that are decided together.
#[derive(Clone)]
pub struct RedisAsk<'a> {
    limiter: &'a RedisLimiter,
    key: &'a [u8],
    quotas: TierOf<'a>,
    cost: u64,
}

impl<'a> RedisAsk<'a> {
    /// Creates a check of `cost` units of `key`, with the policy's quotas or, after
    /// [`RedisLimiter::with`], those of a tier.
    pub fn new<K: AsRef<[u8]> + ?Sized>(
        limiter: impl Into<RedisWithQuotas<'a>>,
        key: &'a K,
        cost: Cost,
    ) -> Self {
        let RedisWithQuotas { limiter, quotas } = limiter.into();
        Self { limiter, key: key.as_ref(), quotas, cost: cost.get() }
    }

    fn tier(&self) -> Option<&RedisTier> {
        self.quotas.get()
    }

    /// In shadow mode it never denies the others.
    fn check(&self, cost: u64) -> Op<'static> {
        if self.is_shadow() { Op::Shadow { cost } } else { Op::Check { cost } }
    }

    fn is_shadow(&self) -> bool {
        self.limiter.inner.policy.mode() == Mode::Shadow
    }
}

/// The maximum number of checks that are decided together.
const ASKS_MAX: usize = 64;

/// A key, with the sum of all costs for it.
struct Part {
    name: Vec<u8>,
    limits: ScriptLimits,
    cost: u64,
    /// The index of its first check.
    of: usize,
}

/// Checks several limiters of one [`Redis`], or one for several keys, all or nothing: either every
/// decision is an allowance and all units were taken, or every one is a denial and none were.
///
/// If all keys are in one slot, which is the case without a cluster and for the policies of one
/// key, it is one atomic script. Otherwise, and while a slot is migrating, all parts are evaluated
/// in one round trip and taken in a second one, and exactly those units are refunded if one denies.
/// This never over-admits, but another request may be denied because of units that are about to be
/// refunded. One deadline applies to the whole.
///
/// The costs of a repeated key are summed. A policy in shadow mode never denies. Without a reply,
/// every policy's failure mode decides, and all are denied if one of them denies.
///
/// # Errors
///
/// Returns an error if there are more than 64 checks, they are not all of one [`Redis`], or the
/// same key has different quotas.
pub async fn check_all(asks: &[RedisAsk<'_>]) -> Result<Vec<Decision>, Error> {
    if asks.len() > ASKS_MAX {
        let message = format!("{} checks are out of range: use 64 or fewer", asks.len());
        return Err(Error::new(ErrorKind::Setting, message));
    }
    let Some(first) = asks.first() else {
        return Ok(Vec::new());
    };
    let redis = &first.limiter.inner.redis;
    let same =
        |ask: &RedisAsk<'_>| std::sync::Arc::ptr_eq(&ask.limiter.inner.redis.shared, &redis.shared);
    if !asks.iter().all(same) {
        let message =
            "checks of different servers cannot be decided together: use one Redis for all";
        return Err(Error::new(ErrorKind::Setting, message));
    }
    let parts = parts(asks)?;
    for ask in asks {
        ask.limiter.inner.counts.not_cached.fetch_add(1, Ordering::Relaxed);
    }
    let now = Instant::now();
    if denied_by_fallback(asks, now).is_some() {
        let half = now + redis.deadline(now).saturating_duration_since(now) / 2;
        for ask in asks {
            let inner = &ask.limiter.inner;
            inner.wait_for_report(inner.tiered_key(ask.key, None).key, half).await;
        }
        if let Some(denials) = denied_by_fallback(asks, now) {
            for ask in asks {
                ask.limiter.inner.counts.degraded.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(denials);
        }
    }
    match redis.check_parts(asks, &parts).await {
        Ok(decisions) => Ok(finish(asks, &parts, decisions)),
        Err(failure) => Ok(degrade(asks, &failure)),
    }
}

/// Returns every key once, ordered by name, which is the same order for every caller.
fn parts(asks: &[RedisAsk<'_>]) -> Result<Vec<Part>, Error> {
    let mut parts: Vec<Part> = Vec::with_capacity(asks.len());
    for (of, ask) in asks.iter().enumerate() {
        let inner = &ask.limiter.inner;
        let (name, limits) = (inner.name(ask.key), inner.limits(ask.tier()));
        let Some(part) = parts.iter_mut().find(|part| part.name == name) else {
            parts.push(Part { name, limits, cost: ask.cost, of });
            continue;
        };
        if !part.limits.decides_like(&limits) || asks[part.of].is_shadow() != ask.is_shadow() {
            let message = format!(
                "a key of policy {:?} is repeated with different quotas: use one tier for it",
                inner.policy.name()
            );
            return Err(Error::new(ErrorKind::Setting, message));
        }
        part.cost = part.cost.saturating_add(ask.cost);
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(parts)
}

impl Redis {
    /// Returns the decision for every part, all or nothing.
    async fn check_parts(
        &self,
        asks: &[RedisAsk<'_>],
        parts: &[Part],
    ) -> Result<Vec<Decision>, Failure> {
        let until = self.deadline(Instant::now());
        let slots = |part: &Part| slot_of(&part.name);
        let one_slot = parts.windows(2).all(|pair| slots(&pair[0]) == slots(&pair[1]));
        if one_slot || !self.shared.servers.is_cluster() {
            let check = |part: &Part| asks[part.of].check(part.cost);
            let decisions = self.call_parts(asks, parts, check, until).await;
            // While their slot is migrating, the keys may be on two nodes.
            if !decisions.as_ref().is_err_and(|failure| failure.kind == FailureKind::KeysSplit) {
                // A policy in shadow mode takes its units independently of the others, and a late reply
                // shows only whether the first has taken them.
                let has_shadow = asks.iter().any(RedisAsk::is_shadow);
                return decisions.map_err(|failure| {
                    if has_shadow { failure.with_late_reply(None) } else { failure }
                });
            }
        }
        // The late reply would be that of one part. The others may have been refunded.
        let decisions = self.check_parts_separately(asks, parts, until).await;
        decisions.map_err(|failure| failure.with_late_reply(None))
    }

    /// Runs one operation per part in a single script call.
    async fn call_parts(
        &self,
        asks: &[RedisAsk<'_>],
        parts: &[Part],
        op: impl Fn(&Part) -> Op<'static>,
        until: Instant,
    ) -> Result<Vec<Decision>, Failure> {
        let names: Vec<Vec<u8>> = parts.iter().map(|part| part.name.clone()).collect();
        let ops: Vec<KeyOp<'_>> =
            parts.iter().map(|part| KeyOp { limits: &part.limits, op: op(part) }).collect();
        let (replies, times) = self.run_ops(&names, &ops, until).await?;
        let decisions: Vec<Decision> =
            replies.iter().map(|reply| reply.decision(0)).collect::<Result<_, _>>()?;
        for (part, decision) in parts.iter().zip(&decisions) {
            let ask = &asks[part.of];
            ask.limiter.inner.note_reply(ask.key, ask.tier(), decision, times);
        }
        Ok(decisions)
    }

    /// Runs one operation per part in separate calls, all at the same time.
    async fn call_each(
        &self,
        asks: &[RedisAsk<'_>],
        parts: &[Part],
        op: impl Fn(&Part) -> Op<'static>,
        until: Instant,
    ) -> Vec<Result<Decision, Failure>> {
        let call = async |part: &Part| {
            let part = core::slice::from_ref(part);
            let mut decisions = self.call_parts(asks, part, &op, until).await?;
            decisions.pop().ok_or_else(|| Failure::bad_reply("the script replied nothing"))
        };
        join_all(parts.iter().map(call)).await
    }

    /// Evaluates all parts at once, then takes all at once, and refunds the units if one denies.
    async fn check_parts_separately(
        &self,
        asks: &[RedisAsk<'_>],
        parts: &[Part],
        until: Instant,
    ) -> Result<Vec<Decision>, Failure> {
        let denies =
            |part: &Part, decision: &Decision| !asks[part.of].is_shadow() && !decision.is_allowed();
        let looks = self.call_each(asks, parts, |part| Op::Peek { cost: part.cost }, until).await;
        let mut looks: Vec<Decision> = looks.into_iter().collect::<Result<_, _>>()?;
        if parts.iter().zip(&looks).any(|(part, look)| denies(part, look)) {
            return Ok(looks);
        }
        let taken = self.call_each(asks, parts, |part| asks[part.of].check(part.cost), until).await;
        let has_taken_all = parts
            .iter()
            .zip(&taken)
            .all(|(part, taken)| taken.as_ref().is_ok_and(|decision| !denies(part, decision)));
        if has_taken_all {
            return taken.into_iter().collect();
        }
        let (mut failure, mut refunds) = (None, Vec::new());
        for ((part, taken), look) in parts.iter().zip(taken).zip(&mut looks) {
            match taken {
                Err(failed) => failure = Some(failed),
                Ok(decision) if denies(part, &decision) => *look = decision,
                Ok(decision) => refunds.extend(Refund::new(part, decision)),
            }
        }
        self.give_back(refunds, until).await;
        failure.map_or(Ok(looks), Err)
    }

    /// Refunds units on a task with a separate deadline. Waits for it no longer than `until`.
    async fn give_back(&self, refunds: Vec<Refund>, until: Instant) {
        let redis = self.clone();
        let giving = tokio::spawn(async move {
            let until = redis.deadline(Instant::now());
            let refund = async |refund: &Refund| {
                let op = KeyOp { limits: &refund.limits, op: refund.op };
                // Units that cannot be refunded count until their window has passed.
                let _ = redis.run_ops(core::slice::from_ref(&refund.name), &[op], until).await;
            };
            join_all(refunds.iter().map(refund)).await;
        });
        let _ = timeout_at(until, giving).await;
    }
}

/// Units of one part to refund.
struct Refund {
    name: Vec<u8>,
    limits: ScriptLimits,
    op: Op<'static>,
}

impl Refund {
    /// Returns `None` if the decision took nothing.
    fn new(part: &Part, decision: Decision) -> Option<Self> {
        let receipt = decision.into_receipt()?;
        let (tick, units, epoch) = (receipt.tick(), receipt.units(), receipt.epoch());
        let (name, limits) = (part.name.clone(), part.limits.clone());
        Some(Self { name, limits, op: Op::Refund { tick, units, epoch } })
    }
}

/// Converts the decisions of parts to those of checks: the same decision for all checks of one key,
/// with a receipt for each check's own units.
fn finish(asks: &[RedisAsk<'_>], parts: &[Part], decisions: Vec<Decision>) -> Vec<Decision> {
    let denied = parts
        .iter()
        .zip(&decisions)
        .any(|(part, decision)| !asks[part.of].is_shadow() && !decision.is_allowed());
    let by_part: Vec<(&Part, Decision)> = parts.iter().zip(decisions).collect();
    asks.iter()
        .map(|ask| {
            let name = ask.limiter.inner.name(ask.key);
            let found = by_part.iter().find(|(part, _)| part.name == name);
            let Some((_, decision)) = found else {
                return nothing();
            };
            let own = own(ask, decision);
            if own.receipt().is_some()
                && let Ok(cost) = Cost::new(ask.cost)
            {
                ask.limiter.inner.keep_warm(ask.key, ask.tier(), cost);
            }
            ask.settled(own, denied)
        })
        .collect()
}

/// Returns a part's decision for one check.
fn own(ask: &RedisAsk<'_>, decision: &Decision) -> Decision {
    let fingerprint = ask.limiter.inner.tiered_key(ask.key, ask.tier()).key;
    let receipt = decision
        .receipt()
        .map(|receipt| Receipt::new(fingerprint, ask.cost, receipt.tick(), receipt.epoch()));
    let own = Decision::new(decision.outcome(), decision.quotas(), receipt);
    // Its waits are those of the block already.
    if decision.is_blocked() { own.into_blocked(Duration::ZERO) } else { own }
}

fn degrade(asks: &[RedisAsk<'_>], failure: &Failure) -> Vec<Decision> {
    let answers: Vec<Decision> = asks
        .iter()
        .map(|ask| match Cost::new(ask.cost) {
            Ok(cost) => ask.limiter.inner.degrade(ask.key, ask.tier(), cost, failure),
            Err(_) => nothing(),
        })
        .collect();
    if answers.iter().all(Decision::is_allowed) {
        return answers;
    }
    let denied = asks.iter().zip(answers);
    denied.map(|(ask, answer)| ask.settled(ask.given_back(answer), true)).collect()
}

/// Denies everything if one local fallback still denies after Redis is back.
fn denied_by_fallback(asks: &[RedisAsk<'_>], now: Instant) -> Option<Vec<Decision>> {
    let denial = |ask: &RedisAsk<'_>| {
        let cost = Cost::new(ask.cost).ok()?;
        ask.limiter.inner.fallback_denial(ask.key, ask.tier(), cost, now)
    };
    let denials: Vec<Option<Decision>> = asks.iter().map(denial).collect();
    let denies =
        |(ask, denial): (&RedisAsk<'_>, &Option<Decision>)| !ask.is_shadow() && denial.is_some();
    if !asks.iter().zip(&denials).any(denies) {
        return None;
    }
    let unasked = Failure::refused(DegradedReason::Recovering, "another key was denied here");
    let decisions = asks.iter().zip(denials).map(|(ask, denial)| {
        let inner = &ask.limiter.inner;
        let decision =
            denial.unwrap_or_else(|| inner.decide_blindly(Outcome::Allow, ask.tier(), &unasked));
        ask.settled(decision.into_degraded(DegradedReason::Recovering), true)
    });
    Some(decisions.collect())
}

impl RedisAsk<'_> {
    /// Returns the decision of its own quotas, depending on whether any was denied.
    fn settled(&self, decision: Decision, denied: bool) -> Decision {
        if denied && !self.is_shadow() {
            decision.into_denied()
        } else {
            self.limiter.inner.apply_mode(decision)
        }
    }

    /// Returns the failure mode's decision without the units that a local limiter took for it.
    fn given_back(&self, mut answer: Decision) -> Decision {
        if let (Some(local), Some(receipt)) = (&self.limiter.inner.local, answer.take_receipt()) {
            // If a report has just charged Redis with them, they count there until their window has
            // passed. This may deny early.
            local.give_back(
                self.limiter.inner.local_key(self.key, self.tier()),
                receipt,
                Instant::now(),
            );
        }
        answer
    }
}

/// Omits the key, which may be a secret.
impl fmt::Debug for RedisAsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisAsk")
            .field("policy", &self.limiter.inner.policy.name())
            .field("tier", &self.tier())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// Returns the decision for a check without a part, which does not happen: denied.
fn nothing() -> Decision {
    Decision::new(Outcome::Deny, &[], None)
}
