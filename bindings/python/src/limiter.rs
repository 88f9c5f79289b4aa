//! Gates, and limiters that check requests.

use core::time::Duration;
use std::sync::{Arc, LazyLock};

use pyo3::prelude::*;
use slidegate_bindings::{Config, MemoryOptions, PolicyOptions, sleep};
use slidegate_gate::{Caller, Metrics, TierId, WaitOptions};
use slidegate_http::QuotaUnit;

use crate::clock::ManualClock;
use crate::decision::Decision;
use crate::delivery::warn;
use crate::error::{invalid, raised};
use crate::key::{Key, Units};
use crate::operation::{Call, Operation};
use crate::receipt::Receipt;
use crate::store::{Store, User};
use crate::task::{Mode, cancelable};
use crate::time::Seconds;

/// The metrics of all limiters of the process.
static METRICS: LazyLock<Arc<Metrics>> = LazyLock::new(Arc::default);

/// The time that a request may wait by default: a year, which is longer than most windows.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns the metrics of all limiters of this process in the text format of Prometheus.
#[pyfunction]
pub(crate) fn metrics(py: Python<'_>) -> String {
    py.detach(|| METRICS.render())
}

/// A policy with its store.
#[pyclass(frozen, module = "slidegate._native")]
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) policy: slidegate_gate::Gate,
    pub(crate) unit: QuotaUnit,
    pub(crate) clock: Option<slidegate::ManualClock>,
    pub(crate) waiting: WaitOptions,
    /// The process that uses the connection, if there is one.
    pub(crate) user: Option<Arc<User>>,
}

#[pymethods]
impl Gate {
    /// Creates a gate from options as JSON: a policy, and a store in Redis or memory.
    #[new]
    #[pyo3(signature = (policy, store = None, memory = "{}", clock = None))]
    fn new(
        policy: &str,
        store: Option<&Store>,
        memory: &str,
        clock: Option<&ManualClock>,
    ) -> PyResult<Self> {
        let make = || {
            let policy = PolicyOptions::from_json(policy)?;
            let place = match store {
                Some(store) => store.place.clone(),
                None => MemoryOptions::from_json(memory)?.place(&policy)?,
            };
            let gate = policy.gate(&place, clock.map(|clock| &clock.0), &METRICS)?;
            Ok(Self::of(gate, policy.unit()?, clock, store.map(|store| &store.user)))
        };
        make().map_err(raised)
    }

    /// Creates the gates of a configuration file of the daemon, in order.
    #[staticmethod]
    #[pyo3(signature = (text, clock = None))]
    fn from_yaml(text: &str, clock: Option<&ManualClock>) -> PyResult<Vec<Self>> {
        let make = || -> Result<_, slidegate::Error> {
            let config = Config::from_yaml(text)?;
            let gates = config.gates(clock.map(|clock| &clock.0), &METRICS, &warn())?;
            let user = Arc::default();
            let gates = config.policies.iter().zip(gates).map(|(policy, gate)| {
                let user = (!gate.is_in_process()).then_some(&user);
                Ok(Self::of(gate, policy.unit()?, clock, user))
            });
            gates.collect()
        };
        make().map_err(raised)
    }

    /// The name of the policy.
    #[getter]
    fn name(&self) -> &str {
        self.policy.name()
    }
}

impl Gate {
    fn of(
        gate: slidegate_gate::Gate,
        unit: QuotaUnit,
        clock: Option<&ManualClock>,
        user: Option<&Arc<User>>,
    ) -> Self {
        let clock = clock.map(|clock| clock.0.clone());
        let waiting = WaitOptions::new(WAIT_MAX, cancelable(sleep(clock.as_ref())));
        Self { policy: gate, unit, clock, waiting, user: user.map(Arc::clone) }
    }
}

/// Checks requests against a policy.
///
/// Every method takes `notify`, which the package's coroutines use: if the result is not available
/// immediately, the method returns a `Pending`, and later `slidegate._limiter._deliver` gets
/// `notify` with the result or the exception.
#[pyclass(frozen, subclass, module = "slidegate._native")]
#[derive(Debug)]
pub(crate) struct Limiter(pub(crate) Gate);

#[pymethods]
impl Limiter {
    #[new]
    fn new(gate: &Gate) -> Self {
        Self(gate.clone())
    }

    /// The name of the policy.
    #[getter]
    fn name(&self) -> &str {
        self.0.policy.name()
    }

    /// The names of the tiers.
    #[getter]
    fn tiers(&self) -> Vec<&str> {
        self.0.policy.tier_names().collect()
    }

