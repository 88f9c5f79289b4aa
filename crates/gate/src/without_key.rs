//! Requests without a key, which are decided without the store.

use core::time::Duration;

use slidegate::{Cost, Decision};

use crate::gate::Gate;
use crate::observe::{Caller, GateOutcome, Observation};
use crate::rollout::Rollout;

impl Gate {
    /// Returns the decision of the failure mode for a request without a key.
    pub fn decide_failed(&self) -> Decision {
        let decision = self.failure_decision();
        if self.is_enforced_for_all() { decision } else { decision.into_shadow() }
    }

    /// Denies a request without a key. Returns `false` if the gate does not enforce that, so the
    /// request passes. Both are counted and reported.
    pub fn deny_without_key(&self, caller: Caller<'_>) -> bool {
        let is_denied = self.is_enforced_for_all();
        let outcome = match self.rollout() {
            Rollout::Off => GateOutcome::Off,
            _ if is_denied => GateOutcome::NoKey,
            _ => GateOutcome::ShadowDenied,
        };
        self.observe_without_key(outcome, false, caller);
        is_denied
    }

    /// Counts and reports a request that was decided without a key.
    pub fn observe_without_key(&self, outcome: GateOutcome, is_degraded: bool, caller: Caller<'_>) {
        self.observe(&Observation {
            gate: self,
            key: &[],
            tier: None,
            cost: Cost::ONE,
            decision: None,
            outcome,
            is_degraded,
            has_waited: false,
            candidate_denies: None,
            took: Duration::ZERO,
            caller,
        });
    }
}
