//! A domain of descriptors as configured: the tree of envoyproxy/ratelimit.

use core::time::Duration;

use serde_json::Value;
use slidegate::{Algorithm, FailureMode};

use super::MEMORY;
use crate::config::table::{Words, section, words};

section! {
    static DOMAIN = "a domain" {
        /// What requests call it.
        key domain = Leaf(&DOMAIN_NAME), required, example "shop";
        /// Where the counts of all its limits live. Not a key of envoyproxy/ratelimit.
        key store = Leaf(&NAME), default "memory", example "shared";
        /// What is answered when the store fails: an RPC error, on which Envoy's `failure_mode_deny`
        /// decides, or a decision. Not a key of envoyproxy/ratelimit.
        key failure_mode = Choice(EnvoyFailureMode::WORDS), absent "`envoy.failure_mode`",
            example "local";
        /// The first level.
        key descriptors = List(&Section(&DESCRIPTOR), 100_000), default "[]",
            example "[{key: user}]";
    }
}

section! {
    static DESCRIPTOR = "a descriptor" {
        /// The key of the entry that it matches.
        key key = Leaf(&TEXT), required, example "user";
        /// The value of the entry that it matches; `*` stands for any characters.
        key value = Leaf(&TEXT), absent "any value, each with its own count", example "tenant-*";
        /// The limit of requests whose descriptor ends here.
        key rate_limit = Section(&RATE_LIMIT),
            absent "matched and not limited, unless a deeper level is",
            example "{unit: minute, requests_per_unit: 100}";
        /// Counted and never denied.
        key shadow_mode = Flag, default "false", example "true";
        /// Denies only together with all others of its kind.
        key quota_mode = Flag, default "false", example "true";
        /// Metrics by all keys and values of the request.
        key detailed_metric = Flag, default "false", example "true";
        /// The value becomes part of the metric.
        key value_to_metric = Flag, default "false", example "true";
        /// All values that a `*` matches have one count.
        key share_threshold = Flag, default "false", example "true";
        /// What is answered when the store fails, for this level and those below it. Not a key of
        /// envoyproxy/ratelimit.
        key failure_mode = Choice(EnvoyFailureMode::WORDS), absent "that of the level above",
            example "deny";
        /// Returned with the answer.
        key metadata = Any, absent "none", example "{plan: gold}";
        /// Further levels.
        key descriptors = List(&Section(&DESCRIPTOR), 100_000), default "[]",
            example "[{key: path}]";
    }
}

section! {
    static RATE_LIMIT = "a rate limit" {
        /// The window. A month is 30 days, a year 365.
        key unit = Leaf(&UNIT), absent "only with `unlimited`", example "minute";
        /// Requests in any interval of the window's length; 0 denies everything.
        key requests_per_unit = Whole(0, u32::MAX as u64), default "0", example "100";
        /// No limit; then there is no `unit`.
        key unlimited = Flag, default "false", example "true";
        /// Returned with the answer, and what `replaces` names.
        key name = Leaf(&TEXT), absent "none", example "gold";
        /// Limits that do not apply to a request that meets this one.
        key replaces = List(&Section(&REPLACES), 1000), default "[]", example "[{name: base}]";
        /// How requests are counted. Not a key of envoyproxy/ratelimit.
        key algorithm = ALGORITHM, default "log", example "gcra";
    }
}

section! {
    static REPLACES = "a replaced limit" {
        /// The limit that does not apply.
        key name = Leaf(&TEXT), required, example "base";
    }
}

/// A tree of descriptors.
#[derive(Debug, Clone, PartialEq)]
pub struct DomainSpec {
    /// What requests call it.
    pub name: String,
    /// The first level.
    pub descriptors: Vec<DescriptorSpec>,
    /// The store of all its limits.
    pub store: String,
    /// What is answered when the store fails.
    pub failure_mode: EnvoyFailureMode,
}

words! {
    /// What is answered to Envoy when the store fails.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum EnvoyFailureMode {
        /// An RPC error, on which Envoy's `failure_mode_deny` decides, as with envoyproxy/ratelimit.
        #[default]
        Error = "error",
        /// The request is allowed.
        Allow = "allow",
        /// The request is denied.
        Deny = "deny",
        /// This process decides.
        Local = "local",
    }
}

