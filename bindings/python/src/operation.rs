//! Operations of a limiter.

use core::time::Duration;

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use slidegate::{Cost, Error, Event, Receipt, Target, Usage};
use slidegate_gate::{Ask, Caller, GateDecision, GateOutcome, TierId, check_all};

use crate::decision::Decision;
use crate::error::raised;
use crate::key::Key;
use crate::limiter::Gate;
use crate::task::perform;

/// A request to one gate.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) gate: Gate,
    pub(crate) key: Key,
    pub(crate) cost: Cost,
    pub(crate) tier: Option<TierId>,
}

/// What to do with the request.
#[derive(Debug)]
pub(crate) enum Operation {
    Check,
    CheckAtMost,
    Peek,
    Wait(Duration),
    Refund(Receipt),
    Settle(Receipt, u64),
    Uncount(Box<GateDecision>),
    Charge(u64),
    Forgive(u64),
    Usage,
    History,
    Reset,
    Block(Duration),
    Unblock,
}

/// The result of an operation.
#[derive(Debug)]
enum Reply {
    Decision(Box<GateDecision>),
    Units(u64),
    Found(bool),
    Used(Usage),
    History(Vec<Event>),
    Done,
}

impl Call {
    /// Runs an operation, and returns its result or a `Pending`.
    pub(crate) fn run(
        self,
        py: Python<'_>,
        operation: Operation,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let mode = self.mode(&operation, notify);
        let call = async move {
            let reply = self.reply(operation).await;
            (self, reply)
        };
        perform(py, mode, call, |py, (call, reply)| reply.map_err(raised)?.convert(py, call))
    }

    pub(crate) fn ask(&self) -> Ask<'_> {
        Ask { gate: &self.gate.policy, key: self.key.bytes(), tier: self.tier, cost: self.cost }
    }

    /// Makes the Python object of a decision about this request.
    pub(crate) fn decision(self, py: Python<'_>, decided: GateDecision) -> PyResult<Py<Decision>> {
        let tier = (self.tier, self.tier.and_then(|tier| self.gate.policy.tier_name(tier)));
        Py::new(py, Decision::new(py, decided, self.key, tier)?)
    }

    async fn reply(&self, operation: Operation) -> Result<Reply, Error> {
        let Self { gate: Gate { policy: gate, waiting, .. }, key, cost, tier } = self;
        let (key, cost, tier) = (key.bytes(), *cost, *tier);
        Ok(match operation {
            Operation::Check => {
                Reply::decision(gate.check(key, tier, cost, Caller::IN_PROCESS).await)
            }
            Operation::CheckAtMost => {
                let decision = gate.store().check_at_most(Target::new(key, None), cost).await?;
                self.looked(decision)
            }
            Operation::Peek => self.looked(gate.peek(key, tier, cost).await?),
            Operation::Wait(time) => {
                let waiting = waiting.within(time);
                let all = check_all(&[self.ask()], Some(&waiting), Caller::IN_PROCESS).await?;
                // One check has one decision.
                all.into_iter().next().map_or(Reply::Done, Reply::decision)
            }
            Operation::Refund(receipt) => Reply::Units(gate.refund(key, tier, receipt).await?),
            Operation::Settle(receipt, actual) => {
                Reply::Units(gate.settle(key, tier, receipt, actual).await?)
            }
            Operation::Uncount(mut decided) => {
                gate.uncount(key, tier, &mut decided).await;
                Reply::Decision(decided)
            }
            Operation::Charge(units) => Reply::Units(gate.charge(key, tier, units).await?),
            Operation::Forgive(units) => Reply::Units(gate.forgive(key, tier, units).await?),
            Operation::Usage => Reply::Used(gate.usage(key, tier).await?),
            Operation::History => Reply::History(gate.history(key, tier).await?),
            Operation::Reset => Reply::Found(gate.reset(key).await?),
            Operation::Block(time) => {
                gate.block(key, time).await?;
                Reply::Done
            }
            Operation::Unblock => Reply::Found(gate.unblock(key).await?),
        })
    }

    /// Returns a decision that was made without counting the request.
    fn looked(&self, decision: slidegate::Decision) -> Reply {
        let is_enforced = self.gate.policy.is_enforced(self.key.bytes());
        let decision = if is_enforced { decision } else { decision.into_shadow() };
        let outcome = match decision.is_allowed() {
            _ if decision.is_shadow_denied() => GateOutcome::ShadowDenied,
            true => GateOutcome::Allowed,
            false => GateOutcome::Denied,
        };
        Reply::decision(GateDecision { decision, outcome, is_enforced, candidate: None })
    }
}

impl Reply {
    fn decision(decided: GateDecision) -> Self {
        Self::Decision(Box::new(decided))
    }

    fn convert(self, py: Python<'_>, call: Call) -> PyResult<Py<PyAny>> {
        match self {
            Self::Decision(decided) => Ok(call.decision(py, *decided)?.into_any()),
            Self::Units(units) => units.into_py_any(py),
            Self::Found(found) => found.into_py_any(py),
            Self::Used(usage) => usage.as_slice().to_vec().into_py_any(py),
            Self::History(events) => {
                let events: Vec<(f64, u64)> =
                    events.iter().map(|event| (event.at.as_secs_f64(), event.units)).collect();
                events.into_py_any(py)
            }
            Self::Done => Ok(py.None()),
        }
    }
}
