//! A decision with its policy.

use std::time::Duration;

use slidegate::{Decision, FailureMode, Mode, Policy, Quota, QuotaDecision};

use crate::header::{exact_wait, seconds_up};
use crate::quota_unit::QuotaUnit;

/// A decision with its policy, from which fields and problem bodies are written.
///
/// All numbers come from the decision. The policy provides its name and windows.
#[derive(Debug, Clone, Copy)]
pub struct PolicyDecision<'a> {
    pub(crate) policy: &'a Policy,
    quotas: &'a [Quota],
    decision: &'a Decision,
    /// `None` for requests, which is not written.
    pub(crate) unit: Option<&'a QuotaUnit>,
    pub(crate) partition_key: Option<&'a [u8]>,
}

/// The time at which a denied request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// No policy denied.
    Allowed,
    /// Never: the cost is above a limit.
    Never,
    /// After this number of seconds, at least one.
    After(u64),
}

impl<'a> PolicyDecision<'a> {
    /// Creates a decision that was made with the quotas of the policy.
    pub fn new(policy: &'a Policy, decision: &'a Decision) -> Self {
        let quotas = policy.quotas();
        Self { policy, quotas, decision, unit: None, partition_key: None }
    }

    /// Sets other quotas than those of the policy, such as those of a tier.
    #[must_use]
    pub fn quotas(mut self, quotas: &'a [Quota]) -> Self {
        self.quotas = quotas;
        self
    }

    /// Sets the unit of the quotas: `qu` in `RateLimit-Policy`. [`QuotaUnit::REQUESTS`], the
    /// default, is not written.
    #[must_use]
    pub fn unit(mut self, unit: &'a QuotaUnit) -> Self {
        self.unit = Some(unit).filter(|unit| **unit != QuotaUnit::REQUESTS);
        self
    }

    /// Sets the key that the quotas are counted for: `pk` in `RateLimit` and `RateLimit-Policy`. It
    /// is not written by default.
    ///
    /// A client that sends requests for several keys needs it to distinguish their quotas. Every
    /// reader of the response sees it, so do not pass a secret. A keyed hash of the key is enough.
    #[must_use]
    pub fn partition_key(mut self, key: &'a [u8]) -> Self {
        self.partition_key = Some(key);
        self
    }

    /// Returns `true` if the request was denied.
    pub fn is_denied(&self) -> bool {
        !self.decision.is_allowed()
    }

    /// Returns the decision of each quota, with its window if the policy has a quota at that index.
    pub(crate) fn quota_decisions(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a QuotaDecision, Option<Duration>)> {
        let quotas = self.quotas;
        let decisions = self.decision.quotas().iter().enumerate();
        decisions.map(move |(index, quota)| (quota, quotas.get(index).map(Quota::window)))
    }

    /// Returns a wait for a quota with this window, without the time that rounding to ticks adds.
    pub(crate) fn exact_wait(&self, wait: Duration, window: Option<Duration>) -> Duration {
        window.map_or(wait, |window| exact_wait(wait, window, self.policy.algorithm()))
    }

    pub(crate) fn is_shadow(&self) -> bool {
        self.policy.mode() == Mode::Shadow
    }

    /// Returns `true` if the request was denied because the store failed, not by a quota.
    ///
    /// With [`FailureMode::Local`], real quotas decide even while the store fails.
    pub(crate) fn is_store_failure(&self) -> bool {
        self.decision.is_degraded() && self.policy.failure_mode() == FailureMode::Deny
    }

    /// Returns the time at which every policy that denied would allow the request.
    ///
    /// Allowed decisions are ignored: in shadow mode, their quotas may be used up.
    pub(crate) fn retry(decisions: &[Self]) -> Retry {
        let mut longest = None;
        for denied in decisions.iter().filter(|decision| decision.is_denied()) {
            // At least one, because zero would invite an immediate retry.
            longest = longest.max(Some(1));
            for (quota, window) in denied.quota_decisions() {
                let Some(after) = quota.retry_after().duration() else { return Retry::Never };
                longest = longest.max(Some(seconds_up(denied.exact_wait(after, window))));
            }
        }
        longest.map_or(Retry::Allowed, Retry::After)
    }
}

impl Retry {
    pub(crate) fn seconds(self) -> Option<u64> {
        match self {
            Self::After(seconds) => Some(seconds),
            Self::Allowed | Self::Never => None,
        }
    }
}
