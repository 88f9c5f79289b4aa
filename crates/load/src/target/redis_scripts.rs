//! A Redis server with the scripts of `slidegate-redis`.

use core::time::Duration;

use slidegate::{Error, Policy};
use slidegate_redis::{Redis, RedisLimiter};

use super::{Failure, Verdict};

/// Returns a limiter that calls Redis for every decision: what a cache in this process saves is not measured.
pub(super) fn limiter(
    address: &str,
    policy: Policy,
    deadline: Duration,
) -> Result<RedisLimiter, Error> {
    let redis = Redis::single(address)?.deadline(deadline).connect_deadline(deadline).build()?;
    redis.limiter(policy).deny_cache(0).build()
}

pub(super) async fn check(limiter: &RedisLimiter, key: &str) -> Result<Verdict, Failure> {
    let decision = limiter.check(key).await;
    match decision.degraded_reason() {
        Some(reason) => Err(Failure::new("no reply from Redis", format!("{reason:?}"))),
        None if decision.is_allowed() => Ok(Verdict::Allowed),
        None => Ok(Verdict::Denied),
    }
}
