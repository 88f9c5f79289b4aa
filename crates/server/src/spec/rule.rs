//! A rule as configured: which requests of forward auth meet which policy.

use slidegate::Cost;

/// Requests that match are judged by a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleSpec {
    /// For metrics and messages.
    pub name: String,
    /// Which requests.
    pub matches: MatchSpec,
    /// What a key is made of, in this order.
    pub key: Vec<KeyPart>,
    /// The policy's name.
    pub policy: String,
    /// The header whose value names a tier; an unknown value means the policy's own quotas.
    pub tier_header: Option<String>,
    /// Units of one request.
    pub cost: Cost,
    /// What happens to a request that lacks a part of the key.
    pub missing: MissingKey,
}

/// What a request must have; nothing asked for is always there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MatchSpec {
    /// One of these hosts, without the port.
    pub hosts: Vec<String>,
    /// One of these methods.
    pub methods: Vec<String>,
    /// One of these paths; one that ends in `*` matches what begins so.
    pub paths: Vec<String>,
    /// All of these headers; `None` is any value.
    pub headers: Vec<(String, Option<String>)>,
}

/// A part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// The client's address, by the trusted proxies that are configured.
    Address,
    /// The value of a header.
    Header(String),
    /// The host asked for.
    Host,
    /// The method.
    Method,
    /// The path of the match, as configured: the request's own could be made up.
    Path,
    /// The same for all.
    Constant(String),
}

/// What happens without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingKey {
    /// The rule does not apply.
    #[default]
    Skip,
    /// The request is denied.
    Deny,
    /// The client's address stands in for it.
    Address,
}
