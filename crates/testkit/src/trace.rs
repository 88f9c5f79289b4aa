//! The traces: a policy, timed requests and the decisions they must get.

use serde::{Deserialize, Deserializer, Serialize};

use crate::policy::{PolicySpec, is_one, one};
use crate::subject::Capability;

/// A trace, as in a file of the `conformance` directory.
///
/// The README of that directory describes the format.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The name of the file without its extension.
    pub name: String,
    /// One sentence: what is wrong if the trace fails.
    pub why: String,
    /// Operations that a store must support beyond a plain check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Capability>,
    /// The policy.
    pub policy: PolicySpec,
    /// The time of the clock at the start, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub start_ms: u64,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The time, in milliseconds after the start. If it is smaller than before, the clock goes
    /// back.
    pub at_ms: u64,
    /// The operation.
    pub op: Op,
    /// The key.
    #[serde(default = "k", skip_serializing_if = "is_k")]
    pub key: String,
    /// The tier, for a check only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The number of units.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u64,
    /// The number of repetitions.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub repeat: u64,
    /// Milliseconds between the repetitions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub every_ms: u64,
    /// The name of the receipt.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub keep_as: Option<String>,
    /// The name of the receipt to refund or settle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The real cost to settle for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// The duration of a block in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// The expected result. Absent fields are not compared.
    #[serde(default, skip_serializing_if = "Expect::is_empty")]
    pub expect: Expect,
}

/// The operation of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Takes units if they fit.
    Check,
    /// Takes an estimate: the same as a check, settled later.
    Reserve,
    /// Takes as many units as fit, at most the cost.
    CheckAtMost,
    /// Evaluates without taking units.
    Peek,
    /// Refunds the units of a receipt.
    Refund,
    /// Refunds units without a receipt, the oldest first.
    Forgive,
    /// Corrects the units of a receipt to the real cost.
    Settle,
    /// Records units without a check.
    Charge,
    /// Denies a key for a time.
    Block,
    /// Ends a block.
    Unblock,
    /// Removes a key.
    Reset,
    /// Returns the number of units that count.
    Usage,
    /// Returns the admissions that count.
    History,
    /// Only sets the clock.
    Clock,
}

/// The expected result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether it is allowed. For a repeated step, the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// The number of allowed repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_count: Option<u64>,
    /// Whether a policy in shadow mode would have denied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow_denied: Option<bool>,
    /// Whether there is a receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<bool>,
    /// Units left, for every quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<Vec<u64>>,
    /// Milliseconds until the cost passes every quota; `null` means never.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<Option<u64>>,
    /// Milliseconds until more units become available in the tightest quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_after_ms: Option<u64>,
    /// Units that were refunded, that are recorded after settling, that were charged, or that a
    /// check took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// Whether the key or the block existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<bool>,
    /// Units that count, for every quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Vec<u64>>,
    /// The admissions that count, oldest first, as milliseconds after the start and units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<(u64, u64)>>,
}

impl Step {
    /// Creates a step of cost 1 for the usual key, without expectations.
    pub fn new(at_ms: u64, op: Op) -> Self {
        Self {
            at_ms,
            op,
            key: k(),
            tier: None,
            cost: 1,
            repeat: 1,
            every_ms: 0,
            keep_as: None,
            of: None,
            actual: None,
            for_ms: None,
            expect: Expect::default(),
        }
    }
}

impl Op {
    /// Returns `true` if it changes nothing, so that a store without it can run the rest.
    pub fn is_reading(self) -> bool {
        matches!(self, Self::Peek | Self::Usage | Self::History | Self::Clock)
    }

    /// Returns `true` if its result is a decision.
    pub fn returns_decision(self) -> bool {
        matches!(self, Self::Check | Self::Reserve | Self::CheckAtMost | Self::Peek)
    }
}

impl Expect {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn k() -> String {
    "k".into()
}

fn is_k(key: &str) -> bool {
    key == "k"
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A value that is present, even as `null`.
#[expect(clippy::option_option, reason = "absent is not compared, `null` means never")]
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
