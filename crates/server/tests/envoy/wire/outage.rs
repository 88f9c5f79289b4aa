//! Envoy decides when Redis is gone, unless a failure mode does.

use slidegate_server::domain::Options;
use slidegate_server::spec::{EnvoyFailureMode, RedisPlace, RedisSpec, Spec, StoreSpec, Unit};
use slidegate_testkit::server::{PATIENCE, RedisServer};

use super::proxy::{Caller, envoy};
use super::served::{Served, users};

fn in_redis(server: &RedisServer, failure_mode: EnvoyFailureMode) -> Spec {
    let mut spec = users(2, Unit::Hour);
    let redis = RedisSpec {
        deadline: PATIENCE,
        connect_deadline: PATIENCE,
        place: RedisPlace::Single(server.url()),
        ..RedisSpec::default()
    };
    spec.stores.push(StoreSpec::Redis("shared".to_owned(), Box::new(redis)));
    "shared".clone_into(&mut spec.domains[0].store);
    spec.domains[0].failure_mode = failure_mode;
    spec
}

/// Returns the statuses of three users after Redis was killed. All three have units left.
async fn without_redis(failure_mode: EnvoyFailureMode, failure_mode_deny: bool) -> [u16; 3] {
    let mut server = RedisServer::start().unwrap();
    let served = Served::start(&in_redis(&server, failure_mode), Options::default()).await;
    let envoy = envoy(served.address, failure_mode_deny, &["user"]).await;
    let caller = Caller::new(&envoy);
    for user in ["a", "b", "c"] {
        assert_eq!(caller.status(user).await, 200, "{}", envoy.output());
    }
    server.kill().unwrap();
    let mut statuses = [0; 3];
    for (status, user) in statuses.iter_mut().zip(["a", "b", "c"]) {
        *status = caller.status(user).await;
    }
    let errors = served.engine.plan().domains().statistics().store_error.get();
    assert_eq!(errors, 3, "redis_error");
    statuses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_requests_fail_if_envoy_denies_on_failure() {
    assert_eq!(without_redis(EnvoyFailureMode::Error, true).await, [500; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_requests_pass_if_envoy_allows_on_failure() {
    assert_eq!(without_redis(EnvoyFailureMode::Error, false).await, [200; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_failure_mode_decides_in_place_of_envoy() {
    assert_eq!(without_redis(EnvoyFailureMode::Allow, true).await, [200; 3]);
    assert_eq!(without_redis(EnvoyFailureMode::Deny, false).await, [429; 3]);
}
