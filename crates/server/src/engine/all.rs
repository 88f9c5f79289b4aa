//! Several limits, all or nothing.

use slidegate::{Clock, Cost, Decision, Outcome};

use super::caller::Caller;
use super::limit::{Limit, TierId};
use super::pool::{Pool, PoolTier};
use crate::spec::Switch;

/// One of several questions that are answered together.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Whom it is asked of.
    pub limit: &'a Limit,
    /// For whom.
    pub key: &'a [u8],
    /// Under which quotas.
    pub tier: Option<TierId>,
    /// For how much.
    pub cost: Cost,
}

/// An answer to one of several questions.
#[derive(Debug)]
pub struct Answer {
    /// What to tell: all are allowed or all are denied.
    pub decision: Decision,
    /// Whether this limit itself was in the way, or would have been, were it enforced.
    pub is_over: bool,
}

/// The most questions that are answered together.
pub const ASKS_MAX: usize = 64;

/// Asks several limits, all or nothing: either all enforced ones allow, and every one that has
/// room is charged, or nothing is taken. Limits in shadow and limits that are switched off stand
/// in nobody's way.
///
/// In one store it is one atomic step. Over several stores each is asked in turn and what was
/// taken goes back when one denies: never too much is allowed, while another request may be
/// denied for units that are on their way back.
///
/// Of more than [`ASKS_MAX`] questions only so many are asked; callers bound their input first.
pub async fn check_all(asks: &[Ask<'_>], caller: Caller<'_>) -> Vec<Answer> {
    match &asks[..asks.len().min(ASKS_MAX)] {
        [] => Vec::new(),
        [only] => vec![only.alone(caller).await],
        several => check_several(several, caller).await,
    }
}

async fn check_several(asks: &[Ask<'_>], caller: Caller<'_>) -> Vec<Answer> {
    let timer = &asks[0].limit.timer;
    let began = timer.now();
    for ask in asks {
        ask.limit.ask_candidate(ask.key, ask.cost).await;
    }
    let (enforced, others): (Vec<usize>, Vec<usize>) =
        (0..asks.len()).partition(|index| asks[*index].limit.is_enforced(asks[*index].key));
    let questions: Vec<&Ask<'_>> = enforced.iter().map(|index| &asks[*index]).collect();
    let decisions = take(&questions).await;
    let allowed = decisions.iter().all(Decision::is_allowed);
    let mut answers: Vec<(usize, Answer)> =
        enforced.into_iter().zip(decisions.into_iter().map(Answer::enforced)).collect();
    for index in others {
        answers.push((index, asks[index].beside(allowed).await));
    }
    answers.sort_by_key(|(index, _)| *index);
    let took = timer.now().saturating_sub(began);
    let answers: Vec<Answer> = answers.into_iter().map(|(_, answer)| answer).collect();
    for (ask, answer) in asks.iter().zip(&answers) {
        ask.count(answer);
        ask.limit.counts.time.note(took);
        ask.limit.tell(ask.key, ask.cost, &answer.decision, took, caller);
    }
    answers
}

impl Answer {
    fn enforced(decision: Decision) -> Self {
        // Denied with the others, though there was room: nothing to wait for.
        let has_room = decision.retry_after().is_some_and(|wait| wait.is_zero());
        Self { is_over: !decision.is_allowed() && !has_room, decision }
    }

    fn shadow(decision: Decision) -> Self {
        Self { is_over: decision.is_shadow_denied(), decision }
    }
}

impl Ask<'_> {
    async fn alone(&self, caller: Caller<'_>) -> Answer {
        let decision = self.limit.check(self.key, self.tier, self.cost, caller).await;
        let is_over = !decision.is_allowed() || decision.is_shadow_denied();
        Answer { decision, is_over }
    }

    /// The answer of a limit that stands in nobody's way. It takes only if the request passes.
    async fn beside(&self, passes: bool) -> Answer {
        let Self { limit, key, tier, cost } = *self;
        if limit.switch == Switch::Off {
            return Answer { decision: limit.open(tier), is_over: false };
        }
        let pool_tier = limit.pool_tier(tier);
        if passes {
            return Answer::shadow(limit.pool.check(key, pool_tier, cost).await.into_shadow());
        }
        match limit.pool.peek(key, pool_tier, cost).await {
            Ok(decision) => {
                let Answer { decision, is_over } = Answer::shadow(decision.into_shadow());
                Answer { decision: decision.into_denied(), is_over }
            }
            Err(_) => {
                let decision = limit.open(tier).into_degraded().into_denied();
                Answer { decision, is_over: false }
            }
        }
    }

    fn count(&self, answer: &Answer) {
        let counts = &self.limit.counts;
        if self.limit.switch == Switch::Off {
            return counts.off.add();
        }
        if answer.decision.is_degraded() {
            counts.degraded.add();
        }
        match (answer.decision.is_allowed(), answer.is_over) {
            (true, false) => counts.allowed.add(),
            (false, false) => counts.denied_by_other.add(),
            (false, true) if self.limit.is_enforced(self.key) => counts.denied.add(),
            (_, true) => counts.shadow_denied.add(),
        }
    }
}

/// Takes from all or from none, by whatever way the stores have.
async fn take(asks: &[&Ask<'_>]) -> Vec<Decision> {
    match asks {
        [] => Vec::new(),
        [only] => vec![check(only).await],
        several => {
            if let Some(decisions) =
                memory_asks(several).and_then(|asks| slidegate::check_all(&asks).ok())
            {
                return decisions;
            }
            if let Some(asks) = redis_asks(several)
                && let Ok(decisions) = slidegate_redis::check_all(&asks).await
            {
                return decisions;
            }
            take_in_turn(several).await
        }
    }
}

async fn check(ask: &Ask<'_>) -> Decision {
    ask.limit.pool.check(ask.key, ask.limit.pool_tier(ask.tier), ask.cost).await
}

/// All of them, if all are in memory.
fn memory_asks<'a>(asks: &[&Ask<'a>]) -> Option<Vec<slidegate::Ask<'a>>> {
    let one = |ask: &&Ask<'a>| {
        let Ask { limit, key, tier, cost } = **ask;
        let Pool::Memory(limiter) = &limit.pool else { return None };
        let question = slidegate::Ask::new(limiter, key, cost);
        Some(match limit.pool_tier(tier) {
            Some(PoolTier::Memory(tier)) => question.tier(tier),
            _ => question,
        })
    };
    asks.iter().map(one).collect()
}

