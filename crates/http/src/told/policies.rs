//! Policies that a server announced, and which quota each belongs to.

use std::time::Duration;

use http::HeaderMap;

use super::{QUOTAS_MAX, Told, ToldQuota};
use crate::name;
use crate::read::lines;
use crate::read::structured::{self, Bare, Item};

/// A quota that a server announced, with or without a name.
#[derive(Debug)]
pub(super) struct Policy {
    name: Option<Box<str>>,
    limit: u64,
    window: Option<Duration>,
}

/// The policies of `RateLimit-Policy`; without it, those that older drafts and Envoy put beside
/// the limit.
pub(super) fn read(headers: &HeaderMap) -> Vec<Policy> {
    let fields = [
        (name::RATELIMIT_POLICY, announced as fn(&Item) -> Option<Policy>),
        (name::RATELIMIT_LIMIT, beside_a_limit),
        (name::X_RATELIMIT_LIMIT, beside_a_limit),
    ];
    for (name, read) in fields {
        let text = lines::joined(headers, &name).unwrap_or_default();
        let items = structured::list(&text).unwrap_or_default();
        let policies: Vec<_> = items.iter().filter_map(read).take(QUOTAS_MAX).collect();
        if !policies.is_empty() {
            return policies;
        }
    }
    Vec::new()
}

/// `"api";q=100;w=60`, or `100;w=60` in drafts before -08.
fn announced(item: &Item) -> Option<Policy> {
    let window = item.number("w").filter(|seconds| *seconds > 0).map(window);
    match &item.value {
        Bare::Text(name) => {
            Some(Policy { name: Some(name.as_str().into()), limit: item.number("q")?, window })
        }
        value => {
            Some(Policy { name: item.text("name").map(Into::into), limit: value.number()?, window })
        }
    }
}

/// `100, 100;w=60`: a number with a window is a policy, one without is the limit.
fn beside_a_limit(item: &Item) -> Option<Policy> {
    announced(item).filter(|policy| policy.window.is_some())
}

fn window(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(Told::WAIT_MAX)
}

/// Gives each policy to the quota it belongs to; one that belongs to none is a quota of its own.
pub(super) fn join(quotas: &mut Vec<ToldQuota>, policies: Vec<Policy>) {
    let told = quotas.len();
    // By limits alone, `10;w=1, 10;w=60` says nothing about which of the two was told.
    let limits: Vec<u64> = policies.iter().map(|policy| policy.limit).collect();
    for policy in policies {
        let is_only = limits.iter().filter(|limit| **limit == policy.limit).count() == 1;
        let mut belongs = false;
        for quota in quotas.iter_mut().take(told) {
            let is_same = match (&quota.name, &policy.name) {
                (Some(one), Some(other)) => one == other,
                _ => is_only && quota.window.is_none() && quota.limit == Some(policy.limit),
            };
            if is_same {
                quota.limit = quota.limit.or(Some(policy.limit));
                quota.window = quota.window.or(policy.window);
                quota.name = quota.name.take().or_else(|| policy.name.clone());
                belongs = true;
            }
        }
        if !belongs {
            quotas.push(policy.into());
        }
    }
}

impl From<Policy> for ToldQuota {
    fn from(policy: Policy) -> Self {
        Self {
            name: policy.name,
            limit: Some(policy.limit),
            window: policy.window,
            ..Self::default()
        }
    }
}
