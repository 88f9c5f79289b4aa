//! One quota as a member of the fields, with a unique name.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::time::Duration;

use slidegate::{QuotaDecision, RetryAfter};

use crate::header::window_seconds;
use crate::policy_decision::PolicyDecision;
use crate::quota_unit::QuotaUnit;

/// The most members that one field has, enough for eight policies with eight quotas; further
/// quotas are left out.
pub(crate) const MEMBERS_MAX: usize = 64;

/// One quota of a policy: a member of `RateLimit` and of `RateLimit-Policy`.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) quota: &'a QuotaDecision,
    window: Option<Duration>,
    /// How long until more units become available, without the rounding to ticks.
    pub(crate) reset_after: Duration,
    /// `None` for requests.
    pub(crate) unit: Option<&'a QuotaUnit>,
    pub(crate) partition_key: Option<&'a [u8]>,
}

impl<'a> Member<'a> {
    /// The members of all decisions, in order, with unique names.
    ///
    /// The only quota of a policy has the policy's name. One of several has name and window
    /// (`api-60s`), which does not change with the order of the quotas. A name that is already
    /// taken gets a number.
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

    /// The quota with the fewest units left; of several, the one that frees units last.
    pub(crate) fn tightest(members: &[Self]) -> Option<&Self> {
        let rank = |member: &&Self| (member.quota.remaining(), Reverse(member.quota.reset_after()));
        members.iter().min_by_key(rank)
    }

    /// The window in whole seconds.
    pub(crate) fn window(&self) -> Option<u64> {
        self.window.map(window_seconds)
    }

    /// Whether this quota had no room for the request.
    pub(crate) fn is_violated(&self) -> bool {
        self.quota.retry_after() != RetryAfter::Now
    }

    /// Whether this quota will never have room for the request.
    pub(crate) fn is_never(&self) -> bool {
        self.quota.retry_after() == RetryAfter::Never
    }
}

/// Adds the window in the largest unit that is exact, so that two windows give two names.
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
    // There are fewer members than numbers, so one number is free.
    let mut numbered = (2..=MEMBERS_MAX + 2).map(|number| format!("{name}-{number}"));
    numbered.find(|name| !is_taken(name)).map_or(name, Cow::Owned)
}

#[cfg(test)]
mod tests;
