//! One quota as a member of the fields, with a unique name.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::time::Duration;

use slidegate::{QuotaDecision, RetryAfter};

use crate::header::window_seconds;
use crate::policy_decision::PolicyDecision;
use crate::quota_unit::QuotaUnit;

/// The maximum number of members in one field: eight policies with eight quotas. Further quotas are
/// omitted.
pub(crate) const MEMBERS_MAX: usize = 64;

/// One quota of a policy: a member of `RateLimit` and of `RateLimit-Policy`.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) quota: &'a QuotaDecision,
    window: Option<Duration>,
    /// The time until more units become available, without the rounding to ticks.
    pub(crate) reset_after: Duration,
    /// `None` for requests.
    pub(crate) unit: Option<&'a QuotaUnit>,
    pub(crate) partition_key: Option<&'a [u8]>,
}

impl<'a> Member<'a> {
    /// Returns the members of all decisions, in order, with unique names.
    ///
    /// The only quota of a policy has the name of the policy. With several, a quota has name and
    /// window (`api-60s`), so the name does not depend on the order of the quotas. A name that is
    /// already taken gets a number.
    pub(crate) fn all<'d>(decisions: impl IntoIterator<Item = &'d PolicyDecision<'a>>) -> Vec<Self>
    where
        'a: 'd,
    {
        let mut members: Vec<Self> = Vec::new();
        for decision in decisions {
            let quotas = decision.quota_decisions();
            let several = quotas.len() > 1;
            for (quota, window) in quotas.take(MEMBERS_MAX - members.len()) {
                let name = decision.policy.name();
                let name = match window.filter(|_| several) {
                    Some(window) => Cow::Owned(with_window(name, window)),
                    None => Cow::Borrowed(name),
                };
                members.push(Self {
                    name: untaken(name, &members),
                    quota,
                    window,
                    reset_after: decision.exact_wait(quota.reset_after(), window),
                    unit: decision.unit,
                    partition_key: decision.partition_key,
                });
            }
        }
        members
    }

    /// Returns the quota with the fewest units left. Of several, returns the one that frees units
    /// last.
    pub(crate) fn tightest(members: &[Self]) -> Option<&Self> {
        let rank = |member: &&Self| (member.quota.remaining(), Reverse(member.quota.reset_after()));
        members.iter().min_by_key(rank)
    }

    /// Returns the window in whole seconds.
    pub(crate) fn window(&self) -> Option<u64> {
        self.window.map(window_seconds)
    }

    /// Returns `true` if this quota denied the request.
    pub(crate) fn is_violated(&self) -> bool {
        self.quota.retry_after() != RetryAfter::Now
    }

    /// Returns `true` if this quota can never allow the request.
    pub(crate) fn is_never(&self) -> bool {
        self.quota.retry_after() == RetryAfter::Never
    }
}

/// Appends the window in the largest exact unit, so that two windows give two names.
fn with_window(name: &str, window: Duration) -> String {
    match (window.as_secs(), window.subsec_nanos()) {
        (seconds, 0) => format!("{name}-{seconds}s"),
        (_, nanos) if nanos % 1_000_000 == 0 => format!("{name}-{}ms", window.as_millis()),
        _ => format!("{name}-{}ns", window.as_nanos()),
    }
}

/// Returns the name, or the first of `name-2`, `name-3` and so on that no member has.
fn untaken<'a>(name: Cow<'a, str>, members: &[Member<'_>]) -> Cow<'a, str> {
    let is_taken = |name: &str| members.iter().any(|member| member.name == name);
    if !is_taken(&name) {
        return name;
    }
    // There are fewer members than numbers, so a number is free.
    let mut numbered = (2..=MEMBERS_MAX + 2).map(|number| format!("{name}-{number}"));
    numbered.find(|name| !is_taken(name)).map_or(name, Cow::Owned)
}

#[cfg(test)]
mod tests;
