//! Several limiters, all or nothing.

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use slidegate::Error;
use slidegate_gate::{Caller, GateDecision};

use crate::decision::Decision;
use crate::error::raised;
use crate::key::{Key, Units};
use crate::limiter::Limiter;
use crate::operation::Call;
use crate::task::{Mode, perform};
use crate::time::Seconds;

type Check<'py> = (PyRef<'py, Limiter>, Key, Units, Option<String>);

/// Checks several limiters: either all allow the request and take its units, or none does.
#[pyfunction]
#[pyo3(signature = (checks, *, timeout = None, notify = None))]
pub(crate) fn check_all(
    py: Python<'_>,
    checks: Vec<Check<'_>>,
    timeout: Option<Seconds>,
    notify: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let calls = checks.into_iter().map(|(limiter, key, cost, tier)| {
        let tier = limiter.tier(tier.as_deref())?;
        limiter.call(key, cost, tier)
    });
    let calls: Vec<Call> = calls.collect::<PyResult<_>>()?;
    let is_in_memory = calls.iter().all(|call| call.gate.policy.is_in_process());
    let waiting = match (calls.first(), timeout) {
        (Some(first), Some(timeout)) => Some(first.gate.waiting.within(timeout.0)),
        _ => None,
    };
    let mode = Mode::new(is_in_memory && waiting.is_none(), notify);
    let call = async move {
        let asks: Vec<_> = calls.iter().map(Call::ask).collect();
        let all = slidegate_gate::check_all(&asks, waiting.as_ref(), Caller::IN_PROCESS).await;
        drop(asks);
        (calls, all)
    };
    perform(py, mode, call, convert)
}

fn convert(
    py: Python<'_>,
    (calls, all): (Vec<Call>, Result<Vec<GateDecision>, Error>),
) -> PyResult<Py<PyAny>> {
    let all = all.map_err(raised)?;
    let decisions = calls.into_iter().zip(all).map(|(call, decided)| call.decision(py, decided));
    let decisions: Vec<Py<Decision>> = decisions.collect::<PyResult<_>>()?;
    decisions.into_py_any(py)
}
