//! What has happened to descriptors, as metrics under the reference service's names.

use slidegate_gate::Count;

use crate::admin::{Kind, Page};
use crate::domain::HitCounts;
use crate::engine::Plan;

/// A name, what it counts, and where that is.
type Family = (&'static str, &'static str, fn(&HitCounts) -> &Count);

const FAMILIES: [Family; 6] = [
    ("ratelimit_service_rate_limit_total_hits", "Hits asked for.", |it| &it.total_hits),
    ("ratelimit_service_rate_limit_over_limit", "Hits above the limit.", |it| &it.over_limit),
    ("ratelimit_service_rate_limit_near_limit", "Hits close to the limit.", |it| &it.near_limit),
    ("ratelimit_service_rate_limit_within_limit", "Hits with room.", |it| &it.within_limit),
    ("ratelimit_service_rate_limit_shadow_mode", "Hits above a limit in shadow.", |it| {
        &it.shadow_mode
    }),
    ("ratelimit_service_rate_limit_negative_hits", "Hits given back.", |it| {
        &it.total_negative_hits
    }),
];

/// Adds them to the page. Series come from the configuration, or are bounded in number.
pub(super) fn tell(plan: &Plan, page: &mut Page) {
    let statistics = plan.domains().statistics();
    let books = statistics.books();
    for (name, help, get) in FAMILIES {
        page.family(name, Kind::Counter, help);
        for (domain, book) in &books {
            for (series, counts) in book.series() {
                page.sample(&[("domain", domain), ("series", &series)], get(&counts).get());
            }
        }
    }
    for (name, help, count) in [
        (
            "ratelimit_service_domain_not_found",
            "Requests for a domain that is not configured.",
            &statistics.domain_not_found,
        ),
        (
            "ratelimit_service_call_should_rate_limit_service_error",
            "Requests that could not be answered.",
            &statistics.service_error,
        ),
        (
            "ratelimit_service_call_should_rate_limit_redis_error",
            "Questions that a store had no answer to.",
            &statistics.store_error,
        ),
        (
            "ratelimit_service_global_shadow_mode",
            "Requests that passed because all are in shadow.",
            &statistics.global_shadow_mode,
        ),
    ] {
        page.family(name, Kind::Counter, help);
        page.sample(&[], count.get());
    }
}
