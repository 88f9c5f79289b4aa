//! Tests of `local`.

use core::time::Duration;

use super::*;

mod outage;

const KEY: &[u8] = b"k";
const TIERED_KEY: TieredKey = TieredKey { key: 1, tier: 0 };

fn local(limit: u32, nodes: u64) -> LocalFallback {
    let policy = Policy::new("api", Quota::per_minute(limit)).unwrap();
    LocalFallback::new(&policy, policy.quotas(), nodes, 4 << 20).unwrap()
}

fn decide(local: &LocalFallback) -> Decision {
    let policy = local.limiter.policy();
    let minute = Duration::from_secs(60);
    let tick = Duration::from_millis(1);
    let limits = ScriptLimits::new(policy.quotas(), policy.algorithm(), tick, minute).unwrap();
    let key = LocalKey { key: KEY, tiered_key: TIERED_KEY, tier: None, limits: &Arc::new(limits) };
    local.decide(key, || KEY.to_vec(), Cost::ONE, (PriorCall::None, Duration::ZERO), Instant::now())
}

/// Checks until a denial. Returns the number of allowed checks.
fn exhaust(local: &LocalFallback) -> u64 {
    let mut allowed = 0;
    while decide(local).is_allowed() {
        allowed += 1;
    }
    allowed
}

/// Notes a reply with this many units left.
fn reply(local: &LocalFallback, limit: u64, remaining: u64) {
    let quota = QuotaDecision::new(limit, remaining, RetryAfter::Now, Duration::ZERO);
    let now = Instant::now();
    let times =
        ReplyTimes { sent: now, received: now, server: Duration::ZERO, into_tick: Duration::ZERO };
    let decision = Decision::new(Outcome::Deny, &[quota], None);
    local.note_reply(KEY, TIERED_KEY, &decision, times);
}

#[test]
fn has_this_process_share_of_the_limit() {
    for (limit, nodes, share) in [(10, 3, 3), (2, 5, 1), (7, 1, 7), (0, 3, 0)] {
        assert_eq!(exhaust(&local(limit, nodes)), share, "{limit} over {nodes}");
    }
}

#[test]
fn starts_with_units_that_redis_allowed() {
    let local = local(10, 2);
    for _ in 0..4 {
        local.record_taken(KEY, None, Cost::ONE);
    }
    assert_eq!(exhaust(&local), 1);
}

#[test]
fn starts_with_a_share_of_the_remaining_units() {
    for (remaining, share) in [(100, 25), (50, 12), (3, 1), (1, 1), (0, 0)] {
        let local = local(100, 4);
        reply(&local, 100, remaining);
        reply(&local, 100, remaining);
        assert_eq!(exhaust(&local), share, "{remaining} left");
    }
}

#[test]
fn usage_of_other_processes_does_not_count_own_units_twice() {
    let local = local(100, 4);
    for taken in 1..=10 {
        local.record_taken(KEY, None, Cost::ONE);
        reply(&local, 100, 100 - 4 * taken);
    }
    assert_eq!(exhaust(&local), 15);
}

#[test]
fn the_local_limiter_is_exact_whatever_the_policy_is() {
    let policy = Policy::builder("api").quota(Quota::per_minute(8)).algorithm(Algorithm::Fixed);
    let policy = policy.build().unwrap();
    let local = LocalFallback::new(&policy, policy.quotas(), 2, 4 << 20).unwrap();
    assert_eq!(local.limiter.policy().algorithm(), Algorithm::Log);
}

#[test]
fn a_denial_says_when_the_reply_no_longer_counts() {
    let local = local(100, 4);
    reply(&local, 100, 0);
    let decision = decide(&local);
    assert_eq!((decision.remaining(), decision.is_allowed()), (0, false));
    let wait = decision.retry_after().duration().unwrap();
    assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");
    reply(&local, 100, 8);
    let decision = decide(&local);
    assert_eq!((decision.remaining(), decision.is_allowed()), (1, true));
}
