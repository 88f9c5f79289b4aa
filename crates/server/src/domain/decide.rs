//! Checks the limits that a request matches, all or nothing.

use slidegate::{Cost, Decision, Error};
use slidegate_gate::{Ask, Caller, GateDecision, check_all};

use super::answer::Options;
use super::limit_request::Hits;
use super::meter::Meter;
use crate::spec::EnvoyFailureMode;

/// The limits of one request.
pub(super) struct LimitChecks<'a, 'd> {
    pub(super) meters: Vec<&'a mut Meter<'d>>,
    /// Descriptors without a limit that count among those in quota mode.
    pub(super) free_quotas: usize,
    pub(super) options: &'a Options,
    pub(super) failures: Failures,
    pub(super) caller: Caller<'a>,
}

/// Failures of stores.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Whether a store failed.
    pub(super) any: bool,
    /// Whether the request gets an error because of it.
    pub(super) errors: bool,
}

impl Failures {
    fn note(&mut self, mode: EnvoyFailureMode) {
        self.any = true;
        self.errors |= mode == EnvoyFailureMode::Error;
    }

    fn note_error<T>(&mut self, mode: EnvoyFailureMode, result: &Result<T, Error>) {
        if result.is_err() {
            self.note(mode);
        }
    }

    fn note_degraded(&mut self, mode: EnvoyFailureMode, decision: &Decision) {
        if decision.is_degraded() {
            self.note(mode);
        }
    }
}

impl LimitChecks<'_, '_> {
    /// Checks all limits. Returns `true` if the request is over them.
    ///
    /// A request is allowed if no limit denies; of the limits in quota mode, at least one has to
    /// allow it. A denied request is charged to no limit, but the usage that it reports is recorded.
    /// The remaining limits are not checked if a failed store makes the result an error.
    pub(super) async fn check(&mut self) -> bool {
        self.record_reports().await;
        self.look_and_give_back().await;
        if self.failures.errors {
            return true;
        }
        if self.is_denied() {
            self.look_at(|_| true).await;
        } else {
            self.take_all_or_none().await;
        }
        self.is_denied() || self.is_quota_used_up()
    }

    /// Runs the operations that take no units.
    async fn look_and_give_back(&mut self) {
        let (failures, caller) = (&mut self.failures, self.caller);
        let has_grace = self.options.envoy.look_grace;
        for meter in &mut self.meters {
            if meter.gate.is_none() {
                meter.closed();
                continue;
            }
            match meter.hits {
                Hits::Take(_) | Hits::Report(_) => {}
                Hits::Peek => {
                    look(meter, failures).await;
                    if has_grace && meter.denies() && meter.take_grace(caller).await {
                        meter.limit_status.is_over = false;
                    }
                }
                Hits::GiveBack(units) => give_back(meter, units, failures).await,
            }
        }
    }

    /// Records usage that has happened at every limit, whatever remains and whatever the others
    /// decide.
    async fn record_reports(&mut self) {
        let (failures, caller) = (&mut self.failures, self.caller);
        for meter in &mut self.meters {
            let (Hits::Report(cost), Some(gate)) = (meter.hits, meter.gate.as_deref()) else {
                continue;
            };
            let key = meter.key.as_slice();
            let GateDecision { decision, .. } = gate.check(key, None, cost, caller).await;
            failures.note_degraded(meter.failure_mode, &decision);
            let (is_over, is_degraded) = (is_over(&decision), decision.is_degraded());
            // A store that failed cannot record it.
            let looked = if is_over && !is_degraded {
                let charged = gate.charge(key, None, cost.get()).await;
                failures.note_error(meter.failure_mode, &charged);
                gate.peek(key, None, cost).await.ok()
            } else {
                None
            };
            meter.decided(decision, is_over, !is_over);
            if let Some(looked) = looked {
                meter.reported(&looked);
            }
        }
    }

    /// Takes from all limits or none, then from those in quota mode, of which one is enough.
    async fn take_all_or_none(&mut self) {
        self.take_rates().await;
        if self.failures.errors {
            return;
        }
        if self.is_denied() {
            return self.look_at(|meter| meter.quota_mode).await;
        }
        self.take_quotas().await;
        if self.is_quota_used_up() {
            self.give_up().await;
        }
    }

