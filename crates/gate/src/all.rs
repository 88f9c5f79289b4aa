//! Several gates, all or nothing.

use core::time::Duration;

use slidegate::{Cost, Decision, DegradedReason, Error, ErrorKind, RetryAfter, StoreAsk};

use crate::gate::{Gate, GateDecision, REFUSED_FOR, TierId, would_deny};
use crate::observe::{Caller, GateOutcome, Observation};
use crate::rollout::Rollout;
use crate::wait::WaitOptions;

/// One of several checks that are decided together.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The gate.
    pub gate: &'a Gate,
    /// The key.
    pub key: &'a [u8],
    /// The tier of the key, or `None` for the gate's quotas.
    pub tier: Option<TierId>,
    /// The units to take.
    pub cost: Cost,
}

/// The maximum number of checks that are decided together.
pub const ASKS_MAX: usize = 64;

/// Checks several gates, all or nothing. Returns one result per check, in order.
///
/// Either all enforced gates allow the request and take its units, or no units are taken. Gates in
/// shadow mode and gates that are switched off never cause a denial.
///
/// Stores of one [group](slidegate::Store::group), such as all limiters in memory or all policies
/// on one Redis, decide in one atomic step. Across groups, the gates are checked one after the
/// other, and the units are refunded if one denies. This never over-admits, but another request may
/// be denied because of units that are about to be refunded.
///
/// With `waiting`, a request over its limit waits for units instead of being denied.
///
/// # Errors
///
/// Returns an error, and takes nothing, if there are more than [`ASKS_MAX`] checks or a tier belongs
/// to another gate.
pub async fn check_all(
    asks: &[Ask<'_>],
    waiting: Option<&WaitOptions>,
    caller: Caller<'_>,
) -> Result<Vec<GateDecision>, Error> {
    if asks.len() > ASKS_MAX {
        let message = format!("{} checks are too many: use at most {ASKS_MAX}", asks.len());
        return Err(Error::new(ErrorKind::Setting, message));
    }
    for ask in asks {
        ask.gate.target(ask.key, ask.tier)?;
    }
    Ok(match (asks, waiting) {
        ([], _) => Vec::new(),
        ([Ask { gate, key, tier, cost }], None) => {
            vec![gate.check(key, *tier, *cost, caller).await]
        }
        (several, waiting) => check_several(several, waiting, caller).await,
    })
}

async fn check_several(
    asks: &[Ask<'_>],
    waiting: Option<&WaitOptions>,
    caller: Caller<'_>,
) -> Vec<GateDecision> {
    if asks.iter().any(|ask| ask.gate.must_refuse(ask.key)) {
        return refuse_all(asks, caller);
    }
    let timed = asks.iter().find(|ask| ask.gate.is_observed());
    let began = timed.map_or(0, |ask| ask.gate.now());
    let mut candidates = Vec::with_capacity(asks.len());
    for ask in asks {
        candidates.push(match ask.gate.rollout() {
            Rollout::Off => None,
            Rollout::Enforce | Rollout::Shadow => ask.gate.ask_candidate(ask.key, ask.cost).await,
        });
    }
    let is_enforced: Vec<bool> = asks.iter().map(|ask| ask.gate.is_enforced(ask.key)).collect();
    let enforced: Vec<&Ask<'_>> = asks
        .iter()
        .zip(&is_enforced)
        .filter(|(_, enforced)| **enforced)
        .map(|(ask, _)| ask)
        .collect();
    let (decisions, has_waited) = take_or_wait(&enforced, waiting).await;
    let passes = decisions.iter().all(Decision::is_allowed);
    let someone_is_over = decisions.iter().any(is_over);
    let mut decisions = decisions.into_iter();
    let mut all = Vec::with_capacity(asks.len());
    for ((ask, is_enforced), candidate) in asks.iter().zip(is_enforced).zip(candidates) {
        let (decision, outcome) = match is_enforced.then(|| decisions.next()).flatten() {
            Some(decision) => {
                let own = ask.gate.outcome_of(&decision);
                let by_other = own == GateOutcome::Denied && someone_is_over && !is_over(&decision);
                (decision, if by_other { GateOutcome::DeniedByOther } else { own })
            }
            None => ask.check_unenforced(passes).await,
        };
        all.push(GateDecision { decision, outcome, is_enforced, candidate });
    }
    let took = timed.map_or(Duration::ZERO, |ask| ask.gate.since(began));
    observe_all(asks, &all, has_waited, took, caller);
    all
}

fn observe_all(
    asks: &[Ask<'_>],
    all: &[GateDecision],
    has_waited: bool,
    took: Duration,
    caller: Caller<'_>,
) {
    for (ask, decided) in asks.iter().zip(all) {
        ask.gate.observe(&Observation {
            gate: ask.gate,
            key: ask.key,
            tier: ask.tier,
            cost: ask.cost,
            decision: Some(&decided.decision),
            outcome: decided.outcome,
            is_degraded: decided.decision.is_degraded(),
            has_waited,
            candidate_denies: decided.candidate.as_deref().map(would_deny),
            took,
            caller,
        });
    }
}

/// Denies a request of which a decision could not be recorded. Nothing is taken.
#[cold]
fn refuse_all(asks: &[Ask<'_>], caller: Caller<'_>) -> Vec<GateDecision> {
    let refuse = |ask: &Ask<'_>| {
        let Ask { gate, key, tier, .. } = *ask;
        let is_enforced = gate.is_enforced(key);
        let (decision, outcome) = match gate.rollout() {
            Rollout::Off => (gate.unlimited(tier), GateOutcome::Off),
            _ if is_enforced => (gate.refusal(REFUSED_FOR), GateOutcome::Unrecorded),
            _ => (gate.unlimited(tier).into_denied(), GateOutcome::DeniedByOther),
        };
        GateDecision { decision, outcome, is_enforced, candidate: None }
    };
    let all: Vec<GateDecision> = asks.iter().map(refuse).collect();
    observe_all(asks, &all, false, Duration::ZERO, caller);
    all
}

/// Returns `true` if a decision was denied because of its own quotas or its store's failure. A
/// request that was denied only because of other gates need not wait.
fn is_over(decision: &Decision) -> bool {
    let has_room = decision.retry_after() == RetryAfter::Now && !decision.is_degraded();
    !decision.is_allowed() && !has_room
}

impl Ask<'_> {
    /// Checks a gate whose denial is not enforced. It takes units only if the request passes.
    async fn check_unenforced(&self, passes: bool) -> (Decision, GateOutcome) {
        let Self { gate, key, tier, cost } = *self;
        if gate.rollout() == Rollout::Off {
            return (gate.unlimited(tier), GateOutcome::Off);
        }
        if passes {
            let decision = gate.check_store(key, tier, cost).await.into_shadow();
            let outcome = gate.outcome_of(&decision);
            return (decision, outcome);
        }
        match self.peek().await {
            Ok(decision) => {
                let decision = decision.into_shadow();
                let outcome = if decision.is_shadow_denied() {
                    GateOutcome::ShadowDenied
                } else {
                    GateOutcome::DeniedByOther
                };
                (decision.into_denied(), outcome)
            }
            Err(_) => {
                let decision =
                    gate.unlimited(tier).into_degraded(DegradedReason::Other).into_denied();
                (decision, GateOutcome::DeniedByOther)
            }
        }
    }
}

async fn take_or_wait(asks: &[&Ask<'_>], waiting: Option<&WaitOptions>) -> (Vec<Decision>, bool) {
    let decisions = take(asks).await;
    match waiting {
        Some(waiting) if !decisions.iter().all(Decision::is_allowed) => {
            waiting.wait(asks, decisions).await
        }
        _ => (decisions, false),
    }
}

/// Takes from all or from none, in one step if the stores support it.
pub(crate) async fn take(asks: &[&Ask<'_>]) -> Vec<Decision> {
    match asks {
        [] => Vec::new(),
        [Ask { gate, key, tier, cost }] => vec![gate.check_store(key, *tier, *cost).await],
        several => {
            let store = several[0].gate.store();
            let group = store.group();
            if several.iter().all(|ask| ask.gate.store().group() == group) {
                let asks: Result<Vec<StoreAsk<'_>>, Error> =
                    several.iter().map(|ask| ask.of_store()).collect();
                if let Ok(asks) = asks
                    && let Ok(decisions) = store.check_all(&asks).await
                    // Otherwise some of the checks would not be enforced.
                    && decisions.len() == asks.len()
                {
                    return decisions;
                }
            }
            take_in_turn(several).await
        }
    }
}

impl<'a> Ask<'a> {
    fn of_store(&self) -> Result<StoreAsk<'a>, Error> {
        let Self { gate, key, tier, cost } = *self;
        Ok(StoreAsk { store: &**gate.store(), target: gate.target(key, tier)?, cost })
    }

    async fn peek(&self) -> Result<Decision, Error> {
        let StoreAsk { store, target, cost } = self.of_store()?;
        store.peek(target, cost).await
    }
}

/// Checks one gate after the other. If one denies, the units are refunded.
async fn take_in_turn(asks: &[&Ask<'_>]) -> Vec<Decision> {
    let mut decisions = Vec::with_capacity(asks.len());
    for Ask { gate, key, tier, cost } in asks {
        let decision = gate.check_store(key, *tier, *cost).await;
        let is_allowed = decision.is_allowed();
        decisions.push(decision);
        if !is_allowed {
            return undo(asks, decisions).await;
        }
    }
    decisions
}

/// Refunds the units of the first gates, and peeks at those that were not checked.
async fn undo(asks: &[&Ask<'_>], decisions: Vec<Decision>) -> Vec<Decision> {
    let (asked, mut denied) = (decisions.len(), Vec::with_capacity(asks.len()));
    for (Ask { gate, key, tier, .. }, mut decision) in asks.iter().zip(decisions) {
        if let Some(receipt) = decision.take_receipt() {
            // Units that cannot be refunded count until they expire, which never over-admits.
            let _ = gate.refund(key, *tier, receipt).await;
        }
        denied.push(decision.into_denied());
    }
    for ask in &asks[asked..] {
        let unlimited = || ask.gate.unlimited(ask.tier).into_degraded(DegradedReason::Other);
        let decision = ask.peek().await.unwrap_or_else(|_| unlimited());
        denied.push(decision.into_denied());
    }
    denied
}
