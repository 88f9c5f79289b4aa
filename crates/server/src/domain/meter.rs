//! The match of one descriptor, and its decision.

use core::ops::Deref;
use core::time::Duration;
use std::sync::Arc;

use serde_json::{Map, Value};
use slidegate::{Cost, Decision};
use slidegate_gate::{Caller, Gate, GateDecision};
use slidegate_http::wait_seconds;

use super::key::KeyBytes;
use super::limit_request::Hits;
use super::response::{Code, CurrentLimit, Status};
use super::statistics::HitCounts;
use crate::gates::UnitGates;
use crate::spec::{EnvoyFailureMode, Unit};

/// The match of one descriptor.
#[derive(Debug)]
pub(super) enum DescriptorMatch<'d> {
    /// No limit, or one that another limit replaces.
    Free,
    /// A limit that allows every request.
    Unlimited,
    /// A limit.
    Limited(Box<Meter<'d>>),
}

/// A limit, and the operation on it.
#[derive(Debug)]
pub(super) struct Meter<'d> {
    pub(super) requests: u32,
    pub(super) unit: Unit,
    pub(super) name: Option<&'d Arc<str>>,
    /// `None` if every request is denied.
    pub(super) gate: Option<ConfigCow<'d, Gate, Box<Gate>>>,
    pub(super) shadow_mode: bool,
    pub(super) quota_mode: bool,
    pub(super) failure_mode: EnvoyFailureMode,
    pub(super) metadata: Option<&'d Map<String, Value>>,
    pub(super) counts: ConfigCow<'d, HitCounts, Arc<HitCounts>>,
    pub(super) key: KeyBytes,
    pub(super) hits: Hits,
    /// The gates that count peeks allowed by `look_grace`.
    pub(super) units: &'d UnitGates,
    /// The decision.
    pub(super) limit_status: LimitStatus,
}

/// A value that is borrowed from the configuration, or owned because it was created for a request.
#[derive(Debug)]
pub(super) enum ConfigCow<'d, T, Owned> {
    Borrowed(&'d T),
    Owned(Owned),
}

/// The status of a limit.
#[derive(Debug)]
pub(super) struct LimitStatus {
    /// Whether the request does not fit, enforced or not.
    pub(super) is_over: bool,
    /// Units left now.
    remaining: u64,
    /// Units of this request that were taken.
    charged: u64,
    /// The time until the request would be allowed, or until more units are available.
    until: Duration,
    /// The decision of the gate.
    pub(super) decision: Option<Decision>,
}

impl<T, Owned: Deref<Target = T>> Deref for ConfigCow<'_, T, Owned> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}

impl Meter<'_> {
    /// Returns `true` if it denies the request, or its part of the quota.
    pub(super) fn denies(&self) -> bool {
        self.limit_status.is_over && !self.shadow_mode
    }

    /// Records a decision. `charged` is set if its units were taken.
    pub(super) fn decided(&mut self, decision: Decision, is_over: bool, charged: bool) {
        let until = if is_over { self.wait(&decision) } else { decision.reset_after() };
        let charged = match self.hits {
            Hits::Take(cost) | Hits::Report(cost) if charged => cost.get(),
            _ => 0,
        };
        let remaining = decision.remaining();
        self.limit_status =
            LimitStatus { is_over, remaining, charged, until, decision: Some(decision) };
    }

    /// Records how the wait changed because the usage of a denied report was recorded.
    pub(super) fn reported(&mut self, looked: &Decision) {
        self.limit_status.until = self.wait(looked);
    }

    /// Returns the time until a denied request would be allowed.
    fn wait(&self, decision: &Decision) -> Duration {
        // A request that can never be allowed gets the time until all units are free.
        decision.retry_after().duration().unwrap_or(self.unit.window())
    }

    /// Takes the one peek per key and window that `look_grace` allows although the limit is used up.
    /// Returns `false` if it was taken already, or if more units than the limit were recorded.
    pub(super) async fn take_grace(&self, caller: Caller<'_>) -> bool {
        let (Ok(of_units), Some(gate)) = (self.units.gate(1, self.unit), self.gate.as_deref())
        else {
            return false;
        };
        let key = [b"look\0", self.key.as_slice()].concat();
        let GateDecision { decision, .. } = of_units.check(&key, None, Cost::ONE, caller).await;
        if !decision.is_allowed() || decision.is_degraded() {
            return false;
        }
        let usage = gate.usage(self.key.as_slice(), None).await;
        usage.is_ok_and(|usage| usage.units(0) <= u64::from(self.requests))
    }

    /// Records that the store did not reply to a peek.
    pub(super) fn unanswered(&mut self) {
        match self.failure_mode {
            EnvoyFailureMode::Deny => self.closed(),
            _ => self.limit_status = LimitStatus::unknown(self.requests),
        }
    }

    /// Records that every request is denied.
    pub(super) fn closed(&mut self) {
        let is_over = !matches!(self.hits, Hits::GiveBack(_));
        let until = self.unit.window();
        self.limit_status = LimitStatus { is_over, until, ..LimitStatus::unknown(0) };
    }

    pub(super) fn status(&self) -> Status {
        let LimitStatus { is_over, remaining, until, .. } = self.limit_status;
        // Envoy drops fractions when it writes `retry-after` and `x-ratelimit-reset`, so a client
        // that obeys them would return too early.
        let algorithm = self.gate.as_ref().map(|gate| gate.store().policy().algorithm());
        let window = self.unit.window();
        let seconds = wait_seconds(until, window, algorithm.unwrap_or_default());
        let seconds = seconds.max(u64::from(is_over));
        Status {
            code: if self.denies() { Code::OverLimit } else { Code::Ok },
            limit: Some(CurrentLimit {
                name: self.name.cloned(),
                requests: self.requests,
                unit: self.unit,
            }),
            remaining: if is_over { 0 } else { u32::try_from(remaining).unwrap_or(u32::MAX) },
            until: Some(Duration::from_secs(seconds)),
        }
    }

    /// Counts the result. `near` is the part of a limit from which it is near, in thousandths.
    pub(super) fn count(&self, near: u16) {
        let LimitStatus { is_over, remaining, charged, .. } = self.limit_status;
        let limit = u64::from(self.requests);
        match self.hits {
            Hits::GiveBack(units) => self.counts.total_negative_hits.add(units),
            Hits::Peek => {}
            Hits::Take(cost) | Hits::Report(cost) => {
                let used = limit.saturating_sub(remaining).saturating_sub(charged);
                // Rounded down, as in the reference service: the earlier warning.
                let near = limit * u64::from(near) / 1_000;
                let over = self.counts.note(used, cost.get(), limit, near, is_over);
                if self.shadow_mode {
                    self.counts.shadow_mode.add(over);
                }
            }
        }
    }
}

impl LimitStatus {
    /// Returns the status as if nothing had been taken: before the check, and if the store did not
    /// reply.
    pub(super) fn unknown(requests: u32) -> Self {
        let (remaining, until) = (u64::from(requests), Duration::ZERO);
        Self { is_over: false, remaining, charged: 0, until, decision: None }
    }
}