    /// Whether a check is decided in this process, without a call to a server.
    #[getter]
    fn in_process(&self) -> bool {
        self.0.policy.is_in_process()
    }

    /// `enforce`, `percentage`, `shadow` or `off`.
    #[getter]
    fn mode(&self) -> &'static str {
        self.0.policy.mode()
    }

    /// The quotas of the policy or of a tier, as text.
    #[pyo3(signature = (tier = None))]
    fn quotas(&self, tier: Option<&str>) -> PyResult<Vec<String>> {
        Ok(self.0.policy.quotas(self.tier(tier)?).iter().map(ToString::to_string).collect())
    }

    fn __repr__(&self) -> String {
        let quotas: Vec<_> = self.0.policy.quotas(None).iter().map(ToString::to_string).collect();
        format!("Limiter({:?}, {:?})", self.0.policy.name(), quotas.join(", "))
    }

    /// Checks a request, and takes its units if it is allowed.
    #[pyo3(
        signature = (key, cost = Units::ONE, tier = None, *, notify = None),
        text_signature = "($self, key, cost=1, tier=None, *, notify=None)"
    )]
    fn check(
        &self,
        py: Python<'_>,
        key: Key,
        cost: Units,
        tier: Option<&str>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let id = self.tier(tier)?;
        // The path of a limiter in memory.
        let caller = Caller::IN_PROCESS;
        if let Some(decided) = self.0.policy.check_in_process(key.bytes(), id, cost.cost()?, caller)
        {
            return Ok(Py::new(py, Decision::new(py, decided, key, (id, tier))?)?.into_any());
        }
        self.call(key, cost, id)?.run(py, Operation::Check, notify)
    }

    /// Takes as many units as fit, at most `cost`. Denied only if not even one fits.
    #[pyo3(
        signature = (key, cost = Units::ONE, *, notify = None),
        text_signature = "($self, key, cost=1, *, notify=None)"
    )]
    fn check_at_most(
        &self,
        py: Python<'_>,
        key: Key,
        cost: Units,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(key, cost, None)?.run(py, Operation::CheckAtMost, notify)
    }

    /// Evaluates a request without taking units.
    #[pyo3(
        signature = (key, cost = Units::ONE, tier = None, *, notify = None),
        text_signature = "($self, key, cost=1, tier=None, *, notify=None)"
    )]
    fn peek(
        &self,
        py: Python<'_>,
        key: Key,
        cost: Units,
        tier: Option<&str>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(key, cost, self.tier(tier)?)?.run(py, Operation::Peek, notify)
    }

    /// Takes the units as soon as they are available, within `timeout`.
    #[pyo3(
        signature = (key, cost = Units::ONE, tier = None, *, timeout = None, notify = None),
        text_signature = "($self, key, cost=1, tier=None, *, timeout=None, notify=None)"
    )]
    fn wait(
        &self,
        py: Python<'_>,
        key: Key,
        cost: Units,
        tier: Option<&str>,
        timeout: Option<Seconds>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let timeout = timeout.map_or(WAIT_MAX, |timeout| timeout.0);
        self.call(key, cost, self.tier(tier)?)?.run(py, Operation::Wait(timeout), notify)
    }

    /// Refunds the units of a receipt. Returns the number that was still counted.
    #[pyo3(signature = (receipt, *, notify = None))]
    fn refund(
        &self,
        py: Python<'_>,
        receipt: &Receipt,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (call, receipt) = self.consume(py, receipt)?;
        call.run(py, Operation::Refund(receipt.ok_or_else(used)?), notify)
    }

    /// Corrects a reservation to its actual cost. Returns the number of units charged in total.
    #[pyo3(signature = (receipt, actual, *, notify = None))]
    fn settle(
        &self,
        py: Python<'_>,
        receipt: &Receipt,
        actual: Units,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (call, receipt) = self.consume(py, receipt)?;
        call.run(py, Operation::Settle(receipt.ok_or_else(used)?, actual.0), notify)
    }

    /// Denies a request without a key. Returns `False` if the policy is not enforced for all keys.
    fn deny_without_key(&self) -> bool {
        self.0.policy.deny_without_key(Caller::IN_PROCESS)
    }

    /// Refunds a request that does not count, also at the candidate, unless its receipt was refunded
    /// or settled. Returns the new decision.
    #[pyo3(signature = (decision, *, notify = None))]
    fn uncount(
        &self,
        py: Python<'_>,
        decision: &Bound<'_, Decision>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (decision, unchanged) = (decision.get(), decision);
        let (key, candidate) = decision.take_candidate().unzip();
        let (call, receipt) = match (decision.receipt_ref(), key) {
            (Some(receipt), _) => self.consume(py, receipt.get())?,
            // Only the candidate took units.
            (None, Some(key)) => (self.call(key, Units::ONE, decision.tier)?, None),
            (None, None) => return Ok(unchanged.clone().into_any().unbind()),
        };
        let decided = decision.to_uncount(receipt, candidate);
        call.run(py, Operation::Uncount(Box::new(decided)), notify)
    }

    /// Records units without a check, above the limit if necessary. Returns their number.
    #[pyo3(signature = (key, units, tier = None, *, notify = None))]
    fn charge(
        &self,
        py: Python<'_>,
        key: Key,
        units: Units,
        tier: Option<&str>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(key, Units::ONE, self.tier(tier)?)?.run(py, Operation::Charge(units.0), notify)
    }

    /// Refunds up to `units` without a receipt. Returns their number.
    #[pyo3(signature = (key, units, tier = None, *, notify = None))]
    fn forgive(
        &self,
        py: Python<'_>,
        key: Key,
        units: Units,
        tier: Option<&str>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(key, Units::ONE, self.tier(tier)?)?.run(py, Operation::Forgive(units.0), notify)
    }

    /// Returns the units that count against each quota now.
    #[pyo3(signature = (key, tier = None, *, notify = None))]
    fn usage(
        &self,
        py: Python<'_>,
        key: Key,
        tier: Option<&str>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(key, Units::ONE, self.tier(tier)?)?.run(py, Operation::Usage, notify)
    }

    /// Returns the requests in the longest window, oldest first, as seconds since the epoch and
    /// units.
    #[pyo3(signature = (key, tier = None, *, notify = None))]
    fn history(
        &self,
        py: Python<'_>,
        key: Key,
        tier: Option<&str>,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(key, Units::ONE, self.tier(tier)?)?.run(py, Operation::History, notify)
    }

    /// Removes the key and ends its block. Returns whether it existed.
    #[pyo3(signature = (key, *, notify = None))]
    fn reset(&self, py: Python<'_>, key: Key, notify: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.call(key, Units::ONE, None)?.run(py, Operation::Reset, notify)
    }

    /// Denies every check of a key for a time. It replaces an earlier block.
    #[pyo3(signature = (key, time, *, notify = None))]
    fn block(
        &self,
        py: Python<'_>,
        key: Key,
        time: Seconds,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(key, Units::ONE, None)?.run(py, Operation::Block(time.0), notify)
    }

    /// Ends the block of a key. Returns whether there was one.
    #[pyo3(signature = (key, *, notify = None))]
    fn unblock(&self, py: Python<'_>, key: Key, notify: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.call(key, Units::ONE, None)?.run(py, Operation::Unblock, notify)
    }
}