impl From<EnvoyFailureMode> for FailureMode {
    fn from(mode: EnvoyFailureMode) -> Self {
        match mode {
            // Nothing is taken from other limits for a request that gets an error.
            EnvoyFailureMode::Error | EnvoyFailureMode::Deny => Self::Deny,
            EnvoyFailureMode::Allow => Self::Allow,
            EnvoyFailureMode::Local => Self::Local,
        }
    }
}

impl DomainSpec {
    /// A domain in memory.
    pub fn new(name: &str, descriptors: Vec<DescriptorSpec>) -> Self {
        let (name, store) = (name.to_owned(), MEMORY.to_owned());
        Self { name, descriptors, store, failure_mode: EnvoyFailureMode::default() }
    }

    /// How its limits count, the first first; exactly, where it has none.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        fn add(descriptors: &[DescriptorSpec], found: &mut Vec<Algorithm>) {
            for descriptor in descriptors {
                let rate = descriptor.limit.as_ref().and_then(|limit| limit.rate);
                if let Some(RateSpec { algorithm, .. }) = rate
                    && !found.contains(&algorithm)
                {
                    found.push(algorithm);
                }
                add(&descriptor.descriptors, found);
            }
        }
        let mut found = Vec::new();
        add(&self.descriptors, &mut found);
        if found.is_empty() {
            found.push(Algorithm::Log);
        }
        found
    }
}

/// One level: a key, perhaps a value, perhaps a limit, perhaps further levels.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the switches of the format, by their names")]
pub struct DescriptorSpec {
    /// Of the entry that it matches.
    pub key: String,
    /// `None` is any value, each with its own count. May hold `*`.
    pub value: Option<String>,
    /// `None` without further levels: known, and not limited.
    pub limit: Option<LimitSpec>,
    /// Counted and never denied.
    pub shadow_mode: bool,
    /// Denies only together with all others of its kind.
    pub quota_mode: bool,
    /// Metrics by all keys and values of the request.
    pub detailed_metric: bool,
    /// The value becomes part of the metric.
    pub value_to_metric: bool,
    /// All values that a pattern matches have one count.
    pub share_threshold: bool,
    /// What is answered when the store fails; `None` is as above.
    pub failure_mode: Option<EnvoyFailureMode>,
    /// Returned with the answer.
    pub metadata: Option<Value>,
    /// Further levels.
    pub descriptors: Vec<DescriptorSpec>,
}

impl DescriptorSpec {
    /// Key and value as envoyproxy/ratelimit joins them, which is the name of the level.
    pub fn composite(&self) -> String {
        match self.value.as_deref() {
            None | Some("") => self.key.clone(),
            Some(value) => format!("{}_{value}", self.key),
        }
    }
}

/// The limit of a level.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitSpec {
    /// `None` is unlimited.
    pub rate: Option<RateSpec>,
    /// Returned with the answer, and what `replaces` names.
    pub name: Option<String>,
    /// Limits that do not apply to a request that meets this one.
    pub replaces: Vec<String>,
}

/// A number of requests in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSpec {
    /// Zero denies everything.
    pub requests: u32,
    /// The window.
    pub unit: Unit,
    /// How units are counted.
    pub algorithm: Algorithm,
}

words! {
    /// The windows that descriptors can have.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Unit {
        /// 1 s.
        Second = "second",
        /// 60 s.
        Minute = "minute",
        /// 3600 s.
        Hour = "hour",
        /// 24 hours.
        Day = "day",
        /// 7 days.
        Week = "week",
        /// 30 days.
        Month = "month",
        /// 365 days.
        Year = "year",
    }
}

impl Unit {
    /// The unit that a file names, in any case of letters.
    pub fn parse(name: &str) -> Option<Self> {
        Words::of(&name.to_ascii_lowercase())
    }

    /// How long it is.
    pub fn window(self) -> Duration {
        const DAY: u64 = 86_400;
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        })
    }
}
