//! A domain of descriptors as configured: the tree of envoyproxy/ratelimit.

use core::time::Duration;

use serde_json::Value;
use slidegate::Algorithm;

/// A tree of descriptors.
#[derive(Debug, Clone, PartialEq)]
pub struct DomainSpec {
    /// What requests call it.
    pub name: String,
    /// The first level.
    pub descriptors: Vec<DescriptorSpec>,
    /// The store of all its limits.
    pub store: String,
}

impl DomainSpec {
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
    /// Handed back with the answer.
    pub metadata: Option<Value>,
    /// Further levels.
    pub descriptors: Vec<DescriptorSpec>,
}

/// The limit of a level.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitSpec {
    /// `None` is unlimited.
    pub rate: Option<RateSpec>,
    /// Told with the answer, and what `replaces` names.
    pub name: Option<String>,
    /// Limits that do not apply to a request that meets this one.
    pub replaces: Vec<String>,
}

/// So many in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSpec {
    /// Zero denies everything.
    pub requests: u32,
    /// The window.
    pub unit: Unit,
    /// How units are counted.
    pub algorithm: Algorithm,
}

/// The windows that descriptors can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3600 s.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// All of them, shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The unit that a file names, in any case of letters.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// In small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
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
