//! Statistics of Envoy's requests, under the names of envoyproxy/ratelimit.
//!
//! That service names statistics for StatsD, such as
//! `ratelimit.service.rate_limit.shop.user.total_hits`, and maps them to Prometheus metrics with
//! labels. This module writes both forms.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use slidegate_gate::{BOUNDS, Count, Histogram};

use crate::admin::{Kind, Page, ResultCounts};
use crate::domain::HitCounts;
use crate::engine::Engine;

/// A statistic of a limit: its name, its description, and its counter.
type HitFamily = (&'static str, &'static str, fn(&HitCounts) -> &Count);

const HITS: [HitFamily; 6] = [
    ("total_hits", "Hits requested.", |it| &it.total_hits),
    ("over_limit", "Hits above the limit.", |it| &it.over_limit),
    ("near_limit", "Hits close to the limit.", |it| &it.near_limit),
    ("within_limit", "Hits within the limit.", |it| &it.within_limit),
    ("shadow_mode", "Hits above a limit in shadow mode.", |it| &it.shadow_mode),
    ("negative_hits", "Hits refunded.", |it| &it.total_negative_hits),
];

/// The names of the metrics of [`HITS`].
const HIT_METRICS: [&str; HITS.len()] = [
    "ratelimit_service_rate_limit_total_hits",
    "ratelimit_service_rate_limit_over_limit",
    "ratelimit_service_rate_limit_near_limit",
    "ratelimit_service_rate_limit_within_limit",
    "ratelimit_service_rate_limit_shadow_mode",
    "ratelimit_service_rate_limit_negative_hits",
];

/// The labels `domain`, `key1` and `key2`.
type HitLabels = (String, String, Option<String>);

/// Reads the statistics of an engine.
#[derive(Debug, Clone)]
pub(super) struct ReferenceStatistics {
    pub(super) engine: Arc<Engine>,
    pub(super) reloads: Arc<ResultCounts>,
}

impl ReferenceStatistics {
    /// Returns every counter under its name for StatsD.
    pub(super) fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = Vec::new();
        for (series, counts) in self.series() {
            for ((name, ..), count) in HITS.into_iter().zip(counts) {
                counters.push((format!("ratelimit.service.rate_limit.{series}.{name}"), count));
            }
        }
        let plan = self.engine.plan();
        let statistics = plan.domains().statistics();
        for (name, value) in [
            ("ratelimit.service.domain_not_found", statistics.domain_not_found.get()),
            (
                "ratelimit.service.call.should_rate_limit.service_error",
                statistics.service_error.get(),
            ),
            ("ratelimit.service.call.should_rate_limit.redis_error", statistics.store_error.get()),
            ("ratelimit.service.global_shadow_mode", statistics.global_shadow_mode.get()),
            ("ratelimit.service.config_load_success", self.loads()),
            ("ratelimit.service.config_load_error", self.reloads.get("failed")),
            ("ratelimit_server.ShouldRateLimit.total_requests", calls(&statistics.calls)),
        ] {
            counters.push((name.to_owned(), value));
        }
        counters
    }

    /// Returns the number of calls that took at most each of the bounds of [`BOUNDS`]. The last
    /// number counts all.
    pub(super) fn response_times(&self) -> [u64; BOUNDS.len() + 1] {
        self.engine.plan().domains().statistics().calls.cumulative()
    }

    /// Writes the page `/stats`: a counter per line.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.counters() {
            // Writing to a string never fails.
            let _ = writeln!(text, "{name}: {value}");
        }
        text
    }

    /// Adds the metrics to a page. Series come from the configuration, or are bounded in number.
    pub(super) fn write(&self, page: &mut Page) {
        let mut hits: BTreeMap<HitLabels, [u64; HITS.len()]> = BTreeMap::new();
        for (series, counts) in self.series() {
            // Levels below the second have no label: their counts are summed.
            let sums = hits.entry(labels(&series)).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        for (index, (name, (_, help, _))) in HIT_METRICS.into_iter().zip(HITS).enumerate() {
            page.family(name, Kind::Counter, help);
            for ((domain, key1, key2), sums) in &hits {
                let key2 = key2.as_deref().map(|key2| ("key2", key2));
                let labels: Vec<_> = [("domain", domain.as_str()), ("key1", key1.as_str())]
                    .into_iter()
                    .chain(key2)
                    .collect();
                page.sample(&labels, sums[index]);
            }
        }
        self.write_service(page);
    }

    fn write_service(&self, page: &mut Page) {
        let plan = self.engine.plan();
        let statistics = plan.domains().statistics();
        let name = "ratelimit_service_should_rate_limit_error";
        page.family(name, Kind::Counter, "Calls that failed, by reason.");
        page.sample(&[("err_type", "redis_error")], statistics.store_error.get());
        page.sample(&[("err_type", "service_error")], statistics.service_error.get());
        let method = [("grpc_method", "ShouldRateLimit")];
        page.family("ratelimit_service_total_requests", Kind::Counter, "Calls, by method.");
        page.sample(&method, calls(&statistics.calls));
        let name = "ratelimit_service_response_time_seconds";
        page.family(name, Kind::Histogram, "Time to reply to a call.");
        let times = &statistics.calls;
        page.histogram(&method, &BOUNDS, &times.cumulative(), times.sum());
        for (name, help, value) in [
            (
                "ratelimit_service_config_load_success",
                "Configurations loaded, including the first one.",
                self.loads(),
            ),
            (
                "ratelimit_service_config_load_error",
                "Configurations refused.",
                self.reloads.get("failed"),
            ),
            (
                "ratelimit_service_domain_not_found",
                "Requests for a domain that is not configured.",
                statistics.domain_not_found.get(),
            ),
            (
                "ratelimit_service_global_shadow_mode",
                "Requests over a limit that were allowed because all limits are in shadow mode.",
                statistics.global_shadow_mode.get(),
            ),
        ] {
            page.family(name, Kind::Counter, help);
            page.sample(&[], value);
        }
    }

    /// Returns the counts of [`HITS`] of all domains, by sanitized name. Different names may become the
    /// same.
    fn series(&self) -> BTreeMap<String, [u64; HITS.len()]> {
        let domains = self.engine.plan().domains().statistics().domains();
        let mut series: BTreeMap<String, [u64; HITS.len()]> = BTreeMap::new();
        for (name, counts) in domains.iter().flat_map(|(_, statistics)| statistics.series()) {
            let sums = series.entry(sanitized(&name)).or_default();
            for (sum, (_, _, get)) in sums.iter_mut().zip(HITS) {
                *sum += get(&counts).get();
            }
        }
        series
    }

    /// Returns the number of loaded configurations. The daemon does not run without the first one.
    fn loads(&self) -> u64 {
        1 + self.reloads.get("ok")
    }
}

