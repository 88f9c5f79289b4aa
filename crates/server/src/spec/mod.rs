//! What a configuration asks for, checked: the types that all formats are read into, with the
//! declaration of their keys.
//!
//! The engine is built from these types and from nothing else.

mod domain;
mod policy;
mod rule;
mod store;

pub(crate) use domain::{DESCRIPTOR, DOMAIN, RATE_LIMIT};
pub use domain::{DescriptorSpec, DomainSpec, EnvoyFailureMode, LimitSpec, RateSpec, Unit};
pub(crate) use policy::POLICY;
pub use policy::{CandidateSpec, PolicySpec, SharedSpec};
pub use rule::{KeyPart, MatchSpec, MissingKey, RuleSpec};
pub(crate) use rule::{RULE, units};
pub use slidegate_gate::Rollout;
pub use store::{MEMORY, MemorySpec, RedisPlace, RedisSpec, StoreSpec};
pub(crate) use store::{MEMORY_KEYS, STORE, key_secret, mebibytes, read_secret};

/// Everything that can be swapped while the daemon runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// Where state lives. The store named [`MEMORY`] is always there.
    pub stores: Vec<StoreSpec>,
    /// Limits that callers name.
    pub policies: Vec<PolicySpec>,
    /// Limits that descriptors meet.
    pub domains: Vec<DomainSpec>,
    /// Which HTTP requests meet which policies, for forward auth.
    pub rules: Vec<RuleSpec>,
}

impl Spec {
    /// How much there is, in words.
    pub fn counts(&self) -> String {
        let count = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        [
            count(self.policies.len(), "policy", "policies"),
            count(self.rules.len(), "rule", "rules"),
            count(self.domains.len(), "domain", "domains"),
        ]
        .join(", ")
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&PolicySpec> {
        self.policies.iter().find(|policy| policy.name == name)
    }
}
