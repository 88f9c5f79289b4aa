//! Tests of `builder`.

use slidegate::ErrorKind;

use super::*;

#[test]
fn tick_and_algorithm_are_part_of_the_name() {
    let [usual, coarse] = [1, 10].map(Duration::from_millis);
    let name = |tick, algorithm| stored_as("api", tick, algorithm);
    assert_eq!(&*name(usual, Algorithm::Log), "api");
    assert_eq!(&*name(usual, Algorithm::LogCapped { bytes_max: 4096 }), "api");
    assert_eq!(&*name(coarse, Algorithm::Log), "api@10000us");
    assert_eq!(&*name(usual, Algorithm::Counter), "api@counter");
    assert_eq!(&*name(coarse, Algorithm::Gcra), "api@gcra-10000us");
}

#[test]
fn every_algorithm_has_a_script_and_a_separate_name() {
    let tick = Duration::from_millis(1);
    let quotas = [Quota::per_minute(1)];
    let mut names = std::collections::HashSet::new();
    for algorithm in Algorithm::ALL {
        assert!(ScriptLimits::new(&quotas, algorithm, tick, tick).is_ok(), "{algorithm}");
        names.insert(stored_as("api", tick, algorithm));
    }
    // Only the log and the capped log share their name.
    assert_eq!(names.len(), Algorithm::ALL.len() - 1);
}

#[tokio::test]
async fn unsupported_operations_return_a_typed_error() {
    let redis = Redis::single("redis://127.0.0.1:1").unwrap().build().unwrap();
    for (name, has_leases, has_history) in [
        ("log", true, true),
        ("log_capped: 4096", true, true),
        ("counter", false, false),
        ("segments: 60", false, false),
        ("gcra", true, false),
        ("fixed", false, false),
    ] {
        let policy = Policy::builder("api").quota(Quota::per_minute(10));
        let policy = policy.algorithm(name.parse().unwrap()).build().unwrap();
        let leased = redis.limiter(policy.clone()).leases(Duration::from_millis(5)).build();
        assert_eq!(leased.is_ok(), has_leases, "{name}");
        // There is no server, so supported operations fail in another way.
        let history = redis.limiter(policy).build().unwrap().history("key").await;
        let is_supported = history.unwrap_err().kind() != ErrorKind::Unsupported;
        assert_eq!(is_supported, has_history, "{name}");
    }
}
