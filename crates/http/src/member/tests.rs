//! Tests of `member`.

use super::*;
use slidegate::{Decision, Outcome, Policy, Quota, RetryAfter};

fn policy(name: &str, quotas: &[Quota]) -> Policy {
    Policy::builder(name).quotas(quotas.iter().copied()).build().unwrap()
}

fn decision(count: usize) -> Decision {
    let quota = QuotaDecision::new(10, 5, RetryAfter::Now, Duration::ZERO);
    Decision::new(Outcome::Allow, &vec![quota; count], None)
}

fn names(policies: &[Policy]) -> Vec<String> {
    let decisions: Vec<_> = policies.iter().map(|p| decision(p.quotas().len())).collect();
    let decisions: Vec<_> =
        policies.iter().zip(&decisions).map(|(p, d)| PolicyDecision::new(p, d)).collect();
    Member::all(&decisions).into_iter().map(|member| member.name.into_owned()).collect()
}

#[test]
fn single_quota_has_the_policy_name_and_several_have_their_windows() {
    let second = Quota::per_second(10);
    let hour = Quota::per_hour(1000);
    let short = Quota::new(3, Duration::from_millis(250)).unwrap();
    assert_eq!(names(&[policy("api", &[hour])]), ["api"]);
    assert_eq!(
        names(&[policy("api", &[second, hour, short])]),
        ["api-1s", "api-3600s", "api-250ms"]
    );
}

// A reader could not distinguish two members with the same name.
#[test]
fn names_are_unique() {
    let minute = Quota::per_minute(10);
    let more = Quota::per_minute(20);
    let same = policy("api", &[minute, more]);
    assert_eq!(names(std::slice::from_ref(&same)), ["api-60s", "api-60s-2"]);
    let trap = policy("api-60s-2", &[minute]);
    assert_eq!(names(&[trap, same]), ["api-60s-2", "api-60s", "api-60s-3"]);
    let twin = policy("ip", &[minute]);
    assert_eq!(names(&[twin.clone(), twin.clone(), twin]), ["ip", "ip-2", "ip-3"]);
}

#[test]
fn members_are_bounded() {
    let many = vec![policy("p", &[Quota::per_minute(1)]); MEMBERS_MAX + 9];
    let names = names(&many);
    assert_eq!(names.len(), MEMBERS_MAX);
    let unique: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(unique.len(), MEMBERS_MAX);
}
