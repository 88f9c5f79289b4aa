//! Calls from outside of a runtime, and from threads that may block.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slidegate::{Algorithm, Cost, Decision, DegradedReason, ErrorKind, FailureMode, Quota, Store};
use slidegate_redis::{Redis, RedisAsk, check_all};
use slidegate_testkit::server::RedisServer;

use super::common::{failing, patient, runtime};
use super::policy;

/// Polls a future without a runtime. It must not have to wait.
#[track_caller]
fn now<T>(future: impl Future<Output = T>) -> T {
    let poll = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    let output = if let Poll::Ready(output) = poll { Some(output) } else { None };
    output.unwrap()
}

#[test]
fn every_call_outside_of_a_runtime_returns_and_says_why() {
    for mode in [FailureMode::Allow, FailureMode::Deny, FailureMode::Local] {
        for has_leases in [false, true] {
            let policy = policy("outside", Quota::per_hour(10), Algorithm::Log);
            let redis = Redis::single("redis://127.0.0.1:1").unwrap().build().unwrap();
            let mut builder = redis.limiter(failing(&policy, mode));
            if has_leases {
                builder = builder.leases(Duration::from_millis(50));
            }
            let limiter = builder.build().unwrap();
            let mut many = Vec::new();
            let wait = Duration::from_secs(1);
            let asks = [RedisAsk::new(&limiter, "k", Cost::ONE)];
            let mut decisions = vec![
                now(limiter.check("k")),
                now(limiter.check_at_most("k", Cost::ONE)),
                now(limiter.with_quotas(&[Quota::per_hour(3)]).unwrap().check("k")),
                now(limiter.wait_timeout("k", Cost::ONE, wait)).unwrap(),
            ];
            now(limiter.check_many(&["a", "b"], Cost::ONE, &mut many));
            decisions.append(&mut many);
            decisions.append(&mut now(check_all(&asks)).unwrap());
            for decision in &decisions {
                let reason = Some(DegradedReason::NoRuntime);
                assert_eq!(decision.degraded_reason(), reason, "{mode:?}: {decision:?}");
                assert_eq!(decision.is_allowed(), mode != FailureMode::Deny, "{mode:?}");
            }
            let receipt = || Store::receipt(&limiter, b"k", 1, 1, 1);
            let errors = [
                now(limiter.peek("k")).err(),
                now(limiter.refund("k", receipt())).err(),
                now(limiter.settle("k", receipt(), 5)).err(),
                now(limiter.charge("k", 1)).err(),
                now(limiter.forgive("k", 1)).err(),
                now(limiter.usage("k")).err(),
                now(limiter.history("k")).err(),
                now(limiter.reset("k")).err(),
                now(limiter.block("k", wait)).err(),
                now(limiter.unblock("k")).err(),
                now(redis.connect(wait)).err(),
                now(redis.usage()).err(),
                now(redis.warnings()).err(),
                now(redis.sweep(&["outside"], 1, |_| {})).err(),
            ];
            for (place, error) in errors.into_iter().enumerate() {
                let error = error.unwrap_or_else(|| panic!("call {place} succeeded"));
                assert!(error.to_string().contains("runtime"), "call {place}: {error}");
            }
        }
    }
}

#[test]
fn blocking_calls_decide_like_asynchronous_ones() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let policy = policy("blocking", Quota::per_hour(20), Algorithm::Log);
    let limiter = redis.limiter(policy).deny_cache(0).build().unwrap().blocking().unwrap();
    let threads = 4;
    let allowed: usize = std::thread::scope(|scope| {
        let check = || (0..10).filter(|_| limiter.check("k").unwrap().is_allowed()).count();
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(check)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(allowed, 20);
    assert_eq!(limiter.usage("k").unwrap().units(0), 20);
    assert!(limiter.reset("k").unwrap());
    let decision = limiter.reserve("k", 5).unwrap();
    assert!(!decision.is_degraded());
    assert_eq!(limiter.settle("k", decision.into_receipt().unwrap(), 3).unwrap(), 3);
    assert_eq!(limiter.charge("k", 2).unwrap(), 2);
    assert_eq!(limiter.forgive("k", 1).unwrap(), 1);
    assert_eq!(limiter.peek("k").unwrap().remaining(), 16);
    assert!(!limiter.history("k").unwrap().is_empty());
    let mut decisions = Vec::new();
    limiter.check_many(&["a", "b", "a"], Cost::ONE, &mut decisions).unwrap();
    let remaining: Vec<u64> = decisions.iter().map(Decision::remaining).collect();
    assert_eq!(remaining, [19, 19, 18]);
    let wait = limiter.wait_timeout("c", Cost::ONE, Duration::from_secs(1)).unwrap();
    assert!(wait.is_allowed());
    limiter.block("k", Duration::from_secs(60)).unwrap();
    assert!(limiter.check("k").unwrap().is_blocked());
    assert!(limiter.unblock("k").unwrap());
    let gold = limiter.get_ref().tier(&[Quota::per_hour(100)]).unwrap();
    let by_tier = limiter.run(limiter.get_ref().with(&gold).unwrap().check("bob")).unwrap();
    assert_eq!(by_tier.remaining(), 99);
}

#[test]
fn a_blocking_call_within_a_runtime_is_an_error() {
    let redis = Redis::single("redis://127.0.0.1:1").unwrap().build().unwrap();
    let policy = policy("within", Quota::per_hour(1), Algorithm::Log);
    let limiter = redis.limiter(policy).build().unwrap().blocking().unwrap();
    runtime().block_on(async {
        let error = limiter.check("k").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(limiter.check_many(&["k"], Cost::ONE, &mut Vec::new()).is_err());
    });
    // Without a server, the failure mode decides as usual.
    assert!(limiter.check("k").unwrap().is_degraded());
}
