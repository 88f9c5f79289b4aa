//! Rate limits shared through Redis, Valkey, Sentinel and Cluster.
//!
//! The decisions are those of the crate `slidegate`, made by scripts on the server with the server's
//! clock. The clocks of clients are never trusted.
//!
//! ```no_run
//! use slidegate::{FailureMode, Policy, Quota, RetryAfter};
//! use slidegate_redis::Redis;
//!
//! # async fn run() -> Result<(), slidegate::Error> {
//! // One `Redis` per process: it holds the connections and the circuit breaker.
//! let redis = Redis::single("redis://127.0.0.1:6379")?.build()?;
//! let policy = Policy::builder("api")
//!     .quota(Quota::per_minute(100))
//!     .failure_mode(FailureMode::Local)
//!     .build()?;
//! // While Redis is unavailable, this process admits a quarter of the limit.
//! let limiter = redis.limiter(policy).nodes(4).build()?;
//!
//! let decision = limiter.check("alice").await;
//! if let RetryAfter::After(time) = decision.retry_after() {
//!     println!("denied, retry in {time:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Where to start
//!
//! [`Redis`] connects to one server, to Sentinel or to a cluster. [`Redis::limiter`] makes a
//! [`RedisLimiter`] for a policy. [`check_all`] takes units from several limiters, or from none.
//!
//! `check` returns a decision at the latest after its deadline, 20 ms by default, and the delays of a
//! busy process: a check above [`RedisBuilder::in_flight_max`] waits for its turn first. Without a reply by then, the failure mode of the policy decides: allow,
//! deny, or enforce a share of the limit in this process. Such a decision is marked as degraded.
//! [`RedisStats`] counts what happened.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tls` (default) | TLS with rustls |
//! | `blocking` | `RedisLimiter::blocking`, for threads outside of a runtime |
//! | `tracing` (default) | the start and the end of degraded decisions as warnings; failovers, connections and breakers as events |

#![forbid(unsafe_code)]

mod batcher;
#[cfg(feature = "blocking")]
pub mod blocking;
mod connect;
mod deny;
mod inspect;
mod key;
mod late;
mod lease;
mod limiter;
mod local;
mod outage;
mod redis;
mod replies;
mod report;
mod sample;
mod script;
mod servers;
mod sweep;
mod tls;
mod wait_queue;

pub use inspect::{StoreUsage, Warning};
pub use key::join;
pub use limiter::{
    RedisAsk, RedisLimiter, RedisLimiterBuilder, RedisStats, RedisWithQuotas, check_all,
};
pub use outage::StateChange;
pub use redis::{Redis, RedisBuilder};
pub use sample::KeySample;
pub use servers::BreakerState;
pub use sweep::SweepReport;

/// Compiles the code of the crate's pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/redis.md")]
    struct Redis;
}
