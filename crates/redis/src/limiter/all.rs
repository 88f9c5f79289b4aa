//! Several keys, all or nothing.

use slidegate::{Cost, Decision, Error, ErrorKind, Mode, Outcome, Receipt};

use super::call::decision;
use super::{RedisLimiter, RedisTier};
use crate::redis::Redis;
use crate::script::{Ask, Op, ScriptLimits};
use crate::servers::{Failure, slot_of};

/// One of several questions that are answered together.
#[derive(Debug, Clone, Copy)]
pub struct RedisAsk<'a> {
    limiter: &'a RedisLimiter,
    key: &'a [u8],
    tier: Option<&'a RedisTier>,
    cost: u64,
}

impl<'a> RedisAsk<'a> {
    /// Asks `limiter` for `cost` units of `key`.
    pub fn new<K: AsRef<[u8]> + ?Sized>(limiter: &'a RedisLimiter, key: &'a K, cost: Cost) -> Self {
        Self { limiter, key: key.as_ref(), tier: None, cost: cost.get() }
    }

    /// Under the quotas of `tier`, made by the same limiter.
    #[must_use]
    pub fn tier(mut self, tier: &'a RedisTier) -> Self {
        self.tier = Some(tier);
        self
    }

    /// In shadow mode it stands in nobody's way.
    fn check(&self, cost: u64) -> Op {
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
/// it is one script and atomic. Otherwise every part is looked at first, then taken in a fixed
/// order, and the exact units are given back when one denies after all: never too much is allowed,
/// while another request may be denied for units that are on their way back.
///
/// The same key named twice is summed. A policy in shadow mode denies nobody. When Redis has no
/// answer, every ask is answered by its policy's failure mode, and denied if one of them denies.
///
/// # Errors
///
/// When there are more than 64 asks, or they are not all of one [`Redis`].
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
    let parts = parts(asks);
    match redis.decide_all(asks, &parts).await {
        Ok(decisions) => Ok(finish(asks, &parts, decisions)),
        Err(failure) => Ok(degrade(asks, &failure)),
    }
}

/// Every key once; in the order of their names, which is the same for everybody.
fn parts(asks: &[RedisAsk<'_>]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::with_capacity(asks.len());
    for (of, ask) in asks.iter().enumerate() {
        let inner = &ask.limiter.inner;
        let name = inner.name(ask.key);
        match parts.iter_mut().find(|part| part.name == name) {
            Some(part) => part.cost = part.cost.saturating_add(ask.cost),
            None => parts.push(Part { name, limits: inner.limits(ask.tier), cost: ask.cost, of }),
        }
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

impl Redis {
    /// The decision for every part, all or nothing.
    async fn decide_all(
        &self,
        asks: &[RedisAsk<'_>],
        parts: &[Part],
    ) -> Result<Vec<Decision>, Failure> {
        let slots = |part: &Part| slot_of(&part.name);
        let one_slot = parts.windows(2).all(|pair| slots(&pair[0]) == slots(&pair[1]));
        if one_slot || !self.shared.servers.is_cluster() {
            let check = |part: &Part| asks[part.of].check(part.cost);
            return self.ask_parts(parts, check).await;
        }
        self.take_in_turn(asks, parts).await
    }

    async fn ask_parts(
        &self,
        parts: &[Part],
        op: impl Fn(&Part) -> Op,
    ) -> Result<Vec<Decision>, Failure> {
        let names: Vec<Vec<u8>> = parts.iter().map(|part| part.name.clone()).collect();
        let asks: Vec<Ask<'_>> =
            parts.iter().map(|part| Ask { limits: &part.limits, op: op(part) }).collect();
        let asked = self.ask(&names, &asks).await?;
        if asked.answers.len() != parts.len() {
            return Err(Failure::answer(format!(
                "{} answers of {}",
                asked.answers.len(),
                parts.len()
            )));
        }
        asked.answers.iter().map(|answer| decision(answer, 0)).collect()
    }

    /// Looks at every part, then takes each, and gives back what was taken if one denies.
    async fn take_in_turn(
        &self,
        asks: &[RedisAsk<'_>],
        parts: &[Part],
    ) -> Result<Vec<Decision>, Failure> {
        let denies =
            |part: &Part, decision: &Decision| !asks[part.of].is_shadow() && !decision.is_allowed();
        let mut looks = Vec::with_capacity(parts.len());
        for part in parts {
            let look = self
                .ask_parts(core::slice::from_ref(part), |part| Op::Peek { cost: part.cost })
                .await?;
            looks.extend(look);
        }
        if parts.iter().zip(&looks).any(|(part, look)| denies(part, look)) {
            return Ok(looks);
        }
        let mut taken: Vec<Decision> = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let one = core::slice::from_ref(part);
            match self.ask_parts(one, |part| asks[part.of].check(part.cost)).await {
                Ok(mut decisions) => {
                    let Some(decision) = decisions.pop() else {
                        continue;
                    };
                    if denies(part, &decision) {
                        looks[index] = decision;
                        self.give_back_parts(parts, taken).await;
                        return Ok(looks);
                    }
                    taken.push(decision);
                }
                Err(failure) => {
                    self.give_back_parts(parts, taken).await;
                    return Err(failure);
                }
            }
        }
        Ok(taken)
    }

    async fn give_back_parts(&self, parts: &[Part], taken: Vec<Decision>) {
        for (part, decision) in parts.iter().zip(taken) {
            let Some(receipt) = decision.into_receipt() else {
                continue;
            };
            let op =
                Op::Refund { tick: receipt.tick(), units: receipt.units(), epoch: receipt.epoch() };
            let ask = Ask { limits: &part.limits, op };
            // If it cannot be given back it counts until its window has passed: the safe side.
            let _ = self.ask(core::slice::from_ref(&part.name), &[ask]).await;
        }
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
            if denied && !ask.is_shadow() {
                own.into_denied()
            } else {
                ask.limiter.inner.finish(own)
            }
        })
        .collect()
}

/// A part's decision as one ask's own.
fn own(ask: &RedisAsk<'_>, decision: &Decision) -> Decision {
    let fingerprint = ask.limiter.inner.who(ask.key, ask.tier).key;
    let receipt = decision
        .receipt()
        .map(|receipt| Receipt::new(fingerprint, receipt.tick(), ask.cost, receipt.epoch()));
    Decision::new(decision.outcome(), decision.quotas(), receipt)
}

fn degrade(asks: &[RedisAsk<'_>], failure: &Failure) -> Vec<Decision> {
    let answers: Vec<Decision> = asks
        .iter()
        .map(|ask| match Cost::new(ask.cost) {
            Ok(cost) => ask.limiter.inner.degrade(ask.key, cost, failure),
            Err(_) => nothing(),
        })
        .collect();
    if answers.iter().all(Decision::is_allowed) {
        return answers;
    }
    let denied = asks.iter().zip(answers);
    denied
        .map(|(ask, answer)| if ask.is_shadow() { answer } else { answer.into_denied() })
        .collect()
}

/// The answer to an ask that nobody answered, which does not happen: to the safe side.
fn nothing() -> Decision {
    Decision::new(Outcome::Deny, &[], None)
}
