//! Decisions as Python objects.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use slidegate::QuotaDecision;
use slidegate_bindings::{PlainDecision, PlainQuota, PlainReceipt};
use slidegate_gate::{GateDecision, TierId};

use crate::key::Key;
use crate::receipt::Receipt;

/// The decision about a request. It is true if the request is allowed.
#[pyclass(frozen, module = "slidegate")]
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) decided: GateDecision,
    pub(crate) tier: Option<TierId>,
    receipt: Option<Py<Receipt>>,
    /// The candidate's decision and the key, until its units are returned.
    candidate: Mutex<Option<(Key, Box<slidegate::Decision>)>>,
}

impl Decision {
    pub(crate) fn new(
        py: Python<'_>,
        mut decided: GateDecision,
        key: Key,
        (tier, tier_name): (Option<TierId>, Option<&str>),
    ) -> PyResult<Self> {
        let receipt = decided.decision.receipt().map(|receipt| PlainReceipt {
            units: receipt.units(),
            tick: receipt.tick(),
            epoch: receipt.epoch(),
        });
        let tier_name = || tier_name.map(str::to_owned);
        let candidate = decided.candidate.take().map(|candidate| (key.clone_ref(py), candidate));
        let candidate = Mutex::new(candidate);
        let receipt = receipt.map(|parts| Py::new(py, Receipt::of(key, tier_name(), parts)));
        Ok(Self { decided, tier, receipt: receipt.transpose()?, candidate })
    }

    pub(crate) fn receipt_ref(&self) -> Option<&Py<Receipt>> {
        self.receipt.as_ref()
    }

    /// Returns the candidate's decision and the key, once.
    pub(crate) fn take_candidate(&self) -> Option<(Key, Box<slidegate::Decision>)> {
        self.candidate.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the decision with its candidate, to return the units of both. `receipt` is the
    /// consumed receipt of this decision.
    pub(crate) fn to_uncount(
        &self,
        receipt: Option<slidegate::Receipt>,
        candidate: Option<Box<slidegate::Decision>>,
    ) -> GateDecision {
        let decision = &self.decided.decision;
        GateDecision {
            decision: slidegate::Decision::new(decision.outcome(), decision.quotas(), receipt),
            outcome: self.decided.outcome,
            is_enforced: self.decided.is_enforced,
            candidate,
        }
    }
}

#[pymethods]
impl Decision {
    /// Whether the request is allowed.
    #[getter]
    fn allowed(&self) -> bool {
        self.decided.decision.is_allowed()
    }

    fn __bool__(&self) -> bool {
        self.allowed()
    }

    /// Whether it is allowed only because the policy is not enforced for the key.
    #[getter]
    fn shadow_denied(&self) -> bool {
        self.decided.decision.is_shadow_denied()
    }

    /// Whether the key is blocked.
    #[getter]
    fn blocked(&self) -> bool {
        self.decided.decision.is_blocked()
    }

    /// Whether the table was full, so that usage is over-counted.
    #[getter]
    fn estimated(&self) -> bool {
        self.decided.decision.is_estimated()
    }

    /// Why the store did not decide, such as `unreachable`.
    #[getter]
    fn degraded(&self) -> Option<&'static str> {
        self.decided.decision.degraded_reason().map(slidegate::DegradedReason::name)
    }

    /// Whether denials are enforced for the key.
    #[getter]
    fn enforced(&self) -> bool {
        self.decided.is_enforced
    }

    /// The outcome, as in metrics.
    #[getter]
    fn outcome(&self) -> &'static str {
        self.decided.outcome.name()
    }

    /// The limit of the tightest quota.
    #[getter]
    fn limit(&self) -> u64 {
        self.decided.decision.tightest().map_or(0, QuotaDecision::limit)
    }

    /// Units left in the tightest quota.
    #[getter]
    fn remaining(&self) -> u64 {
        self.decided.decision.remaining()
    }

    /// Seconds until the cost passes every quota: zero if allowed, `None` means never.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.decided.decision.retry_after().duration().map(|after| after.as_secs_f64())
    }

    /// Seconds until more units become available in the tightest quota.
    #[getter]
    fn reset_after(&self) -> f64 {
        self.decided.decision.reset_after().as_secs_f64()
    }

    /// Every quota, in the order of the policy.
    #[getter]
    fn quotas(&self) -> Vec<Quota> {
        PlainDecision::from(&self.decided).quotas.into_iter().map(Quota).collect()
    }

    /// The receipt, to refund or settle the request once. `None` if no units were taken.
    #[getter]
    fn receipt(&self, py: Python<'_>) -> Option<Py<Receipt>> {
        self.receipt.as_ref().map(|receipt| receipt.clone_ref(py))
    }

    fn __repr__(&self) -> String {
        let allowed = if self.allowed() { "True" } else { "False" };
        let after = self.retry_after().map_or("None".to_owned(), |after| format!("{after:?}"));
        format!(
            "Decision(allowed={allowed}, limit={}, remaining={}, retry_after={after})",
            self.limit(),
            self.remaining(),
        )
    }
}

/// The decision of one quota.
#[pyclass(frozen, eq, module = "slidegate")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quota(PlainQuota);

#[pymethods]
impl Quota {
    /// The limit.
    #[getter]
    fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Units left.
    #[getter]
    fn remaining(&self) -> u64 {
        self.0.remaining
    }

    /// Seconds until the cost passes. `None` means never.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.0.retry_after.map(|after| after.as_secs_f64())
    }

    /// Seconds until more units become available.
    #[getter]
    fn reset_after(&self) -> f64 {
        self.0.reset_after.as_secs_f64()
    }

    fn __repr__(&self) -> String {
        format!("Quota(limit={}, remaining={})", self.0.limit, self.0.remaining)
    }
}
