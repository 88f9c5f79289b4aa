//! Several keys, all or nothing.

use core::fmt;
use core::sync::atomic::Ordering;

use futures_util::future::join_all;
use slidegate::{Cost, Decision, DegradedReason, Error, ErrorKind, Mode, Outcome, Receipt};
use tokio::time::{Instant, timeout_at};

use super::tier::RedisTier;
use super::with_quotas::TierOf;
use super::{RedisLimiter, RedisWithQuotas};
use crate::redis::Redis;
use crate::script::{KeyOp, Op, ScriptLimits};
use crate::servers::{Failure, FailureKind, slot_of};

/// One of several questions that are answered together.
#[derive(Clone)]
pub struct RedisAsk<'a> {
    limiter: &'a RedisLimiter,
    key: &'a [u8],
    quotas: TierOf<'a>,
    cost: u64,
}

impl<'a> RedisAsk<'a> {
    /// Asks a limiter for `cost` units of `key`, under the policy's quotas or, after
    /// [`RedisLimiter::with`], under those of a tier.
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

    /// In shadow mode it never blocks the others.
    fn check(&self, cost: u64) -> Op<'static> {
        if self.is_shadow() { Op::Shadow { cost } } else { Op::Check { cost } }
    }

    fn is_shadow(&self) -> bool {
        self.limiter.inner.policy.mode() == Mode::Shadow
    }
}

/// The most questions that are answered together.
const ASKS_MAX: usize = 64;

/// One key to ask for, with what all asks for it come to.
struct Part {
    name: Vec<u8>,
    limits: ScriptLimits,
    cost: u64,
    /// The ask it came from first.
    of: usize,
}

/// Asks several limiters of one [`Redis`], or one for several keys, all or nothing: either every
/// decision is an allowance and all units were taken, or every one is a denial and none were.
///
/// Where all keys are of one slot, which is so without a cluster and for the policies of one key,
/// it is one script and atomic. Otherwise, and while a slot moves, all parts are looked at in one
/// round trip and taken in a second one, and the exact units are given back when one denies after
/// all: never too much is allowed, while another request may be denied for units that are on their
/// way back. One deadline applies to the whole.
///
/// The costs of a key that occurs twice are summed. A policy in shadow mode denies nothing. Without a
/// reply, every policy's failure mode decides, and all are denied if one of them denies.
///
/// # Errors
///
/// When there are more than 64 asks, they are not all of one [`Redis`], or the same key is named
/// under different quotas: it is looked at once.
pub async fn check_all(asks: &[RedisAsk<'_>]) -> Result<Vec<Decision>, Error> {
    if asks.len() > ASKS_MAX {
        let message = format!("number of asks {} is out of range: use 64 or fewer", asks.len());
        return Err(Error::new(ErrorKind::Setting, message));
    }
    let Some(first) = asks.first() else {
        return Ok(Vec::new());
    };
    let redis = &first.limiter.inner.redis;
    let same =
        |ask: &RedisAsk<'_>| std::sync::Arc::ptr_eq(&ask.limiter.inner.redis.shared, &redis.shared);
    if !asks.iter().all(same) {
        let message = "asks of different servers cannot be one decision: use one Redis for all";
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

/// Every key once; in the order of their names, which is the same for everybody.
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
                "a key of policy {:?} is named twice under different quotas: use one tier for it",
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
    /// The decision for every part, all or nothing.
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
            let decisions = self.call_parts(parts, check, until).await;
            // While their slot moves, the keys may be on two nodes.
            if !decisions.as_ref().is_err_and(|failure| failure.kind == FailureKind::KeysSplit) {
                return decisions;
            }
        }
        self.check_parts_apart(asks, parts, until).await
    }

    /// Runs one operation per part in a single script call.
    async fn call_parts(
        &self,
        parts: &[Part],
        op: impl Fn(&Part) -> Op<'static>,
        until: Instant,
    ) -> Result<Vec<Decision>, Failure> {
        let names: Vec<Vec<u8>> = parts.iter().map(|part| part.name.clone()).collect();
        let ops: Vec<KeyOp<'_>> =
            parts.iter().map(|part| KeyOp { limits: &part.limits, op: op(part) }).collect();
        let replies = self.run_ops(&names, &ops, until).await?;
        replies.iter().map(|reply| reply.decision(0)).collect()
    }

    /// Runs one operation per part in calls of their own, all at the same time.
    async fn call_each(
        &self,
        parts: &[Part],
        op: impl Fn(&Part) -> Op<'static>,
        until: Instant,
    ) -> Vec<Result<Decision, Failure>> {
        let call = async |part: &Part| {
            let mut decisions = self.call_parts(core::slice::from_ref(part), &op, until).await?;
            decisions.pop().ok_or_else(|| Failure::bad_reply("the script replied nothing"))
        };
        join_all(parts.iter().map(call)).await
    }

    /// Looks at all parts at once, then takes all at once, and gives back what was taken if one
    /// denies.
    async fn check_parts_apart(
        &self,
        asks: &[RedisAsk<'_>],
        parts: &[Part],
        until: Instant,
    ) -> Result<Vec<Decision>, Failure> {
        let denies =
            |part: &Part, decision: &Decision| !asks[part.of].is_shadow() && !decision.is_allowed();
        let looks = self.call_each(parts, |part| Op::Peek { cost: part.cost }, until).await;
        let mut looks: Vec<Decision> = looks.into_iter().collect::<Result<_, _>>()?;
        if parts.iter().zip(&looks).any(|(part, look)| denies(part, look)) {
            return Ok(looks);
        }
        let taken = self.call_each(parts, |part| asks[part.of].check(part.cost), until).await;
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

    /// Gives back units on a task with a deadline of its own. Waits for it no longer than `until`.
    async fn give_back(&self, refunds: Vec<Refund>, until: Instant) {
        let redis = self.clone();
        let giving = tokio::spawn(async move {
            let until = redis.deadline(Instant::now());
            let refund = async |refund: &Refund| {
                let op = KeyOp { limits: &refund.limits, op: refund.op };
                // Units that cannot be given back count until their window has passed.
                let _ = redis.run_ops(core::slice::from_ref(&refund.name), &[op], until).await;
            };
            join_all(refunds.iter().map(refund)).await;
        });
        let _ = timeout_at(until, giving).await;
    }
}

/// Units of one part to give back.
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

/// From parts to asks: the same decision for all asks of one key, with a receipt for each ask's
/// own units.
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
            ask.limiter.inner.note_used(ask.key, ask.tier(), &own);
            ask.settled(own, denied)
        })
        .collect()
}

