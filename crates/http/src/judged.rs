//! A decision with the policy it was made by.

use std::time::Duration;

use slidegate::{Decision, FailureMode, Mode, Policy, Quota, QuotaDecision};

use crate::seconds;

/// A decision with the policy it was made by: what fields and problem bodies are written from.
///
/// All numbers come from the decision; the policy gives its name and windows.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota};
/// use slidegate_http::Judged;
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100)?)?)?;
/// let decision = limiter.check("alice");
/// let judged = Judged::new(limiter.policy(), &decision);
/// assert!(!judged.is_denied());
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    policy: &'a Policy,
    quotas: &'a [Quota],
    decision: &'a Decision,
}

/// When a denied request may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Nothing was denied.
    Allowed,
    /// No wait would help: the cost is above a limit.
    Never,
    /// After so many seconds, at least one.
    After(u64),
}

impl<'a> Judged<'a> {
    /// A decision of this policy.
    pub fn new(policy: &'a Policy, decision: &'a Decision) -> Self {
        Self { policy, quotas: policy.quotas(), decision }
    }

    /// The same, judged by other quotas than the policy's, as a tier is.
    #[must_use]
    pub fn quotas(mut self, quotas: &'a [Quota]) -> Self {
        self.quotas = quotas;
        self
    }

    /// Whether the request was denied.
    pub fn is_denied(&self) -> bool {
        !self.decision.is_allowed()
    }

    pub(crate) fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// Where each quota stands, with its window if the policy has one at that place.
    pub(crate) fn standings(&self) -> impl Iterator<Item = (&'a QuotaDecision, Option<Duration>)> {
        let quotas = self.quotas;
        let standings = self.decision.quotas().iter().enumerate();
        standings.map(move |(index, quota)| (quota, quotas.get(index).map(Quota::window)))
    }

    pub(crate) fn is_shadow(&self) -> bool {
        self.policy.mode() == Mode::Shadow
    }

    /// Whether it was the failure of the store that denied, not a quota.
    ///
    /// A policy with [`FailureMode::Local`] is judged by true quotas also when the store is gone.
    pub(crate) fn is_store_failure(&self) -> bool {
        self.decision.is_degraded() && self.policy.failure_mode() == FailureMode::Deny
    }

    /// When all that denied would let the request pass.
    ///
    /// What was allowed has no say: in shadow mode its quotas may be full.
    pub(crate) fn retry(judged: &[Self]) -> Retry {
        let mut longest = None;
        for denied in judged.iter().filter(|judged| judged.is_denied()) {
            let Some(after) = denied.decision.retry_after() else { return Retry::Never };
            longest = longest.max(Some(after));
        }
        // At least one: zero would ask for a retry at once, which the denial was meant to spare.
        longest.map_or(Retry::Allowed, |after| Retry::After(seconds::up(after).max(1)))
    }
}
