//! What one descriptor of a request has met, and how that judged.

use core::ops::Deref;
use core::time::Duration;
use std::sync::Arc;

use serde_json::{Map, Value};
use slidegate::{Cost, Decision};
use slidegate_gate::{Caller, Gate};
use slidegate_http::wait_seconds;

use super::key::KeyBytes;
use super::question::Hits;
use super::response::{Code, CurrentLimit, Status};
use super::statistics::HitCounts;
use crate::gates::UnitGates;
use crate::spec::{EnvoyFailureMode, Unit};

/// What one descriptor has met.
#[derive(Debug)]
pub(super) enum Met<'d> {
    /// Nothing, or a limit that another one replaces.
    Free,
    /// A limit that lets everything through.
    Unlimited,
    /// A limit.
    Limited(Box<Meter<'d>>),
}

/// A limit, and what is asked of it.
#[derive(Debug)]
pub(super) struct Meter<'d> {
    pub(super) requests: u32,
    pub(super) unit: Unit,
    pub(super) name: Option<&'d Arc<str>>,
    /// `None` where nothing passes.
    pub(super) gate: Option<Held<'d, Gate, Box<Gate>>>,
    pub(super) shadow_mode: bool,
    pub(super) quota_mode: bool,
    pub(super) failure_mode: EnvoyFailureMode,
    pub(super) metadata: Option<&'d Map<String, Value>>,
    pub(super) counts: Held<'d, HitCounts, Arc<HitCounts>>,
    pub(super) key: KeyBytes,
    pub(super) hits: Hits,
    /// Where a look takes its grace from.
    pub(super) units: &'d UnitGates,
    /// How it judged.
    pub(super) standing: Standing,
}

/// Something of the configuration, or made for one request.
#[derive(Debug)]
pub(super) enum Held<'d, T, Made> {
    Configured(&'d T),
    Made(Made),
}

/// Where a limit stands.
#[derive(Debug)]
pub(super) struct Standing {
    /// Whether it has no room for this, enforced or not.
    pub(super) is_over: bool,
    /// Units left now.
    remaining: u64,
    /// Units of this request among those taken.
    charged: u64,
    /// When this would pass, or when there will be more.
    until: Duration,
    /// What it handed out.
    pub(super) decision: Option<Decision>,
}

impl<T, Made: Deref<Target = T>> Deref for Held<'_, T, Made> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Configured(thing) => thing,
            Self::Made(thing) => thing,
        }
    }
}

impl Meter<'_> {
    /// Whether it stands in the way of the request, or of its part of the quota.
    pub(super) fn denies(&self) -> bool {
        self.standing.is_over && !self.shadow_mode
    }

    /// Takes note of a decision. `charged` says whether its units were taken.
    pub(super) fn decided(&mut self, decision: Decision, is_over: bool, charged: bool) {
        let wait = if is_over {
            // What never passes is told to come back when all units are free, at the latest.
            decision.retry_after().duration().unwrap_or(self.unit.window())
        } else {
            decision.reset_after()
        };
        let charged = match self.hits {
            Hits::Take(cost) if charged => cost.get(),
            _ => 0,
        };
        let remaining = decision.remaining();
        self.standing =
            Standing { is_over, remaining, charged, until: wait, decision: Some(decision) };
    }

    /// Takes the one look of this key and window that passes although the limit is used up. Returns
    /// `false` if it was taken already.
    pub(super) async fn take_grace(&self, caller: Caller<'_>) -> bool {
        let Ok(gate) = self.units.gate(1, self.unit) else { return false };
        let key = [b"look\0", self.key.as_slice()].concat();
        let decided = gate.check(&key, None, Cost::ONE, caller).await;
        decided.decision.is_allowed() && !decided.decision.is_degraded()
    }

    /// The store gave no answer to a look.
    pub(super) fn unanswered(&mut self) {
        match self.failure_mode {
            EnvoyFailureMode::Deny => self.closed(),
            _ => self.standing = Standing::unknown(self.requests),
        }
    }

    /// Nothing passes.
    pub(super) fn closed(&mut self) {
        let is_over = !matches!(self.hits, Hits::GiveBack(_));
        let until = self.unit.window();
        self.standing = Standing { is_over, until, ..Standing::unknown(0) };
    }

    pub(super) fn status(&self) -> Status {
        let Standing { is_over, remaining, until, .. } = self.standing;
        // Envoy drops fractions when it writes `retry-after` and `x-ratelimit-reset`, so a client that
        // obeys them would come back too early.
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

    /// Counts what happened. `near` is the part of a limit that is near it, in thousandths.
    pub(super) fn count(&self, near: u16) {
        let Standing { is_over, remaining, charged, .. } = self.standing;
        let limit = u64::from(self.requests);
        match self.hits {
            Hits::GiveBack(units) => self.counts.total_negative_hits.add(units),
            Hits::Look => {}
            Hits::Take(cost) => {
                let used = limit.saturating_sub(remaining).saturating_sub(charged);
                // Rounded down, as the reference service does: the earlier warning.
                let near = limit * u64::from(near) / 1_000;
                let over = self.counts.note(used, cost.get(), limit, near, is_over);
                if self.shadow_mode {
                    self.counts.shadow_mode.add(over);
                }
            }
        }
    }
}

impl Standing {
    /// As if nothing had been taken: before a limit was asked, and when its store did not answer.
    pub(super) fn unknown(requests: u32) -> Self {
        let (remaining, until) = (u64::from(requests), Duration::ZERO);
        Self { is_over: false, remaining, charged: 0, until, decision: None }
    }
}
