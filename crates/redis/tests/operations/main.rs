//! Operations beyond a single check, in Redis as in memory.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

#[path = "../common/mod.rs"]
mod common;

mod block;
mod many;
mod outage;
mod outside;
mod quotas;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use slidegate::{Algorithm, Limiter, ManualClock, Policy, Quota, Store};
use slidegate_testkit::server::RedisServer;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

/// What the clock of [`Stores`] shows at first.
const START: Duration = Duration::from_secs(1_700_000_000);

/// The same policy in memory and in Redis, on one clock.
struct Stores {
    stores: [Arc<dyn Store>; 2],
    clock: ManualClock,
}

impl Stores {
    fn new(server: &RedisServer, policy: &Policy) -> Self {
        let clock = ManualClock::new(START);
        let memory = Limiter::builder(policy.clone()).clock(clock.clone()).build().unwrap();
        let redis = common::patient(&server.url()).test_clock(clock.clone()).build().unwrap();
        // The deny cache has a clock of its own.
        let shared = redis.limiter(policy.clone()).deny_cache(0).build().unwrap();
        Self { stores: [Arc::new(memory), Arc::new(shared)], clock }
    }
}

fn policy(name: &str, quota: Quota, algorithm: Algorithm) -> Policy {
    Policy::builder(name).quota(quota).algorithm(algorithm).build().unwrap()
}
