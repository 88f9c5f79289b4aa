//! Keys that are denied for a time.

use core::time::Duration;

use slidegate::{Error, Quota};

use super::RedisLimiter;
use crate::script::{KeyReply, Op};

impl RedisLimiter {
    /// Denies every check and wait of a key for `time`, in all processes and whatever its quotas say. It
    /// replaces an earlier block, also by a shorter one. At most ten years, rounded up to a tick.
    ///
    /// `retry_after` is the time until the block ends, or the window's if that is longer, and nothing
    /// remains. Usage, refunds and charges of the key work as before. [`reset`](RedisLimiter::reset)
    /// ends a block.
    ///
    /// This limiter's leases of the key end; unused units are returned. Leases of other processes last to
    /// their end, and until then each of them may allow what it has left. While Redis is
    /// unavailable, the local limiter of [`FailureMode::Local`](slidegate::FailureMode::Local) denies the
    /// key in this process, and in those that have seen the block since.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the key may be blocked.
    pub async fn block(&self, key: impl AsRef<[u8]>, time: Duration) -> Result<(), Error> {
        let (key, inner) = (key.as_ref(), &self.inner);
        let time = time.min(Quota::WINDOW_MAX);
        let reply = inner.run_op(key, &inner.limits(None), Op::Block { time }).await;
        for unused in inner.reset_leases(key) {
            inner.return_soon(key, unused);
        }
        inner.forget_denial(key);
        match reply?.reply {
            KeyReply::Found(_) => match &inner.local {
                Some(local) => local.block(key, time),
                None => Ok(()),
            },
            other => Err(other.unexpected().into()),
        }
    }

    /// Ends the block of a key. Returns `true` if there was one. What the key took before and during the
    /// block still counts. The deny cache of another process may repeat the denial for as long as
    /// [`deny_cache_cap`](crate::RedisLimiterBuilder::deny_cache_cap) says.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the block may have ended.
    pub async fn unblock(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let (key, inner) = (key.as_ref(), &self.inner);
        let reply = inner.run_op(key, &inner.limits(None), Op::Unblock).await;
        inner.forget_denial(key);
        match reply?.reply {
            KeyReply::Found(found) => {
                let here = inner.local.as_ref().is_some_and(|local| local.unblock(key));
                Ok(found || here)
            }
            other => Err(other.unexpected().into()),
        }
    }
}