/// All of them, if all are in Redis. If it is not one Redis, that is found out when they are asked.
fn redis_asks<'a>(asks: &[&Ask<'a>]) -> Option<Vec<slidegate_redis::RedisAsk<'a>>> {
    let one = |ask: &&Ask<'a>| {
        let Ask { limit, key, tier, cost } = **ask;
        let Pool::Redis(limiter) = &limit.pool else { return None };
        let question = slidegate_redis::RedisAsk::new(limiter, key, cost);
        Some(match limit.pool_tier(tier) {
            Some(PoolTier::Redis(tier)) => question.tier(tier),
            _ => question,
        })
    };
    asks.iter().map(one).collect()
}

/// One after the other; when one denies, what was taken goes back.
async fn take_in_turn(asks: &[&Ask<'_>]) -> Vec<Decision> {
    let mut decisions = Vec::with_capacity(asks.len());
    for ask in asks {
        decisions.push(check(ask).await);
        if !decisions[decisions.len() - 1].is_allowed() {
            return undo(asks, decisions).await;
        }
    }
    decisions
}

/// Gives back what the first few took, and looks at those that were not asked yet.
async fn undo(asks: &[&Ask<'_>], decisions: Vec<Decision>) -> Vec<Decision> {
    let (taken, mut denied) = (decisions.len(), Vec::with_capacity(asks.len()));
    for (ask, decision) in asks.iter().zip(decisions) {
        let told = Decision::new(Outcome::Deny, decision.quotas(), None);
        denied.push(if decision.is_degraded() { told.into_degraded() } else { told });
        if let Some(receipt) = decision.into_receipt() {
            // What cannot be given back counts until its window has passed: the safe side.
            let _ = ask.limit.pool.refund(ask.key, ask.limit.pool_tier(ask.tier), receipt).await;
        }
    }
    for ask in &asks[taken..] {
        let looked = ask.limit.pool.peek(ask.key, ask.limit.pool_tier(ask.tier), ask.cost).await;
        let decision = looked.unwrap_or_else(|_| ask.limit.open(ask.tier).into_degraded());
        denied.push(decision.into_denied());
    }
    denied
}