fn calls(times: &Histogram) -> u64 {
    times.cumulative().last().copied().unwrap_or(0)
}

/// Splits the name of a series at its dots, as the mapping of the reference service does.
fn labels(series: &str) -> HitLabels {
    let mut parts = series.split('.').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    (next(), next(), parts.next())
}

/// Replaces the characters that StatsD reserves, those that end a line, and the dots of IPv4
/// addresses. Clients choose values, and must not write lines of their own.
fn sanitized(name: &str) -> String {
    let mut bytes = name.as_bytes().to_vec();
    for byte in &mut bytes {
        if matches!(byte, b':' | b'|' | b'@' | b'#' | b',') || byte.is_ascii_control() {
            *byte = b'_';
        }
    }
    let mut at = 0;
    while at < bytes.len() {
        match address_len(&bytes[at..]) {
            Some(len) => {
                let dots = bytes[at..at + len].iter_mut().filter(|byte| **byte == b'.');
                dots.for_each(|byte| *byte = b'_');
                at += len;
            }
            None => at += 1,
        }
    }
    // Only single ASCII bytes were replaced.
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

/// Returns the length of an IPv4 address at the start of `bytes`.
fn address_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for part in 0..4 {
        if part > 0 {
            (bytes.get(at) == Some(&b'.')).then_some(())?;
            at += 1;
        }
        let digits = bytes[at..].iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0).then_some(())?;
        at += digits;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sanitized_so_that_values_cannot_forge_lines() {
        for (name, expected) in [
            ("shop.user", "shop.user"),
            ("shop.path_/a:b|c", "shop.path_/a_b_c"),
            ("shop.ip_10.0.0.1", "shop.ip_10_0_0_1"),
            ("shop.ip_1234.1.1.1.2", "shop.ip_1234_1_1_1.2"),
            ("shop.version_1.2.3", "shop.version_1.2.3"),
            ("shop.city_Köln:1.2.3.4", "shop.city_Köln_1_2_3_4"),
            ("shop.a_b\nforged:1|c|@0.1|#tag,t\r\0", "shop.a_b_forged_1_c__0.1__tag_t__"),
        ] {
            assert_eq!(sanitized(name), expected);
        }
    }

    #[test]
    fn levels_become_labels() {
        let labeled = |name: &str| {
            let (domain, key1, key2) = labels(name);
            [domain, key1, key2.unwrap_or_else(|| "-".to_owned())].join(" ")
        };
        assert_eq!(labeled("shop.user_a"), "shop user_a -");
        assert_eq!(labeled("shop.a.b"), "shop a b");
        assert_eq!(labeled("shop.a.b.c.d"), "shop a b");
    }
}
