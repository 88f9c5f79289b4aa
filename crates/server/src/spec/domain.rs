//! A domain of descriptors in the configuration: the tree of envoyproxy/ratelimit.

use core::time::Duration;

use serde_json::Value;
use slidegate::{Algorithm, FailureMode};

use super::MEMORY;
use crate::config::table::{Keyword, keywords, section};

section! {
    static DOMAIN = "a domain" {
        /// The name in requests.
        key domain = Leaf(&DOMAIN_NAME), required, example "shop";
        /// The store for the counts of all its limits. Not a key of envoyproxy/ratelimit.
        key store = Leaf(&NAME), default "memory", example "shared";
        /// The result when the store fails: an RPC error, on which Envoy's `failure_mode_deny`
        /// decides, or a decision. Not a key of envoyproxy/ratelimit.
        key failure_mode = Choice(EnvoyFailureMode::KEYWORDS), absent "`envoy.failure_mode`",
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
        /// The value of the entry that it matches. `*` matches any characters.
        key value = Leaf(&TEXT), absent "any value, each with its own count", example "tenant-*";
        /// The limit of requests whose descriptor ends here.
        key rate_limit = Section(&RATE_LIMIT),
            absent "matched and not limited, unless a deeper level is",
            example "{unit: minute, requests_per_unit: 100}";
        /// Counted and never denied.
        key shadow_mode = Flag, default "false", example "true";
        /// Denies only if all others in quota mode deny too.
        key quota_mode = Flag, default "false", example "true";
        /// Metrics by all keys and values of the request.
        key detailed_metric = Flag, default "false", example "true";
        /// The value becomes part of the metric.
        key value_to_metric = Flag, default "false", example "true";
        /// All values that a `*` matches share one count.
        key share_threshold = Flag, default "false", example "true";
        /// The result when the store fails, for this level and those below it. Not a key of
        /// envoyproxy/ratelimit.
        key failure_mode = Choice(EnvoyFailureMode::KEYWORDS), absent "that of the level above",
            example "deny";
        /// What `hits_addend` means, for this level and those below it. Not a key of
        /// envoyproxy/ratelimit.
        key usage = Choice(HitsUsage::KEYWORDS), absent "that of the level above, or `envoy.usage`",
            example "report";
        /// Metadata of the response.
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
        /// Requests in any interval of the window's length. 0 denies every request.
        key requests_per_unit = Whole(0, u32::MAX as u64), default "0", example "100";
        /// No limit. It must not have a `unit`.
        key unlimited = Flag, default "false", example "true";
        /// The name in the response, and for `replaces`.
        key name = Leaf(&TEXT), absent "none", example "gold";
        /// Limits that do not apply to a request that matches this one.
        key replaces = List(&Section(&REPLACES), 1000), default "[]", example "[{name: base}]";
        /// The algorithm. Not a key of envoyproxy/ratelimit.
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
    /// The name in requests.
    pub name: String,
    /// The first level.
    pub descriptors: Vec<DescriptorSpec>,
    /// The store of all its limits.
    pub store: String,
    /// The result when the store fails.
    pub failure_mode: EnvoyFailureMode,
}

keywords! {
    /// The result for Envoy when the store fails.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum EnvoyFailureMode {
        /// An RPC error, on which Envoy's `failure_mode_deny` decides, as with
        /// envoyproxy/ratelimit.
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

keywords! {
    /// What the `hits_addend` of a request means.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum HitsUsage {
        /// The units that a request needs. A denied request takes none.
        #[default]
        Check = "check",
        /// Usage that has happened, if the request has a `hits_addend`. It is recorded in full,
        /// also above the limit.
        Report = "report",
        /// The same, for a `hits_addend` above one. envoyproxy/ratelimit counts denied requests too.
        ReportAboveOne = "report_above_one",
    }
}

impl From<EnvoyFailureMode> for FailureMode {
    fn from(mode: EnvoyFailureMode) -> Self {
        match mode {
            // No units are taken from other limits for a request that gets an error.
            EnvoyFailureMode::Error | EnvoyFailureMode::Deny => Self::Deny,
            EnvoyFailureMode::Allow => Self::Allow,
            EnvoyFailureMode::Local => Self::Local,
        }
    }
}

impl DomainSpec {
    /// Creates a domain in memory.
    pub fn new(name: &str, descriptors: Vec<DescriptorSpec>) -> Self {
        let (name, store) = (name.to_owned(), MEMORY.to_owned());
        Self { name, descriptors, store, failure_mode: EnvoyFailureMode::default() }
    }

    /// Returns the algorithms of its limits in order, or the exact log if it has none.
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

/// One level: a key, and optionally a value, a limit and further levels.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the switches of the format, by their names")]
pub struct DescriptorSpec {
    /// The key of the entry that it matches.
    pub key: String,
    /// `None` is any value, each with its own count. It may contain `*`.
    pub value: Option<String>,
    /// `None` without further levels: matched, and not limited.
    pub limit: Option<LimitSpec>,
    /// Counted and never denied.
    pub shadow_mode: bool,
    /// Denies only if all others in quota mode deny too.
    pub quota_mode: bool,
    /// Metrics by all keys and values of the request.
    pub detailed_metric: bool,
    /// The value becomes part of the metric.
    pub value_to_metric: bool,
    /// All values that a pattern matches share one count.
    pub share_threshold: bool,
    /// The result when the store fails. `None` is that of the level above.
    pub failure_mode: Option<EnvoyFailureMode>,
    /// What `hits_addend` means, also for levels below.
    pub usage: Option<HitsUsage>,
    /// Metadata of the response.
    pub metadata: Option<Value>,
    /// Further levels.
    pub descriptors: Vec<DescriptorSpec>,
}

impl DescriptorSpec {
    /// Returns key and value as envoyproxy/ratelimit joins them, which is the name of the level.
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
    /// `None` if unlimited.
    pub rate: Option<RateSpec>,
    /// The name in the response, and for `replaces`.
    pub name: Option<String>,
    /// Limits that do not apply to a request that matches this one.
    pub replaces: Vec<String>,
}

/// A number of requests in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSpec {
    /// The limit. Zero denies every request.
    pub requests: u32,
    /// The window.
    pub unit: Unit,
    /// The algorithm.
    pub algorithm: Algorithm,
}

keywords! {
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
    /// Returns the unit with this name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Keyword::from_keyword(&name.to_ascii_lowercase())
    }

    /// Returns its length.
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
