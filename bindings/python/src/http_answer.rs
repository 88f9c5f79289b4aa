//! Header fields of a response, and the body of a denial.

use core::time::Duration;
use std::time::SystemTime;

use pyo3::prelude::*;
use slidegate::Clock as _;
use slidegate_bindings::{HttpAnswer, HttpPart};

use crate::decision::Decision;
use crate::error::raised;
use crate::limiter::Limiter;

/// Which header fields and which body a response has.
#[pyclass(frozen, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct HttpOptions(slidegate_bindings::HttpOptions);

#[pymethods]
impl HttpOptions {
    /// Reads the options from JSON.
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        slidegate_bindings::HttpOptions::from_json(options).map(Self).map_err(raised)
    }
}

type Denial = (u16, &'static str, String);

/// Returns the header fields of a response, and the status, content type and body of a denial.
#[pyfunction]
#[pyo3(signature = (parts, options, trace_id = None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of a Python function are owned")]
pub(crate) fn http_answer(
    parts: Vec<(PyRef<'_, Limiter>, PyRef<'_, Decision>)>,
    options: &HttpOptions,
    trace_id: Option<&str>,
) -> (Vec<(String, String)>, Option<Denial>) {
    let described: Vec<HttpPart<'_>> = parts
        .iter()
        .map(|(limiter, decision)| HttpPart {
            gate: &limiter.0.policy,
            tier: decision.tier,
            unit: &limiter.0.unit,
            decided: &decision.decided,
        })
        .collect();
    let now = parts
        .iter()
        .find_map(|(limiter, _)| limiter.0.clock.as_ref())
        .map_or_else(now, |clock| SystemTime::UNIX_EPOCH + Duration::from_nanos(clock.now()));
    let answer = HttpAnswer::new(&described, &options.0, now, trace_id);
    (answer.headers, answer.denial)
}

#[expect(clippy::disallowed_methods, reason = "resets since the epoch are by the wall clock")]
fn now() -> SystemTime {
    SystemTime::now()
}
