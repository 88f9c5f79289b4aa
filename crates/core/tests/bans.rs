//! A limit of zero bans: every request is denied forever, and nothing is stored.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use slidegate::{
    Algorithm, Ask, Cost, Decision, Limiter, ManualClock, Mode, OnFull, Policy, Quota, RetryAfter,
    check_all,
};

const START: Duration = Duration::from_millis(1_700_000_000_123);
const BAN: Quota = Quota::per_minute(0);

fn build(quotas: &[Quota], algorithm: Algorithm, mode: Mode) -> (Limiter, ManualClock) {
    let policy = Policy::builder("ban").quotas(quotas.iter().copied());
    let policy = policy.algorithm(algorithm).mode(mode).build().unwrap();
    let clock = ManualClock::new(START);
    (Limiter::builder(policy).clock(clock.clone()).build().unwrap(), clock)
}

#[track_caller]
fn assert_banned(decision: &Decision, what: &str) {
    assert!(!decision.is_allowed(), "{what}");
    assert_eq!(decision.retry_after(), RetryAfter::Never, "{what}");
    assert_eq!(decision.remaining(), 0, "{what}");
    assert_eq!(decision.receipt(), None, "{what}");
    assert!(decision.quotas().iter().any(|quota| quota.limit() == 0), "{what}");
}

#[test]
fn every_operation_is_denied_and_stores_nothing() {
    let three = Cost::new(3).unwrap();
    for algorithm in Algorithm::ALL {
        for quotas in [&[BAN][..], &[BAN, Quota::per_hour(9)], &[Quota::per_hour(9), BAN]] {
            let what = format!("{algorithm:?}, {quotas:?}");
            let (limiter, clock) = build(quotas, algorithm, Mode::Enforce);
            let bytes = limiter.stats().bytes;
            for _ in 0..3 {
                let mut decisions = vec![
                    limiter.check("alice"),
                    limiter.check_cost("alice", three),
                    limiter.peek("alice"),
                    limiter.peek_cost("alice", three),
                    limiter.reserve("alice", 0),
                ];
                let mut many = Vec::new();
                limiter.check_many(&["alice", "bob"], Cost::ONE, &mut many);
                decisions.append(&mut many);
                let asks = [Ask::new(&limiter, "alice", Cost::ONE)];
                decisions.append(&mut check_all(&asks).unwrap());
                if algorithm.supports_future_entries() {
                    let timeout = Duration::from_secs(3600);
                    let waited = limiter.wait_timeout_blocking("alice", Cost::ONE, timeout);
                    decisions.push(waited.unwrap());
                }
                for decision in &decisions {
                    assert_banned(decision, &what);
                }
                assert_eq!(limiter.usage("alice").units(0), 0, "{what}");
                assert_eq!(limiter.forgive("alice", 5), 0, "{what}");
                assert_eq!((limiter.stats().keys, limiter.stats().bytes), (0, bytes), "{what}");
                clock.advance(Duration::from_secs(61));
            }
        }
    }
}

#[test]
fn shadow_mode_reports_the_ban() {
    for algorithm in Algorithm::ALL {
        let (limiter, _) = build(&[BAN], algorithm, Mode::Shadow);
        let decision = limiter.check("alice");
        assert!(decision.is_allowed() && decision.is_shadow_denied(), "{algorithm:?}");
        assert_eq!(limiter.stats().keys, 0, "{algorithm:?}");
    }
}

// The ban does not affect units that the key took before: they count again when it is lifted.
#[test]
fn a_banned_tier_keeps_the_units_of_a_key() {
    for algorithm in Algorithm::ALL {
        let (limiter, clock) = build(&[Quota::per_minute(7)], algorithm, Mode::Enforce);
        let banned = limiter.tier(&[BAN]).unwrap();
        let receipt = limiter.reserve("alice", 3).into_receipt().unwrap();
        for _ in 0..20 {
            assert_banned(
                &limiter.with(&banned).unwrap().check("alice"),
                &format!("{algorithm:?}"),
            );
            assert_banned(&limiter.with(&banned).unwrap().peek("alice"), &format!("{algorithm:?}"));
        }
        assert_eq!(limiter.peek("alice").remaining(), 4, "{algorithm:?}");
        // Debt that is settled during the ban counts too, without a division by the limit.
        assert_eq!(limiter.with(&banned).unwrap().settle(receipt, 5), 5, "{algorithm:?}");
        assert_banned(&limiter.with(&banned).unwrap().check("alice"), &format!("{algorithm:?}"));
        assert!(limiter.peek("alice").remaining() <= 2, "{algorithm:?}");
        assert!(limiter.with(&banned).unwrap().forgive("alice", 1) <= 1, "{algorithm:?}");
        clock.advance(Duration::from_secs(24 * 3600));
        assert_eq!(limiter.check("alice").remaining(), 6, "{algorithm:?}");
    }
}

#[test]
fn a_tier_lifts_the_ban_of_its_policy() {
    for algorithm in Algorithm::ALL {
        for on_full in [OnFull::Overflow, OnFull::Lru, OnFull::Deny] {
            let policy = Policy::builder("ban").quota(BAN).algorithm(algorithm).build().unwrap();
            let builder = Limiter::builder(policy).clock(ManualClock::new(START));
            let limiter = builder.memory_limit(1 << 16).on_full(on_full).build().unwrap();
            let allowed = limiter.tier(&[Quota::per_minute(2)]).unwrap();
            // More keys than fit, so that the sketches of a policy without a limit are used.
            let taken = (0..5000_u64).filter(|key| {
                let decision = limiter.with(&allowed).unwrap().check(key);
                assert_banned(&limiter.check(key), &format!("{algorithm:?}, {on_full:?}"));
                decision.is_allowed()
            });
            assert!(taken.count() >= 16, "{algorithm:?}, {on_full:?}");
        }
    }
}
