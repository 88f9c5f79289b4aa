//! One quota as the fields tell it, with a name of its own.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use slidegate::QuotaDecision;

use crate::judged::Judged;
use crate::seconds;

/// The most members one field has; further quotas are left out. Eight policies of eight quotas.
pub(crate) const MEMBERS_MAX: usize = 64;

/// One quota of a judged policy: a member of `RateLimit` and of `RateLimit-Policy`.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    name: Cow<'a, str>,
    quota: &'a QuotaDecision,
    window: Option<Duration>,
}

impl<'a> Member<'a> {
    /// The members of all that was judged, in order, no two with the same name.
    ///
    /// The only quota of a policy goes by the policy's name. One of several goes by name and
    /// window (`api-60s`), which stays the same when the order of the quotas changes. A name that
    /// is taken gets a number.
    pub(crate) fn all(judged: &[Judged<'a>]) -> Vec<Self> {
        let mut members: Vec<Self> = Vec::new();
        for judged in judged {
            let several = judged.standings().count() > 1;
            for (quota, window) in judged.standings() {
                if members.len() == MEMBERS_MAX {
                    return members;
                }
                let mut name = judged.policy().name().to_owned();
                if let (true, Some(window)) = (several, window) {
                    add_window(&mut name, window);
                }
                let name = Cow::Owned(untaken(name, &members));
                members.push(Self { name, quota, window });
            }
        }
        members
    }

    /// The only member there is, if the policy has a single quota. No heap memory is needed then.
    pub(crate) fn only(judged: &Judged<'a>) -> Option<Self> {
        let mut standings = judged.standings();
        let (quota, window) = standings.next()?;
        let name = Cow::Borrowed(judged.policy().name());
        standings.next().is_none().then_some(Self { name, quota, window })
    }

    /// The quota with the fewest units left; of several, the one that frees units last.
    pub(crate) fn tightest<'m>(members: &'m [Self]) -> Option<&'m Self> {
        let rank = |member: &&'m Self| {
            (member.quota.remaining(), std::cmp::Reverse(member.quota.reset_after()))
        };
        members.iter().min_by_key(rank)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limit(&self) -> u64 {
        self.quota.limit()
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.quota.remaining()
    }

    pub(crate) fn reset_after(&self) -> Duration {
        self.quota.reset_after()
    }

    /// The window in whole seconds.
    pub(crate) fn window(&self) -> Option<u64> {
        self.window.map(seconds::of_window)
    }

    /// Whether this quota had no room for the request.
    pub(crate) fn is_violated(&self) -> bool {
        self.quota.retry_after() != Some(Duration::ZERO)
    }

    /// Whether this quota can never have room for the request.
    pub(crate) fn is_never(&self) -> bool {
        self.quota.retry_after().is_none()
    }
}

/// Adds the window in the largest unit that tells it exactly: two windows give two names.
fn add_window(name: &mut String, window: Duration) {
    // Writing to a string does not fail.
    let _ = match (window.as_secs(), window.subsec_nanos()) {
        (seconds, 0) => write!(name, "-{seconds}s"),
        (_, nanos) if nanos % 1_000_000 == 0 => write!(name, "-{}ms", window.as_millis()),
        _ => write!(name, "-{}ns", window.as_nanos()),
    };
}

/// The name, or the first of `name-2`, `name-3` and so on that no member has.
fn untaken(name: String, members: &[Member<'_>]) -> String {
    let is_taken = |name: &str| members.iter().any(|member| member.name == name);
    if !is_taken(&name) {
        return name;
    }
    // Of so many numbers, one is free: there are fewer members.
    let numbered = (2..=MEMBERS_MAX + 2).map(|number| format!("{name}-{number}"));
    numbered.into_iter().find(|name| !is_taken(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slidegate::{Decision, Outcome, Policy, Quota};

    fn policy(name: &str, quotas: &[Quota]) -> Policy {
        Policy::builder(name).quotas(quotas.iter().copied()).build().unwrap()
    }

    fn decision(count: usize) -> Decision {
        let quota = QuotaDecision::new(10, 5, Some(Duration::ZERO), Duration::ZERO);
        Decision::new(Outcome::Allow, &vec![quota; count], None)
    }

    fn names(policies: &[Policy]) -> Vec<String> {
        let decisions: Vec<_> = policies.iter().map(|p| decision(p.quotas().len())).collect();
        let judged: Vec<_> =
            policies.iter().zip(&decisions).map(|(p, d)| Judged::new(p, d)).collect();
        Member::all(&judged).into_iter().map(|member| member.name.into_owned()).collect()
    }

    #[test]
    fn the_only_quota_has_the_policys_name_and_several_have_their_windows() {
        let second = Quota::per_second(10).unwrap();
        let hour = Quota::per_hour(1000).unwrap();
        let short = Quota::new(3, Duration::from_millis(250)).unwrap();
        assert_eq!(names(&[policy("api", &[hour])]), ["api"]);
        assert_eq!(
            names(&[policy("api", &[second, hour, short])]),
            ["api-1s", "api-3600s", "api-250ms"]
        );
    }

    // Two members of one name could not be told apart by whoever reads them.
    #[test]
    fn no_name_comes_twice() {
        let minute = Quota::per_minute(10).unwrap();
        let more = Quota::per_minute(20).unwrap();
        let same = policy("api", &[minute, more]);
        assert_eq!(names(std::slice::from_ref(&same)), ["api-60s", "api-60s-2"]);
        let trap = policy("api-60s-2", &[minute]);
        assert_eq!(names(&[trap, same]), ["api-60s-2", "api-60s", "api-60s-3"]);
        let twin = policy("ip", &[minute]);
        assert_eq!(names(&[twin.clone(), twin.clone(), twin]), ["ip", "ip-2", "ip-3"]);
    }

    #[test]
    fn members_are_bounded() {
        let many = vec![policy("p", &[Quota::per_minute(1).unwrap()]); MEMBERS_MAX + 9];
        let names = names(&many);
        assert_eq!(names.len(), MEMBERS_MAX);
        let apart: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(apart.len(), MEMBERS_MAX);
    }
}
