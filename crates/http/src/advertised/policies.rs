//! Policies that a server advertises, and the quotas that they belong to.

use http::HeaderMap;
use sfv::Item;

use super::{AdvertisedQuota, QUOTAS_MAX, integer, items, joined, partition_key, seconds, text};

/// Returns the policies of `RateLimit-Policy`. Without that field, returns those that older drafts
/// and Envoy add to the limit.
pub(super) fn read(headers: &HeaderMap) -> Vec<AdvertisedQuota> {
    let fields = [
        ("ratelimit-policy", announced as fn(&Item) -> Option<AdvertisedQuota>),
        ("ratelimit-limit", in_limit),
        ("x-ratelimit-limit", in_limit),
    ];
    for (name, read) in fields {
        let items = items(&joined(headers, name).unwrap_or_default());
        let policies: Vec<_> = items.iter().filter_map(read).take(QUOTAS_MAX).collect();
        if !policies.is_empty() {
            return policies;
        }
    }
    Vec::new()
}

/// Parses `"api";q=100;w=60`, or `100;w=60` in drafts before -08.
fn announced(item: &Item) -> Option<AdvertisedQuota> {
    let parameter = |name: &str| item.params.get(name);
    let (name, limit) = match text(&item.bare_item) {
        Some(name) => (Some(name), parameter("q").and_then(integer)?),
        None => (parameter("name").and_then(text), integer(&item.bare_item)?),
    };
    let window = parameter("w").and_then(integer).filter(|seconds| *seconds > 0).map(seconds);
    Some(AdvertisedQuota {
        name: name.map(Into::into),
        limit: Some(limit),
        window,
        unit: parameter("qu").and_then(text).map(Into::into),
        partition_key: partition_key(item),
        ..AdvertisedQuota::default()
    })
}

/// Parses `100, 100;w=60`: a number with a window is a policy, one without is the limit.
fn in_limit(item: &Item) -> Option<AdvertisedQuota> {
    announced(item).filter(|policy| policy.window.is_some())
}

/// Adds each policy to the quotas that it belongs to. A policy that belongs to none becomes a
/// quota.
pub(super) fn join(quotas: &mut Vec<AdvertisedQuota>, policies: Vec<AdvertisedQuota>) {
    let with_status = quotas.len();
    // The limit alone is ambiguous for `10;w=1, 10;w=60`.
    let limits: Vec<_> = policies.iter().map(|policy| policy.limit).collect();
    for policy in policies {
        let is_only = limits.iter().filter(|limit| **limit == policy.limit).count() == 1;
        let mut belongs = false;
        for quota in quotas.iter_mut().take(with_status) {
            let is_same = match (&quota.name, &policy.name) {
                (Some(one), Some(other)) => one == other && quota.may_be_for_key_of(&policy),
                _ => is_only && quota.window.is_none() && quota.limit == policy.limit,
            };
            if is_same {
                quota.limit = quota.limit.or(policy.limit);
                quota.window = quota.window.or(policy.window);
                quota.name = quota.name.take().or_else(|| policy.name.clone());
                quota.unit = quota.unit.take().or_else(|| policy.unit.clone());
                quota.partition_key =
                    quota.partition_key.take().or_else(|| policy.partition_key.clone());
                belongs = true;
            }
        }
        if !belongs {
            quotas.push(policy);
        }
    }
}

impl AdvertisedQuota {
    /// Returns `true` unless both name a key and the keys differ.
    fn may_be_for_key_of(&self, policy: &Self) -> bool {
        match (&self.partition_key, &policy.partition_key) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        }
    }
}