    async fn take_rates(&mut self) {
        let rates = || self.meters.iter().filter(|meter| !meter.quota_mode);
        let asks: Vec<Ask<'_>> = rates().filter_map(|meter| ask(meter)).collect();
        let Ok(all) = check_all(&asks, None, self.caller).await else {
            // More limits than one request may have: a request has at most as many descriptors.
            return self.meters.iter_mut().for_each(|meter| meter.closed());
        };
        let rates = self.meters.iter_mut().filter(|meter| !meter.quota_mode);
        for (meter, decided) in rates.filter(|meter| ask(meter).is_some()).zip(all) {
            self.failures.note_degraded(meter.failure_mode, &decided.decision);
            let is_over = decided.is_over();
            let charged = decided.decision.is_allowed() && !is_over;
            meter.decided(decided.decision, is_over, charged);
        }
    }

    async fn take_quotas(&mut self) {
        for meter in self.meters.iter_mut().filter(|meter| meter.quota_mode) {
            if let Some(Ask { gate, key, cost, .. }) = ask(meter) {
                let GateDecision { decision, .. } = gate.check(key, None, cost, self.caller).await;
                self.failures.note_degraded(meter.failure_mode, &decision);
                let is_over = is_over(&decision);
                meter.decided(decision, is_over, !is_over);
            }
        }
    }

    /// Refunds units that the request took before its quota was found to be used up.
    async fn give_up(&mut self) {
        let failures = &mut self.failures;
        for meter in &mut self.meters {
            let receipt = meter.limit_status.decision.take().and_then(Decision::into_receipt);
            if let (Some(receipt), Some(gate)) = (receipt, meter.gate.as_deref()) {
                // Units that cannot be refunded count until their window has passed, which never
                // over-admits.
                let given = gate.refund(meter.key.as_slice(), None, receipt).await;
                failures.note_error(meter.failure_mode, &given);
                look(meter, failures).await;
            }
        }
    }

    /// Evaluates limits that the request will not take from.
    async fn look_at(&mut self, wanted: impl Fn(&Meter<'_>) -> bool) {
        let failures = &mut self.failures;
        for meter in self.meters.iter_mut().filter(|meter| wanted(meter)) {
            if ask(meter).is_some() {
                look(meter, failures).await;
            }
        }
    }

    fn is_denied(&self) -> bool {
        self.meters.iter().any(|meter| !meter.quota_mode && meter.denies())
    }

    fn is_quota_used_up(&self) -> bool {
        let mut quotas = self.meters.iter().filter(|meter| meter.quota_mode).peekable();
        self.free_quotas == 0 && quotas.peek().is_some() && quotas.all(|meter| meter.denies())
    }
}

/// Returns the check of a meter, if it takes units.
fn ask<'m>(meter: &'m Meter<'_>) -> Option<Ask<'m>> {
    let (Hits::Take(cost), Some(gate)) = (meter.hits, meter.gate.as_deref()) else {
        return None;
    };
    Some(Ask { gate, key: meter.key.as_slice(), tier: None, cost })
}

async fn look(meter: &mut Meter<'_>, failures: &mut Failures) {
    let Some(gate) = meter.gate.as_deref() else { return };
    let cost = match meter.hits {
        Hits::Take(cost) => cost,
        _ => Cost::ONE,
    };
    let looked = gate.peek(meter.key.as_slice(), None, cost).await;
    failures.note_error(meter.failure_mode, &looked);
    match looked {
        Ok(decision) => {
            // A refund is never over the limit.
            let is_over = !matches!(meter.hits, Hits::GiveBack(_)) && is_over(&decision);
            meter.decided(decision, is_over, false);
        }
        Err(_) => meter.unanswered(),
    }
}

async fn give_back(meter: &mut Meter<'_>, units: u64, failures: &mut Failures) {
    let Some(gate) = meter.gate.as_deref() else { return };
    if units > 0 {
        let given = gate.forgive(meter.key.as_slice(), None, units).await;
        failures.note_error(meter.failure_mode, &given);
    }
    look(meter, failures).await;
}

fn is_over(decision: &Decision) -> bool {
    !decision.is_allowed() || decision.is_shadow_denied()
}
