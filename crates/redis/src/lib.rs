//! Rate limits shared through Redis, Valkey, Sentinel and Cluster.

#![forbid(unsafe_code)]

mod batcher;
#[cfg(feature = "blocking")]
pub mod blocking;
mod connect;
mod deny;
mod inspect;
mod key;
mod lease;
mod limiter;
mod local;
mod redis;
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
pub use redis::{Redis, RedisBuilder};
pub use sample::KeySample;
pub use servers::BreakerState;
pub use sweep::{SweepOptions, SweepReport};
