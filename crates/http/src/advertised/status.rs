//! The status of quotas, from the first family of fields that has it.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use sfv::{Dictionary, Item, Parser};

use super::number::{self, Count};
use super::{
    AdvertisedQuota, QUOTAS_MAX, integer, item, items, joined, partition_key, seconds, text,
};

/// Returns the quotas of the first family that has any.
pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Vec<AdvertisedQuota> {
    let ratelimit = joined(headers, "ratelimit").unwrap_or_default();
    let listed: Vec<_> = items(&ratelimit).iter().filter_map(listed).take(QUOTAS_MAX).collect();
    if !listed.is_empty() {
        return listed;
    }
    dictionary(&ratelimit)
        .or_else(|| FAMILIES.iter().find_map(|family| family.read(headers, now)))
        .into_iter()
        .collect()
}

/// Parses `"api";r=99;t=60`.
fn listed(item: &Item) -> Option<AdvertisedQuota> {
    let number = |name: &str| item.params.get(name).and_then(integer);
    AdvertisedQuota {
        name: Some(text(&item.bare_item)?.into()),
        remaining: number("r"),
        reset_after: number("t").map(seconds),
        partition_key: partition_key(item),
        ..AdvertisedQuota::default()
    }
    .with_status()
}

/// Parses `limit=100, remaining=99, reset=60`.
fn dictionary(text: &str) -> Option<AdvertisedQuota> {
    let mut entries: Dictionary = Parser::new(text).parse().ok()?;
    let mut number = |name: &str| integer(&entries.swap_remove(name).and_then(item)?.bare_item);
    AdvertisedQuota {
        limit: number("limit"),
        remaining: number("remaining"),
        reset_after: number("reset").map(seconds),
        ..AdvertisedQuota::default()
    }
    .with_status()
}

/// A family of fields that describe one quota.
struct Family {
    limit: &'static str,
    remaining: &'static str,
    /// The first field that can be read is used.
    resets: &'static [&'static str],
}

static FAMILIES: [Family; 3] = [
    Family {
        limit: "ratelimit-limit",
        remaining: "ratelimit-remaining",
        resets: &["ratelimit-reset"],
    },
    Family {
        limit: "x-ratelimit-limit",
        remaining: "x-ratelimit-remaining",
        // The first one is never a time since the epoch.
        resets: &["x-ratelimit-reset-after", "x-ratelimit-reset"],
    },
    Family {
        limit: "x-rate-limit-limit",
        remaining: "x-rate-limit-remaining",
        resets: &["x-rate-limit-reset"],
    },
];

impl Family {
    fn read(&self, headers: &HeaderMap, now: SystemTime) -> Option<AdvertisedQuota> {
        let limit = match smallest(headers, self.limit) {
            Some(Count::Units(units)) => Some(units),
            Some(Count::Negative) | None => None,
        };
        let remaining = match smallest(headers, self.remaining) {
            // Over the limit. Without a limit, a negative number may mean "unlimited".
            Some(Count::Negative) => limit.map(|_| 0),
            Some(Count::Units(units)) => Some(units),
            None => None,
        };
        let reset_after = self.resets.iter().find_map(|name| longest(headers, name, now));
        AdvertisedQuota { limit, remaining, reset_after, ..AdvertisedQuota::default() }
            .with_status()
    }
}

/// Returns the smallest count of a field. A count with parameters is a policy, see `policies`.
fn smallest(headers: &HeaderMap, name: &str) -> Option<Count> {
    let text = joined(headers, name)?;
    text.split(',').filter(|part| !part.contains(';')).filter_map(Count::parse).min()
}

/// Returns the longest wait of a field. A date contains a comma, so a line is first read as a
/// whole.
fn longest(headers: &HeaderMap, name: &str, now: SystemTime) -> Option<Duration> {
    let wait_of_line = |line: &str| {
        let parts = || line.split(',').filter_map(|part| number::wait(part, now)).max();
        number::wait(line, now).or_else(parts)
    };
    // Checks the bounds.
    joined(headers, name)?;
    let lines = headers.get_all(name).iter();
    lines.filter_map(|line| wait_of_line(line.to_str().ok()?)).max()
}

impl AdvertisedQuota {
    /// Returns `None` if no field has a number.
    fn with_status(self) -> Option<Self> {
        let has_number =
            self.limit.is_some() || self.remaining.is_some() || self.reset_after.is_some();
        has_number.then_some(self)
    }
}