/// A part's decision as one ask's own.
fn own(ask: &RedisAsk<'_>, decision: &Decision) -> Decision {
    let fingerprint = ask.limiter.inner.tiered_key(ask.key, ask.tier()).key;
    let receipt = decision
        .receipt()
        .map(|receipt| Receipt::new(fingerprint, ask.cost, receipt.tick(), receipt.epoch()));
    Decision::new(decision.outcome(), decision.quotas(), receipt)
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
    /// A decision by its own quotas, once it is known whether one of all was denied.
    fn settled(&self, decision: Decision, denied: bool) -> Decision {
        if denied && !self.is_shadow() {
            decision.into_denied()
        } else {
            self.limiter.inner.apply_mode(decision)
        }
    }

    /// The failure mode's answer without the units that a local limiter took for it.
    fn given_back(&self, answer: Decision) -> Decision {
        let denied = answer.is_shadow_denied() || !answer.is_allowed();
        let outcome = if denied { Outcome::Deny } else { Outcome::Allow };
        let reason = answer.degraded_reason().unwrap_or(DegradedReason::Other);
        let bare = Decision::new(outcome, answer.quotas(), None).into_degraded(reason);
        if let (Some(local), Some(receipt)) = (&self.limiter.inner.local, answer.into_receipt()) {
            // Nothing of it is reported yet.
            local.give_back(
                self.limiter.inner.local_key(self.key, self.tier()),
                receipt,
                Instant::now(),
            );
        }
        bare
    }
}

/// Without the key, which may be a secret.
impl fmt::Debug for RedisAsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisAsk")
            .field("policy", &self.limiter.inner.policy.name())
            .field("tier", &self.tier())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// The decision for an ask without a part, which does not happen: denied.
fn nothing() -> Decision {
    Decision::new(Outcome::Deny, &[], None)
}
