//! The checked configuration: the types that all formats are read into, with the declaration of
//! their keys.
//!
//! The engine is built only from these types.

mod domain;
mod limit_names;
mod policy;
mod rule;
mod store;

pub(crate) use domain::{DESCRIPTOR, DOMAIN, RATE_LIMIT};
pub use domain::{
    DescriptorSpec, DomainSpec, EnvoyFailureMode, HitsUsage, LimitSpec, RateSpec, Unit,
};
pub(crate) use limit_names::LimitNames;
pub(crate) use policy::POLICY;
pub use policy::{CandidateSpec, PolicySpec, SharedSpec};
pub use rule::{Commas, KeyPart, MatchSpec, MissingKey, PathMatch, RuleSpec};
pub(crate) use rule::{RULE, units};
pub use slidegate_gate::Rollout;
pub use store::{MEMORY, MemorySpec, RedisPlace, RedisSpec, StoreSpec};
pub(crate) use store::{MEMORY_KEYS, STORE, key_secret, mebibytes, read_secret};

/// The name under which `CL.THROTTLE` counts. No policy may have this name or one of the next two.
pub const THROTTLE: &str = "cl.throttle";
/// The start of the names under which Envoy's domains count, by unit.
pub const UNITS_PREFIX: &str = "envoy.";
/// The end of the names under which candidates of policies count.
pub const CANDIDATE_SUFFIX: &str = ":candidate";

/// Everything that can be replaced while the daemon runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// The stores. The store named [`MEMORY`] always exists.
    pub stores: Vec<StoreSpec>,
    /// Policies, by the name that callers use.
    pub policies: Vec<PolicySpec>,
    /// Limits for descriptors.
    pub domains: Vec<DomainSpec>,
    /// The policies of HTTP requests, for forward auth.
    pub rules: Vec<RuleSpec>,
}

impl Spec {
    /// Describes how many policies, domains and rules there are.
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

    /// Returns the policy with this name.
    pub fn policy(&self, name: &str) -> Option<&PolicySpec> {
        self.policies.iter().find(|policy| policy.name == name)
    }
}
