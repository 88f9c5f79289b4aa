//! Tests of `local`.

use core::time::Duration;

use super::*;

fn local(limit: u32, nodes: u64) -> LocalFallback {
    let policy = Policy::new("api", Quota::per_minute(limit)).unwrap();
    LocalFallback::new(&policy, policy.quotas(), nodes, 4 << 20).unwrap()
}

#[test]
fn has_this_process_share_of_the_limit() {
    for (limit, nodes, share) in [(10, 3, 3), (2, 5, 1), (7, 1, 7), (0, 3, 0)] {
        let local = local(limit, nodes);
        let allowed = |_: &u64| local.decide(b"k", None, Cost::ONE, Instant::now()).is_allowed();
        assert_eq!((0..20).filter(allowed).count(), share, "{limit} over {nodes}");
    }
}

#[test]
fn begins_with_what_was_allowed_before() {
    let local = local(10, 2);
    for _ in 0..4 {
        local.keep_warm(b"k", None, Cost::ONE);
    }
    assert!(local.decide(b"k", None, Cost::ONE, Instant::now()).is_allowed());
    assert!(!local.decide(b"k", None, Cost::ONE, Instant::now()).is_allowed());
}

#[test]
fn decides_along_with_redis_for_one_window_afterwards() {
    let (local, now) = (local(2, 2), Instant::now());
    local.keep_warm(b"k", None, Cost::ONE);
    assert!(local.denial(b"k", None, Cost::ONE, now).is_none(), "Redis was never unavailable");
    assert!(!local.decide(b"k", None, Cost::ONE, now).is_allowed());
    let minute = Duration::from_secs(60);
    assert!(local.denial(b"k", None, Cost::ONE, now + minute).is_some());
    assert!(local.denial(b"k", None, Cost::ONE, now + minute + Duration::from_millis(2)).is_none());
    assert!(local.denial(b"other", None, Cost::ONE, now).is_none());
}

#[test]
fn keys_that_redis_decided_throughout_have_the_whole_limit() {
    let (local, now) = (local(4, 4), Instant::now());
    local.keep_warm(b"calm", None, Cost::ONE);
    assert!(local.decide(b"k", None, Cost::ONE, now).is_allowed());
    assert!(local.denial(b"k", None, Cost::ONE, now).is_some());
    assert!(local.denial(b"calm", None, Cost::ONE, now).is_none());
}