impl Limiter {
    pub(crate) fn tier(&self, name: Option<&str>) -> PyResult<Option<TierId>> {
        let Some(name) = name else { return Ok(None) };
        let id = self.0.policy.tier(name);
        id.map(Some).ok_or_else(|| {
            let known: Vec<&str> = self.0.policy.tier_names().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            invalid(format!(
                "policy {:?} has no tier {name:?}: its tiers are {known}",
                self.0.policy.name()
            ))
        })
    }

    pub(crate) fn call(&self, key: Key, cost: Units, tier: Option<TierId>) -> PyResult<Call> {
        let cost = cost.cost()?;
        if let Some(user) = &self.0.user {
            user.check()?;
        }
        Ok(Call { gate: self.0.clone(), key, cost, tier })
    }

    /// Marks a receipt as used. Returns no receipt if it was used already.
    fn consume(
        &self,
        py: Python<'_>,
        receipt: &Receipt,
    ) -> PyResult<(Call, Option<slidegate::Receipt>)> {
        let (key, tier) = receipt.subject(py);
        let call = self.call(key, Units::ONE, self.tier(tier)?)?;
        let rebuilt = receipt.consume().map(|parts| {
            self.0.policy.receipt(call.key.bytes(), parts.units, parts.tick, parts.epoch)
        });
        Ok((call, rebuilt))
    }
}

fn used() -> PyErr {
    invalid("the receipt is used already: refund or settle it once")
}

impl Call {
    /// Returns how an operation runs.
    pub(crate) fn mode(&self, operation: &Operation, notify: Option<Py<PyAny>>) -> Mode {
        let waits = matches!(operation, Operation::Wait(_));
        Mode::new(self.gate.policy.is_in_process() && !waits, notify)
    }
}
