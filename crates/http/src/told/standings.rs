//! Where quotas stand, by whichever family of fields tells it.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName};

use super::{QUOTAS_MAX, Told, ToldQuota};
use crate::name;
use crate::read::lines;
use crate::read::number::{self, Count};
use crate::read::structured::{self, Bare, Item};

/// The quotas of the first family that tells something.
pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Vec<ToldQuota> {
    let ratelimit = lines::joined(headers, &name::RATELIMIT).unwrap_or_default();
    let listed = list(&ratelimit);
    if !listed.is_empty() {
        return listed;
    }
    dictionary(&ratelimit)
        .or_else(|| FAMILIES.iter().find_map(|family| family.read(headers, now)))
        .into_iter()
        .collect()
}

/// Members that say nothing of where they stand are left out.
fn list(text: &str) -> Vec<ToldQuota> {
    let items = structured::list(text).unwrap_or_default();
    items.iter().filter_map(standing).take(QUOTAS_MAX).collect()
}

fn standing(item: &Item) -> Option<ToldQuota> {
    // Strings by the newest draft, tokens by some before it.
    let Bare::Text(name) = &item.value else { return None };
    let (remaining, reset) = (item.number("r"), item.number("t"));
    (remaining.is_some() || reset.is_some()).then(|| ToldQuota {
        name: Some(name.as_str().into()),
        remaining,
        reset_after: reset.map(seconds),
        ..ToldQuota::default()
    })
}

fn dictionary(text: &str) -> Option<ToldQuota> {
    let entries = structured::dictionary(text)?;
    let number = |name: &str| {
        let (_, item) = entries.iter().rev().find(|(key, _)| key == name)?;
        item.value.number()
    };
    let quota = ToldQuota {
        limit: number("limit"),
        remaining: number("remaining"),
        reset_after: number("reset").map(seconds),
        ..ToldQuota::default()
    };
    quota.tells_something().then_some(quota)
}

/// Structured fields tell seconds from now and nothing else.
fn seconds(number: u64) -> Duration {
    Duration::from_secs(number).min(Told::WAIT_MAX)
}

/// Three fields that tell one quota.
struct Family {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
    /// Counts before the reset: it is never a moment.
    reset_after: Option<HeaderName>,
}

static FAMILIES: [Family; 3] = [
    Family {
        limit: name::RATELIMIT_LIMIT,
        remaining: name::RATELIMIT_REMAINING,
        reset: name::RATELIMIT_RESET,
        reset_after: None,
    },
    Family {
        limit: name::X_RATELIMIT_LIMIT,
        remaining: name::X_RATELIMIT_REMAINING,
        reset: name::X_RATELIMIT_RESET,
        reset_after: Some(name::X_RATELIMIT_RESET_AFTER),
    },
    Family {
        limit: name::X_RATE_LIMIT_LIMIT,
        remaining: name::X_RATE_LIMIT_REMAINING,
        reset: name::X_RATE_LIMIT_RESET,
        reset_after: None,
    },
];

impl Family {
    fn read(&self, headers: &HeaderMap, now: SystemTime) -> Option<ToldQuota> {
        let limit = smallest(headers, &self.limit).and_then(Count::units);
        let remaining = match smallest(headers, &self.remaining) {
            // Over the limit. With no limit told, a number below zero may mean "unlimited".
            Some(Count::Negative) => limit.map(|_| 0),
            Some(Count::Units(units)) => Some(units),
            None => None,
        };
        let mut resets = self.reset_after.iter().chain([&self.reset]);
        let reset_after = resets.find_map(|name| longest(headers, name, now));
        let quota = ToldQuota { limit, remaining, reset_after, ..ToldQuota::default() };
        quota.tells_something().then_some(quota)
    }
}

/// The smallest count of a field. What has parameters is a policy, and read elsewhere.
fn smallest(headers: &HeaderMap, name: &HeaderName) -> Option<Count> {
    let text = lines::joined(headers, name)?;
    text.split(',').filter(|part| !part.contains(';')).filter_map(Count::parse).min()
}

/// The longest wait of a field. A date has a comma, so a line is read whole first.
fn longest(headers: &HeaderMap, name: &HeaderName, now: SystemTime) -> Option<Duration> {
    let wait_of_line = |line: &str| {
        let parts = || line.split(',').filter_map(|part| number::wait(part, now)).max();
        number::wait(line, now).or_else(parts)
    };
    // Joined only for its bound.
    lines::joined(headers, name)?;
    let lines = headers.get_all(name).iter();
    lines.filter_map(|line| wait_of_line(line.to_str().ok()?)).max()
}

impl ToldQuota {
    fn tells_something(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some() || self.reset_after.is_some()
    }
}
