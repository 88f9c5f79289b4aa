//! The traces: a policy, timed requests and the decisions they must get.

use serde::{Deserialize, Deserializer, Serialize};

use crate::policy::{PolicySpec, is_one, one};
use crate::subject::Capability;

/// One trace, as it stands in a file of the `conformance` folder.
///
/// The format is described for every language in that folder's README.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The name of the file without its ending.
    pub name: String,
    /// What would be wrong if it failed, in a sentence.
    pub why: String,
    /// What a store must be able to do beyond a plain check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Capability>,
    /// Who judges.
    pub policy: PolicySpec,
    /// What the clock shows in the beginning, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub start_ms: u64,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

/// One thing that happens in a trace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, in milliseconds after the start. A smaller value than before is a clock gone back.
    pub at_ms: u64,
    /// What.
    pub op: Op,
    /// Who is counted.
    #[serde(default = "k", skip_serializing_if = "is_k")]
    pub key: String,
    /// The tier to judge by, instead of the policy's own quotas; for a check only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Units asked for.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u64,
    /// How often it happens.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub repeat: u64,
    /// Milliseconds between the repetitions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub every_ms: u64,
    /// The name under which the receipt is kept.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub keep_as: Option<String>,
    /// The name of the receipt to refund or settle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The real cost to settle for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// How many milliseconds a block lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// What must come out. What is not mentioned is not compared.
    #[serde(default, skip_serializing_if = "Expect::is_empty")]
    pub expect: Expect,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Takes if it fits.
    Check,
    /// Takes an estimate; the same as a check, to be settled later.
    Reserve,
    /// Takes as many units as fit, at most the cost.
    CheckAtMost,
    /// Looks and takes nothing.
    Peek,
    /// Gives back what a receipt names.
    Refund,
    /// Corrects what a receipt names to the real cost.
    Settle,
    /// Records units without a check.
    Charge,
    /// Denies a key for a time.
    Block,
    /// Ends a block.
    Unblock,
    /// Forgets a key.
    Reset,
    /// Asks how many units count.
    Usage,
    /// Asks for the admissions that count.
    History,
    /// Only sets the clock.
    Clock,
}

/// What must come out of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether it may go on; of a repeated step, the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// How many of a repeated step may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_count: Option<u64>,
    /// Whether a policy in shadow mode would have denied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow_denied: Option<bool>,
    /// Whether it handed out a receipt.
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
    /// Units that a refund gave back, that are recorded after settling, that were charged, or that a
    /// check took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// Whether there was something to forget, or a block to end.
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
    /// A step of cost 1 for the usual key, with nothing expected.
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
    /// Whether it changes nothing, so that a store that lacks it can still do the rest.
    pub fn is_reading(self) -> bool {
        matches!(self, Self::Peek | Self::Usage | Self::History | Self::Clock)
    }

    /// Whether it is answered by a decision.
    pub fn is_judging(self) -> bool {
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
