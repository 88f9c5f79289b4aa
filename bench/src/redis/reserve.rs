//! Reservations of one key that are settled, alongside checks of other keys.

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;

use slidegate::{Policy, Quota};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::RedisServer;
use tokio::task::LocalSet;
use tokio::time::interval;

use crate::Failure;
use crate::random::Random;

/// How many decisions the failure mode made instead of Redis, with the default deadline.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    pub(super) reserves: u64,
    pub(super) degraded: u64,
    /// Checks of other keys.
    pub(super) unrelated: u64,
    pub(super) unrelated_degraded: u64,
}

/// Counters that tasks share.
#[derive(Default)]
struct Counts {
    reserves: Cell<u64>,
    degraded: Cell<u64>,
    unrelated: Cell<u64>,
    unrelated_degraded: Cell<u64>,
}

/// Reserves and settles a thousand times per second, and checks other keys as often.
pub(super) async fn measure(server: &RedisServer, seconds: u64) -> Result<Reserved, Failure> {
    let reserving = Rc::new(limiter(server, "reserve")?);
    let checking = Rc::new(limiter(server, "unrelated")?);
    for limiter in [&reserving, &checking] {
        // Connects, and loads the script.
        while limiter.check("first").await.is_degraded() {}
    }
    let counts = Rc::new(Counts::default());
    let (mut random, mut pace) = (Random::new(9), interval(Duration::from_millis(1)));
    let local = LocalSet::new();
    local
        .run_until(async {
            for _ in 0..seconds * 1000 {
                pace.tick().await;
                let (limiter, shared) = (Rc::clone(&reserving), Rc::clone(&counts));
                tokio::task::spawn_local(async move { reserve(&limiter, &shared).await });
                let (limiter, shared) = (Rc::clone(&checking), Rc::clone(&counts));
                let key = format!("user:{}", random.below(10_000));
                tokio::task::spawn_local(async move {
                    let decision = limiter.check(key).await;
                    add(&shared.unrelated, true);
                    add(&shared.unrelated_degraded, decision.is_degraded());
                });
            }
        })
        .await;
    local.await;
    Ok(Reserved {
        reserves: counts.reserves.get(),
        degraded: counts.degraded.get(),
        unrelated: counts.unrelated.get(),
        unrelated_degraded: counts.unrelated_degraded.get(),
    })
}

async fn reserve(limiter: &RedisLimiter, counts: &Counts) {
    let decision = limiter.reserve("alice", 3).await;
    add(&counts.reserves, true);
    let mut is_degraded = decision.is_degraded();
    if let Some(receipt) = decision.into_receipt() {
        is_degraded |= limiter.settle("alice", receipt, 1).await.is_err();
    }
    add(&counts.degraded, is_degraded);
}

fn add(count: &Cell<u64>, one: bool) {
    count.set(count.get() + u64::from(one));
}

fn limiter(server: &RedisServer, name: &str) -> Result<RedisLimiter, Failure> {
    let policy = Policy::builder(name).quota(Quota::per_minute(1_000_000)).build()?;
    Ok(Redis::single(&server.url())?.build()?.limiter(policy).build()?)
}
