//! The state machine that paces and retries outgoing requests.

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use slidegate::{Clock, MonotonicClock};
use slidegate_client::{Answer, Error, ErrorKind, Next, Random, Repeat, Scope, Settings, Step};

use crate::clock::ManualClock;
use crate::error::with_code;
use crate::time::Seconds;

/// Decides when each outgoing request is sent. The package's Python sleeps and sends.
#[pyclass(frozen, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct Pacing {
    state: Mutex<(slidegate_client::Pacing, Random)>,
    clock: PacingClock,
}

#[derive(Debug)]
enum PacingClock {
    Real(MonotonicClock),
    Manual(slidegate::ManualClock),
}

/// The state of one outgoing request. It must be ended.
#[pyclass(frozen, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct Ticket(Mutex<slidegate_client::Ticket>);

#[pymethods]
impl Ticket {
    /// How often the request was sent.
    #[getter]
    fn attempts(&self) -> u32 {
        lock(&self.0).attempts()
    }
}

#[pymethods]
impl Pacing {
    #[new]
    #[pyo3(signature = (
        *, pacing = true, reserve_percent = 5, deadline = None, attempts_max = 5,
        repeat_refused = true, learn_first = None, backoff_first = None, backoff_max = None,
        budget_percent = 10, budget_floor = 10, scopes_max = 256, waiters_max = 1024, clock = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn new(
        py: Python<'_>,
        pacing: bool,
        reserve_percent: u8,
        deadline: Option<Seconds>,
        attempts_max: u32,
        repeat_refused: bool,
        learn_first: Option<Seconds>,
        backoff_first: Option<Seconds>,
        backoff_max: Option<Seconds>,
        budget_percent: u8,
        budget_floor: u32,
        scopes_max: usize,
        waiters_max: usize,
        clock: Option<&ManualClock>,
    ) -> PyResult<Self> {
        let time = |given: Option<Seconds>, default: Duration| given.map_or(default, |time| time.0);
        let settings = Settings::builder()
            .pacing(pacing)
            .reserve_percent(reserve_percent)
            .deadline(time(deadline, DEADLINE))
            .attempts_max(attempts_max)
            .repeat_refused(repeat_refused)
            .learn_first(time(learn_first, LEARN_FIRST))
            .backoff(time(backoff_first, BACKOFF_FIRST), time(backoff_max, BACKOFF_MAX))
            .budget(budget_percent, budget_floor)
            .scopes_max(scopes_max)
            .waiters_max(waiters_max)
            .build()
            .map_err(|error| raised(py, &error))?;
        let clock = match clock {
            Some(clock) => PacingClock::Manual(clock.0.clone()),
            None => PacingClock::Real(MonotonicClock::new()),
        };
        let pacing = slidegate_client::Pacing::new(settings);
        Ok(Self { state: Mutex::new((pacing, Random::from_system())), clock })
    }

    /// Starts a request to a scope: a host, and parts such as an account, which are stored as a
    /// digest.
    #[pyo3(signature = (host, parts = Vec::new()), text_signature = "($self, host, parts=())")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a Python function are owned")]
    fn begin(&self, host: &str, parts: Vec<String>) -> Ticket {
        let scope = parts.iter().fold(Scope::new(host), |scope, part| scope.and(part));
        Ticket(Mutex::new(lock(&self.state).0.begin(scope, self.now())))
    }

    /// Returns `None` if the request must be sent now, or the seconds after which to ask again.
    fn ask(&self, py: Python<'_>, ticket: &Ticket) -> PyResult<Option<f64>> {
        let (mut ticket, mut state) = (lock(&ticket.0), lock(&self.state));
        let (pacing, random) = &mut *state;
        match pacing.ask(&mut ticket, self.now(), random) {
            Step::Go => Ok(None),
            Step::Wait(wait) => Ok(Some(wait.as_secs_f64())),
            Step::Refuse(error) => Err(raised(py, &error)),
        }
    }

    /// Learns from a response. Returns whether to send the request again.
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a Python function are owned")]
    fn answer(
        &self,
        ticket: &Ticket,
        status: u16,
        fields: Vec<(PyBackedBytes, PyBackedBytes)>,
        method: &str,
        has_idempotency_key: bool,
        is_repeatable: bool,
    ) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in &fields {
            // A field that is not valid advertises nothing.
            let field = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
            if let (Ok(name), Ok(value)) = field
                && headers.try_append(name, value).is_err()
            {
                break;
            }
        }
        let method = method.parse::<Method>();
        let is_idempotent = method.is_ok_and(|method| method.is_idempotent());
        let repeat = match is_repeatable {
            true if is_idempotent || has_idempotency_key => Repeat::Always,
            true => Repeat::Refused,
            false => Repeat::Never,
        };
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let now = self.now();
        let answer = Answer::read(status, &headers, now);
        let (mut ticket, mut state) = (lock(&ticket.0), lock(&self.state));
        let (pacing, random) = &mut *state;
        pacing.answer(&mut ticket, &answer, repeat, now, random) == Next::Again
    }

    /// Ends a request that was answered, failed or canceled.
    fn end(&self, ticket: &Ticket) {
        lock(&self.state).0.end(&mut lock(&ticket.0));
    }

    /// Returns whether waiting requests should ask again, because of changes since the last call.
    fn take_news(&self) -> bool {
        lock(&self.state).0.take_news()
    }

    /// Returns the counters by name.
    fn stats(&self) -> [(&'static str, u64); 6] {
        let stats = lock(&self.state).0.stats();
        [
            ("scopes", stats.scopes as u64),
            ("waiting", stats.waiting as u64),
            ("sent", stats.sent),
            ("retries", stats.retries),
            ("refusals", stats.refusals),
            ("refused", stats.refused),
        ]
    }
}

// The defaults of `Settings`.
const DEADLINE: Duration = Duration::from_secs(120);
const LEARN_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

impl Pacing {
    fn now(&self) -> Duration {
        Duration::from_nanos(match &self.clock {
            PacingClock::Real(clock) => clock.now(),
            PacingClock::Manual(clock) => clock.now(),
        })
    }
}

/// Locks a state that is consistent even after a panic, because no call is interrupted.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let code = match error.kind() {
        ErrorKind::Setting => "setting",
        ErrorKind::Stopped => "pacing_stopped",
        ErrorKind::Deadline => "pacing_deadline",
        ErrorKind::Waiters => "pacing_waiters",
        ErrorKind::Scopes => "pacing_scopes",
        _ => "other",
    };
    with_code(py, code, &error.to_string())
}
