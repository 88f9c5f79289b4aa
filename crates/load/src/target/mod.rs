//! Where requests are sent.

mod grpc;
mod http;
mod redis_scripts;
mod resp;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use slidegate_redis::RedisLimiter;

use self::grpc::GrpcConnection;
use self::http::HttpConnection;
pub use self::http::HttpRequest;
use self::resp::RespConnection;

/// A rate limiter, or something behind one.
#[derive(Debug, Clone)]
pub enum Target {
    /// Envoy's rate limit service. The key is the value of one descriptor entry.
    Grpc {
        /// Host and port.
        address: String,
        /// The domain.
        domain: String,
        /// The name of the descriptor entry.
        entry: String,
    },
    /// The HTTP API of slidegate, or any URL, where status 429 is a denial.
    Http(HttpRequest),
    /// The Redis protocol of slidegate.
    Resp {
        /// Host and port.
        address: String,
        /// The policy.
        policy: String,
    },
    /// A Redis server with the scripts of `slidegate-redis`.
    Redis {
        /// The address, for reports.
        address: String,
        /// The limiter.
        limiter: Arc<RedisLimiter>,
    },
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The request is allowed.
    Allowed,
    /// The request is denied.
    Denied,
}

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A short name, which failures are counted by: `deadline`, `connect`, `status 503`.
    pub kind: String,
    /// What happened.
    pub detail: String,
}

/// The error of a target that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetError {
    /// What is wrong.
    pub message: String,
    /// Whether the target could not be reached, rather than refused the request.
    pub is_unreachable: bool,
}

/// A connection with one request in flight.
#[derive(Debug)]
pub(crate) enum Connection {
    Grpc(GrpcConnection),
    Http(HttpConnection),
    Resp(RespConnection),
    Redis(Arc<RedisLimiter>),
}

impl Target {
    /// A Redis server with the scripts of `slidegate-redis`, under a policy. The URL is as for
    /// [`slidegate_redis::Redis::single`].
    ///
    /// # Errors
    ///
    /// Returns an error if the address or the policy is wrong.
    pub fn redis(
        url: &str,
        policy: slidegate::Policy,
        deadline: Duration,
    ) -> Result<Self, slidegate::Error> {
        let limiter = Arc::new(redis_scripts::limiter(url, policy, deadline)?);
        // Reports must not contain the password, which can also be an option after `?`.
        let address = url.split_once("://").map_or(url, |(_, rest)| rest);
        let address = address.rsplit_once('@').map_or(address, |(_, rest)| rest);
        let address = address.split('?').next().unwrap_or(address);
        Ok(Self::Redis { address: address.to_owned(), limiter })
    }

    /// Returns `true` if every key has separate units. Otherwise, all requests share those of one key.
    pub fn has_keys(&self) -> bool {
        match self {
            Self::Http(request) => request.has_key(),
            Self::Grpc { .. } | Self::Resp { .. } | Self::Redis { .. } => true,
        }
    }

    /// Prepares a connection. It is made with the first request, and again after a failure.
    pub(crate) fn connection(&self) -> Connection {
        match self {
            Self::Grpc { address, domain, entry } => {
                Connection::Grpc(GrpcConnection::new(address, domain, entry))
            }
            Self::Http(request) => Connection::Http(HttpConnection::new(request.clone())),
            Self::Resp { address, policy } => {
                Connection::Resp(RespConnection::new(address, policy))
            }
            Self::Redis { limiter, .. } => Connection::Redis(Arc::clone(limiter)),
        }
    }
}

impl Connection {
    /// Connects, if the connection is not there.
    pub(crate) async fn connect(&mut self, deadline: Duration) -> Result<(), Failure> {
        let connected = async {
            match self {
                Self::Grpc(connection) => connection.connect().await,
                Self::Http(connection) => connection.connect().await,
                Self::Resp(connection) => connection.connect(deadline).await,
                Self::Redis(_) => Ok(()),
            }
        };
        match tokio::time::timeout(deadline, connected).await {
            Ok(connected) => connected,
            Err(_) => Err(Failure::new("connect", format!("no connection within {deadline:?}"))),
        }
    }

    /// Sends a check and waits for the decision.
    pub(crate) async fn check(
        &mut self,
        key: &str,
        deadline: Duration,
    ) -> Result<Verdict, Failure> {
        let checked = async {
            match self {
                Self::Grpc(connection) => connection.check(key).await,
                Self::Http(connection) => connection.check(key).await,
                Self::Resp(connection) => connection.check(key, deadline).await,
                Self::Redis(limiter) => redis_scripts::check(limiter, key).await,
            }
        };
        let checked = match tokio::time::timeout(deadline, checked).await {
            Ok(checked) => checked,
            Err(_) => Err(Failure::new("deadline", format!("no answer within {deadline:?}"))),
        };
        if checked.is_err() {
            // An answer may still come, which must not be taken for that of the next request.
            self.disconnect();
        }
        checked
    }

    fn disconnect(&mut self) {
        match self {
            // HTTP/2 and the store keep answers and requests together.
            Self::Grpc(_) | Self::Redis(_) => {}
            Self::Http(connection) => connection.disconnect(),
            Self::Resp(connection) => connection.disconnect(),
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: kind.into(), detail: detail.into() }
    }

    pub(crate) fn connect(error: &dyn core::error::Error) -> Self {
        Self::new("connect", chain(error))
    }
}

/// An error with its causes: that of a connection often has no more than "transport error" itself.
fn chain(error: &dyn core::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grpc { address, domain, entry } => {
                write!(f, "grpc://{address}, domain {domain}, entry {entry}")
            }
            Self::Http(request) => request.fmt(f),
            Self::Resp { address, policy } => write!(f, "resp://{address}, policy {policy}"),
            Self::Redis { address, limiter } => {
                write!(f, "redis://{address}, algorithm {}", limiter.policy().algorithm())
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for TargetError {}
