//! Shared code of the tests of the Redis store.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod subject;

use std::time::Duration;

use slidegate::{Algorithm, Policy, Quota};
use slidegate_redis::{Redis, RedisBuilder};
use slidegate_testkit::server::RedisServer;

/// Returns a runtime with one thread.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns a builder with long deadlines for busy machines.
pub(crate) fn patient(url: &str) -> RedisBuilder {
    Redis::single(url)
        .unwrap()
        .deadline(Duration::from_secs(10))
        .connect_deadline(Duration::from_secs(10))
}

/// Returns a policy of `limit` units in `window_ms` milliseconds, counted exactly.
pub(crate) fn policy(name: &str, limit: u64, window_ms: u64) -> Policy {
    Policy::builder(name)
        .quota(Quota::new(limit, Duration::from_millis(window_ms)).unwrap())
        .algorithm(Algorithm::Log)
        .build()
        .unwrap()
}

/// Returns every key with its TTL in milliseconds.
pub(crate) fn keys(server: &RedisServer) -> Vec<(String, i64)> {
    let mut connection = server.connection().unwrap();
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    names
        .into_iter()
        .map(|name| {
            let ttl = redis::cmd("PTTL").arg(&name).query(&mut connection).unwrap();
            (String::from_utf8_lossy(&name).into_owned(), ttl)
        })
        .collect()
}

/// Returns a runtime with two threads, for callers that continue while the test waits for a server.
pub(crate) fn crew() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Polls until the condition is true, and returns how long that took.
pub(crate) async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) -> Duration {
    let began = tokio::time::Instant::now();
    while !look().await {
        assert!(
            began.elapsed() < slidegate_testkit::server::PATIENCE,
            "timed out waiting for {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    began.elapsed()
}

/// Returns the same policy with another failure mode.
pub(crate) fn failing(policy: &Policy, mode: slidegate::FailureMode) -> Policy {
    Policy::builder(policy.name())
        .quotas(policy.quotas().to_vec())
        .algorithm(policy.algorithm())
        .failure_mode(mode)
        .build()
        .unwrap()
}
