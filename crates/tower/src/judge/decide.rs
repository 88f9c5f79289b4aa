//! Several gates, all or nothing.

use core::time::Duration;

use slidegate::Decision;

use super::{Decided, Judge};
use crate::gate::{Ask, Gate};
use crate::store::{Place, StoreTier};

impl Judge {
    /// Asks all, taking from all or from none, and lets the request wait for units if it may.
    /// Whether it waited is told too.
    pub(super) async fn decide(&self, asks: Vec<Ask>) -> (Vec<Decided>, bool) {
        let candidates = self.ask_candidates(&asks).await;
        let (enforced, others): (Vec<usize>, Vec<usize>) =
            (0..asks.len()).partition(|index| asks[*index].enforced);
        let first: Vec<&Ask> = enforced.iter().map(|index| &asks[*index]).collect();
        let (decisions, waited) = self.take_or_wait(&first).await;
        let allowed = decisions.iter().all(Decision::is_allowed);

        let mut by_ask: Vec<Option<Decision>> = asks.iter().map(|_| None).collect();
        for (index, decision) in enforced.iter().zip(decisions) {
            by_ask[*index] = Some(decision);
        }
        // Who is turned away by others takes nothing from those that deny nobody.
        for index in others.into_iter().filter(|_| allowed) {
            let decision = self.check(&asks[index]).await;
            by_ask[index] =
                Some(if decision.is_allowed() { decision } else { decision.into_shadow() });
        }
        let decided = asks.into_iter().zip(by_ask).zip(candidates);
        let decided = decided.filter_map(|((ask, decision), candidate)| {
            let keep_key = !self.gates[ask.gate].counting().is_all();
            Some(Decided::new(ask, decision?, candidate, keep_key))
        });
        (decided.collect(), waited)
    }

    /// What the candidate policies would do. They see every request, whatever becomes of it.
    async fn ask_candidates(&self, asks: &[Ask]) -> Vec<Option<Decision>> {
        let mut decisions = Vec::with_capacity(asks.len());
        for ask in asks {
            decisions.push(match self.gates[ask.gate].candidate_store() {
                Some(store) => Some(store.check(ask.key.as_slice(), None, ask.cost).await),
                None => None,
            });
        }
        decisions
    }

    async fn take_or_wait(&self, asks: &[&Ask]) -> (Vec<Decision>, bool) {
        let decisions = self.take(asks).await;
        if decisions.iter().all(Decision::is_allowed) {
            return (decisions, false);
        }
        match &self.waiting {
            Some(waiting) => self.wait(waiting, asks, decisions).await,
            None => (decisions, false),
        }
    }

    /// Takes from all or from none, by whatever way the stores have.
    pub(super) async fn take(&self, asks: &[&Ask]) -> Vec<Decision> {
        match asks {
            [] => Vec::new(),
            [only] => vec![self.check(only).await],
            several => {
                if let Some(decisions) = self.take_in_memory(several) {
                    return decisions;
                }
                #[cfg(feature = "redis")]
                if let Some(decisions) = self.take_in_redis(several).await {
                    return decisions;
                }
                self.take_in_turn(several).await
            }
        }
    }

    /// In one step, if all are in memory.
    fn take_in_memory(&self, asks: &[&Ask]) -> Option<Vec<Decision>> {
        slidegate::check_all(&self.memory_asks(asks)?).ok()
    }

    /// In one call where it can be, if all are in one Redis.
    #[cfg(feature = "redis")]
    async fn take_in_redis(&self, asks: &[&Ask]) -> Option<Vec<Decision>> {
        slidegate_redis::check_all(&self.redis_asks(asks)?).await.ok()
    }

    fn memory_asks<'a>(&'a self, asks: &[&Ask]) -> Option<Vec<slidegate::Ask<'a>>> {
        let one = |ask: &&Ask| {
            let gate = &self.gates[ask.gate];
            let Place::Memory(limiter) = &gate.store().0 else { return None };
            let question = slidegate::Ask::new(limiter, ask.key.as_slice(), ask.cost);
            Some(match tier(gate, ask) {
                Some(StoreTier::Memory(tier)) => question.tier(tier),
                _ => question,
            })
        };
        asks.iter().map(one).collect()
    }

    #[cfg(feature = "redis")]
    fn redis_asks<'a>(&'a self, asks: &[&'a Ask]) -> Option<Vec<slidegate_redis::RedisAsk<'a>>> {
        let one = |ask: &&'a Ask| {
            let gate = &self.gates[ask.gate];
            let Place::Redis(limiter) = &gate.store().0 else { return None };
            let question = slidegate_redis::RedisAsk::new(limiter, ask.key.as_slice(), ask.cost);
            Some(match tier(gate, ask) {
                Some(StoreTier::Redis(tier)) => question.tier(tier),
                _ => question,
            })
        };
        asks.iter().map(one).collect()
    }

    /// One after the other; when one denies, what was taken goes back. Never too much is allowed,
    /// while another request may be denied for units that are on their way back.
    async fn take_in_turn(&self, asks: &[&Ask]) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(asks.len());
        for ask in asks {
            let decision = self.check(ask).await;
            let allowed = decision.is_allowed();
            decisions.push(decision);
            if !allowed {
                return self.undo(asks, decisions).await;
            }
        }
        decisions
    }

    async fn undo(&self, asks: &[&Ask], decisions: Vec<Decision>) -> Vec<Decision> {
        let mut denied = Vec::with_capacity(decisions.len());
        for (ask, decision) in asks.iter().zip(decisions) {
            if !decision.is_allowed() {
                denied.push(decision);
                continue;
            }
            let quotas = decision.quotas().to_vec();
            let shadow = decision.is_shadow_denied();
            if let Some(receipt) = decision.into_receipt() {
                let gate = &self.gates[ask.gate];
                gate.store().refund(ask.key.as_slice(), tier(gate, ask), receipt).await;
            }
            // In shadow mode it denies nobody, also not together with others.
            let is_shadow = self.gates[ask.gate].store().policy().mode() == slidegate::Mode::Shadow;
            let outcome = if shadow || !is_shadow {
                slidegate::Outcome::Deny
            } else {
                slidegate::Outcome::Allow
            };
            let remade = Decision::new(outcome, &quotas, None);
            denied.push(if is_shadow { remade.into_shadow() } else { remade });
        }
        denied
    }

    pub(super) async fn check(&self, ask: &Ask) -> Decision {
        let gate = &self.gates[ask.gate];
        gate.store().check(ask.key.as_slice(), tier(gate, ask), ask.cost).await
    }
}

fn tier<'a>(gate: &'a Gate, ask: &Ask) -> Option<&'a StoreTier> {
    ask.tier.and_then(|id| gate.tier_of(id))
}

/// The wait after which every ask may pass; none if one never does.
pub(super) fn retry_after(decisions: &[Decision]) -> Option<Duration> {
    let denied = decisions.iter().filter(|decision| !decision.is_allowed());
    denied
        .map(Decision::retry_after)
        .try_fold(Duration::ZERO, |longest, after| Some(longest.max(after?)))
}
