//! What the tests of the Redis store share.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod subject;

use std::time::Duration;

use slidegate::{Algorithm, Policy, Quota};
use slidegate_redis::{Redis, RedisBuilder};
use slidegate_testkit::server::RedisServer;

/// A runtime of one thread, as a test wants it.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server, patiently: what is slow on a busy machine is not what a test is about.
pub(crate) fn patient(url: &str) -> RedisBuilder {
    Redis::single(url)
        .unwrap()
        .deadline(Duration::from_secs(10))
        .connect_deadline(Duration::from_secs(10))
}

/// So many units in so many milliseconds, counted exactly.
pub(crate) fn policy(name: &str, limit: u64, window_ms: u64) -> Policy {
    Policy::builder(name)
        .quota(Quota::new(limit, Duration::from_millis(window_ms)).unwrap())
        .algorithm(Algorithm::Log)
        .build()
        .unwrap()
}

/// Every key there is, with its TTL in milliseconds.
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
