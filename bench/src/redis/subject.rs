//! What is measured.

use core::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use slidegate::{Policy, Quota};
use slidegate_redis::{Redis, RedisLimiter};

use crate::Failure;

/// Ways to limit through Redis, and two that do not limit, to compare with.
pub(super) enum Subject {
    /// Ours.
    Slidegate(Box<RedisLimiter>),
    /// A set of members sorted by time, cleaned, counted and added to in a script.
    SortedSet { connection: MultiplexedConnection, script: Script, quota: Quota },
    /// A counter that is incremented without a limit.
    Increment(MultiplexedConnection),
    /// A script that does nothing: what asking costs.
    Empty(MultiplexedConnection, Script),
}

/// Which one, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectKind {
    /// The exact log without deny cache or leases: every decision is the server's.
    Log,
    /// With the deny cache as it is by default.
    LogDenyCache,
    /// With leases of five milliseconds.
    LogLeases,
    Counter,
    SortedSet,
    Increment,
    Empty,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The usual script, as limiters in many languages have it.
const SORTED_SET: &str = "\
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

impl SubjectKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Log => "slidegate-log",
            Self::LogDenyCache => "slidegate-log-deny-cache",
            Self::LogLeases => "slidegate-log-leases",
            Self::Counter => "slidegate-counter",
            Self::SortedSet => "sorted-set",
            Self::Increment => "incr",
            Self::Empty => "empty-script",
        }
    }

    /// The name of its policy, which is a part of every key. That of the log is as short as names
    /// usually are, because the bytes of a key depend on it.
    pub(super) fn policy(self) -> &'static str {
        match self {
            Self::Log => "api",
            other => other.name(),
        }
    }
}

impl Subject {
    /// Under a name of its own, so that subjects do not see each other's keys.
    pub(super) async fn new(which: SubjectKind, url: &str, quota: Quota) -> Result<Self, Failure> {
        // On a busy machine a slow answer is to be measured, not given up.
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let connection =
            Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?;
        Ok(match which {
            SubjectKind::SortedSet => {
                Self::SortedSet { connection, script: Script::new(SORTED_SET), quota }
            }
            SubjectKind::Increment => Self::Increment(connection),
            SubjectKind::Empty => Self::Empty(connection, Script::new("return 1")),
            ours => Self::Slidegate(Box::new(limiter(ours, url, quota)?)),
        })
    }

    /// Asks for one unit; whether it was admitted. `number` has not been used before.
    pub(super) async fn check(&self, key: &str, number: u64) -> Result<bool, Failure> {
        match self {
            Self::Slidegate(limiter) => {
                let decision = limiter.check(key).await;
                if decision.is_degraded() {
                    return Err("a decision was degraded: the server is too slow".into());
                }
                Ok(decision.is_allowed())
            }
            Self::SortedSet { connection, script, quota } => {
                let now = epoch_millis();
                let mut call = script.key(format!("zset:{key}"));
                call.arg(now).arg(millis(quota.window())).arg(quota.limit());
                // Unique, as two requests may come in one millisecond.
                call.arg(format!("{now}-{number}"));
                let admitted: u64 = call.invoke_async(&mut connection.clone()).await?;
                Ok(admitted == 1)
            }
            Self::Increment(connection) => {
                let mut command = redis::cmd("INCR");
                command.arg(format!("incr:{key}"));
                let _: u64 = command.query_async(&mut connection.clone()).await?;
                Ok(true)
            }
            Self::Empty(connection, script) => {
                let call = script.key(format!("empty:{key}"));
                let _: u64 = call.invoke_async(&mut connection.clone()).await?;
                Ok(true)
            }
        }
    }

    /// Commands sent to the server so far, if the subject counts them.
    pub(super) fn calls(&self) -> Option<u64> {
        match self {
            Self::Slidegate(limiter) => Some(limiter.stats().calls),
            _ => None,
        }
    }
}

fn limiter(which: SubjectKind, url: &str, quota: Quota) -> Result<RedisLimiter, Failure> {
    let algorithm = match which {
        SubjectKind::Counter => slidegate::Algorithm::Counter,
        _ => slidegate::Algorithm::Log,
    };
    let policy = Policy::builder(which.policy()).quota(quota).algorithm(algorithm).build()?;
    let redis = Redis::single(url)?.deadline(PATIENCE).build()?;
    let builder = redis.limiter(policy);
    Ok(match which {
        SubjectKind::LogDenyCache => builder.build()?,
        SubjectKind::LogLeases => builder.leases(Duration::from_millis(5)).build()?,
        _ => builder.deny_cache(0).build()?,
    })
}

/// The usual script takes the client's clock.
fn epoch_millis() -> u64 {
    let now = crate::clock::wall().duration_since(std::time::UNIX_EPOCH);
    millis(now.unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
