//! What a gate decided, kept until the response is there.

use slidegate::{Decision, Outcome, QuotaDecision};

use super::Judge;
use crate::gate::{Ask, Served, TierId};
use crate::key::KeyBytes;

/// What a gate decided.
pub(crate) struct Decided {
    pub(crate) gate: usize,
    pub(crate) tier: Option<TierId>,
    pub(crate) decision: Decision,
    pub(crate) enforced: bool,
    pub(crate) candidate: Option<Box<Decision>>,
    /// Kept where units may have to be given back.
    key: Option<Box<KeyBytes>>,
}

/// What is kept of the decisions while a request is served.
pub(crate) enum Passed {
    /// No gate was for it.
    Nothing,
    /// The only gate's only quota: all that is left to do is to tell it.
    One {
        quota: QuotaDecision,
        tier: Option<TierId>,
    },
    Many(Vec<Decided>),
}

impl Decided {
    pub(super) fn new(
        ask: Ask,
        decision: Decision,
        candidate: Option<Decision>,
        keep_key: bool,
    ) -> Self {
        Self {
            gate: ask.gate,
            tier: ask.tier,
            decision,
            enforced: ask.enforced,
            candidate: candidate.map(Box::new),
            key: keep_key.then(|| Box::new(ask.key)),
        }
    }

    /// One whose units are never given back.
    pub(super) fn plain(ask: Ask, decision: Decision) -> Self {
        Self::new(ask, decision, None, false)
    }
}

impl Passed {
    /// What is kept of an allowance by a single quota.
    #[inline]
    pub(crate) fn one(decision: &Decision, tier: Option<TierId>) -> Option<Self> {
        match decision.quotas() {
            [quota] if decision.is_allowed() => Some(Self::One { quota: *quota, tier }),
            _ => None,
        }
    }

    /// Whether nothing is left to do when the response is there.
    #[inline]
    pub(crate) fn is_done(&self, judge: &Judge) -> bool {
        match self {
            Self::Nothing => true,
            Self::One { .. } => judge.fields.is_none(),
            Self::Many(_) => false,
        }
    }

    /// Whether units have to be given back, now that it is known what became of the request.
    pub(crate) fn is_refundable(&self, judge: &Judge, served: &Served<'_>) -> bool {
        let Self::Many(decided) = self else { return false };
        decided.iter().any(|decided| decided.is_refundable(judge, served))
    }

    /// Gives back what does not count, and notes in the decisions what is left then. `counts` has
    /// an entry for each decision.
    pub(crate) async fn refund(mut self, judge: &Judge, counts: &[bool]) -> Self {
        if let Self::Many(all) = &mut self {
            for (decided, counts) in all.iter_mut().zip(counts) {
                if !counts {
                    decided.refund(judge).await;
                }
            }
        }
        self
    }

    /// For each decision, whether the response counts.
    pub(crate) fn counts(&self, judge: &Judge, served: &Served<'_>) -> Vec<bool> {
        let Self::Many(decided) = self else { return Vec::new() };
        decided.iter().map(|decided| !decided.is_refundable(judge, served)).collect()
    }
}

impl Decided {
    fn is_refundable(&self, judge: &Judge, served: &Served<'_>) -> bool {
        let counting = judge.gates[self.gate].counting();
        if self.key.is_none() || counting.is_all() {
            return false;
        }
        // A function that panics has not said that it does not count.
        let mut counts = true;
        crate::observe::tell(|| counts = counting.counts(served));
        !counts
    }

    async fn refund(&mut self, judge: &Judge) {
        let Some(key) = self.key.take() else { return };
        let gate = &judge.gates[self.gate];
        if let Some((store, candidate)) = gate.candidate_store().zip(self.candidate.take())
            && let Some(receipt) = candidate.into_receipt()
        {
            // Candidates have no tiers.
            store.refund(key.as_slice(), None, receipt).await;
        }
        let quotas = self.decision.quotas().to_vec();
        let taken =
            core::mem::replace(&mut self.decision, Decision::new(Outcome::Allow, &[], None));
        let (degraded, shadow) = (taken.is_degraded(), taken.is_shadow_denied());
        let Some(receipt) = taken.into_receipt() else {
            self.decision = remade(&quotas, 0, degraded, shadow);
            return;
        };
        let tier = self.tier.and_then(|id| gate.tier_of(id));
        let given = gate.store().refund(key.as_slice(), tier, receipt).await;
        self.decision = remade(&quotas, given, degraded, shadow);
    }
}

/// An allowance as it reads after `given` units went back.
fn remade(quotas: &[QuotaDecision], given: u64, degraded: bool, shadow: bool) -> Decision {
    let given_back = |quota: &QuotaDecision| {
        let remaining = quota.remaining().saturating_add(given).min(quota.limit());
        let reset = if remaining == quota.limit() {
            core::time::Duration::ZERO
        } else {
            quota.reset_after()
        };
        QuotaDecision::new(quota.limit(), remaining, quota.retry_after(), reset)
    };
    let quotas: Vec<QuotaDecision> = quotas.iter().map(given_back).collect();
    let outcome = if shadow { Outcome::Deny } else { Outcome::Allow };
    let decision = Decision::new(outcome, &quotas, None);
    let decision = if shadow { decision.into_shadow() } else { decision };
    if degraded { decision.into_degraded() } else { decision }
}
