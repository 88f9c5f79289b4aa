//! Limits shared through Redis, for threads outside of a runtime.
//!
//! All blocking limiters of a process share one tokio runtime on a thread of its own, which starts with
//! the first of them. It keeps connections up and sends what is due while no call is in progress.
//!
//! ```no_run
//! use slidegate::{Policy, Quota};
//! use slidegate_redis::Redis;
//!
//! let redis = Redis::single("redis://127.0.0.1:6379")?.build()?;
//! let limiter = redis.limiter(Policy::new("api", Quota::per_minute(100))?).build()?.blocking()?;
//! let decision = limiter.check("alice")?;
//! println!("allowed: {}", decision.is_allowed());
//! # Ok::<(), slidegate::Error>(())
//! ```

use core::time::Duration;
use std::sync::OnceLock;
use std::thread;

use slidegate::{Cost, Decision, Error, ErrorKind, Event, Receipt, Usage};
use tokio::runtime::{Builder, Handle};

use crate::RedisLimiter;

/// A [`RedisLimiter`] whose methods block the calling thread.
///
/// The methods are those of [`RedisLimiter`]. In addition, each returns an error if it is called from
/// within a tokio runtime, whose thread it would block. Use [`run`](Self::run) for tiers:
/// `limiter.run(limiter.get_ref().with(&gold)?.check("bob"))`.
#[derive(Debug)]
pub struct BlockingRedisLimiter {
    limiter: RedisLimiter,
    runtime: Handle,
}

impl RedisLimiter {
    /// Turns the limiter into one for threads outside of a runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread of the runtime cannot be started.
    pub fn blocking(self) -> Result<BlockingRedisLimiter, Error> {
        Ok(BlockingRedisLimiter { limiter: self, runtime: runtime()? })
    }
}

/// Declares blocking methods that return what the method of [`RedisLimiter`] does, or an error.
macro_rules! blocking {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// Returns an error if the asynchronous method does, or if the call is made from within a
            /// runtime.
            pub fn $name(
                &self,
                key: impl AsRef<[u8]>,
                $($argument: $type),*
            ) -> Result<$output, Error> {
                self.run(self.limiter.$name(key, $($argument),*))?.into_result()
            }
        )*
    };
}

impl BlockingRedisLimiter {
    /// Returns the limiter that the calls are made on.
    pub fn get_ref(&self) -> &RedisLimiter {
        &self.limiter
    }

    /// Runs a future of the limiter to its end, and blocks the thread meanwhile.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Unsupported`] if it is called from within a runtime.
    pub fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        if Handle::try_current().is_ok() {
            let message = "a blocking call within a tokio runtime would block its thread: use the \
                           asynchronous RedisLimiter";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(self.runtime.block_on(future))
    }

    blocking! {
        /// Asks for one unit, and takes it if allowed.
        check() -> Decision;
        /// Asks for several units, and takes them all if allowed.
        check_cost(cost: Cost) -> Decision;
        /// Takes as many units as fit, at most `cost`.
        check_at_most(cost: Cost) -> Decision;
        /// Decides as `check` would, without taking anything.
        peek() -> Decision;
        /// Decides as `check_cost` would, without taking anything.
        peek_cost(cost: Cost) -> Decision;
        /// Takes an estimate now, which `settle` corrects.
        reserve(estimate: u64) -> Decision;
        /// Takes units as soon as they are available, within `timeout`.
        wait_timeout(cost: Cost, timeout: Duration) -> Decision;
        /// Returns the exact units of a receipt.
        refund(receipt: Receipt) -> u64;
        /// Corrects a reservation to its actual cost.
        settle(receipt: Receipt, actual: u64) -> u64;
        /// Records units without a check.
        charge(units: u64) -> u64;
        /// Returns up to `units` without a receipt.
        forgive(units: u64) -> u64;
        /// Returns the units that count against each quota now.
        usage() -> Usage;
        /// Returns every request that is still in the longest window, oldest first.
        history() -> Vec<Event>;
        /// Removes a key and ends its block. Returns `true` if it existed.
        reset() -> bool;
        /// Denies every check of a key for a time.
        block(time: Duration) -> ();
        /// Ends the block of a key. Returns `true` if there was one.
        unblock() -> bool;
    }

    /// Checks many keys independently.
    ///
    /// # Errors
    ///
    /// Returns an error if the call is made from within a runtime.
    pub fn check_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        cost: Cost,
        decisions: &mut Vec<Decision>,
    ) -> Result<(), Error> {
        self.run(self.limiter.check_many(keys, cost, decisions))
    }
}

/// A decision, or what may be an error.
trait IntoResult<T> {
    fn into_result(self) -> Result<T, Error>;
}

impl IntoResult<Self> for Decision {
    fn into_result(self) -> Result<Self, Error> {
        Ok(self)
    }
}

impl<T> IntoResult<T> for Result<T, Error> {
    fn into_result(self) -> Self {
        self
    }
}

/// The runtime of all blocking limiters, started once.
fn runtime() -> Result<Handle, Error> {
    static RUNTIME: OnceLock<Result<Handle, Error>> = OnceLock::new();
    RUNTIME.get_or_init(start).clone()
}

fn start() -> Result<Handle, Error> {
    let failed = |error: std::io::Error| {
        let message = format!("the runtime of blocking limiters cannot be started: {error}");
        Error::new(ErrorKind::Store, message)
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(core::future::pending::<()>());
    thread::Builder::new().name("slidegate-redis".to_owned()).spawn(run).map_err(failed)?;
    Ok(handle)
}
