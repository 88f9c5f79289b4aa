//! Decisions as plain values.

use core::time::Duration;

use slidegate::{Decision, QuotaDecision, RetryAfter};
use slidegate_gate::Decided;

/// A decision whose fields a package copies into its own type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent marks of one decision")]
pub struct PlainDecision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Whether it is allowed only because the policy is not enforced for the key.
    pub shadow_denied: bool,
    /// Whether the key is blocked.
    pub blocked: bool,
    /// Whether the table was full, so that usage is over-counted.
    pub estimated: bool,
    /// Why the store did not decide, such as `unreachable`.
    pub degraded: Option<&'static str>,
    /// The limit of the tightest quota.
    pub limit: u64,
    /// Units left in the tightest quota.
    pub remaining: u64,
    /// The time until the cost passes every quota. `None` means never.
    pub retry_after: Option<Duration>,
    /// The time until more units become available in the tightest quota.
    pub reset_after: Duration,
    /// Every quota, in the order of the policy.
    pub quotas: Vec<PlainQuota>,
    /// The receipt of an allowed check, to refund or settle it once.
    pub receipt: Option<PlainReceipt>,
}

/// The decision of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainQuota {
    /// The limit.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// The time until the cost passes. `None` means never.
    pub retry_after: Option<Duration>,
    /// The time until more units become available.
    pub reset_after: Duration,
}

/// The parts of a receipt. [`Gate::receipt`](slidegate_gate::Gate::receipt) rebuilds it from them
/// and the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainReceipt {
    /// The units taken.
    pub units: u64,
    /// The tick at which they are recorded.
    pub tick: u64,
    /// The epoch of the key's state.
    pub epoch: u16,
}

impl From<&Decision> for PlainDecision {
    fn from(decision: &Decision) -> Self {
        Self {
            allowed: decision.is_allowed(),
            shadow_denied: decision.is_shadow_denied(),
            blocked: decision.is_blocked(),
            estimated: decision.is_estimated(),
            degraded: decision.degraded_reason().map(slidegate::DegradedReason::name),
            limit: decision.tightest().map_or(0, QuotaDecision::limit),
            remaining: decision.remaining(),
            retry_after: wait(decision.retry_after()),
            reset_after: decision.reset_after(),
            quotas: decision.quotas().iter().map(PlainQuota::from).collect(),
            receipt: decision.receipt().map(|receipt| PlainReceipt {
                units: receipt.units(),
                tick: receipt.tick(),
                epoch: receipt.epoch(),
            }),
        }
    }
}

impl From<&Decided> for PlainDecision {
    fn from(decided: &Decided) -> Self {
        Self::from(&decided.decision)
    }
}

impl From<&QuotaDecision> for PlainQuota {
    fn from(quota: &QuotaDecision) -> Self {
        Self {
            limit: quota.limit(),
            remaining: quota.remaining(),
            retry_after: wait(quota.retry_after()),
            reset_after: quota.reset_after(),
        }
    }
}

fn wait(after: RetryAfter) -> Option<Duration> {
    after.duration()
}
