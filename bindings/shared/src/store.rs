//! Options of a store in Redis.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use serde::Deserialize;
use slidegate::{Error, ErrorKind};
use slidegate_redis::Redis;

use crate::quota::Time;

/// Receives warnings for the log of the program, on a thread of the runtime that must not be blocked.
pub type Warn = Arc<dyn Fn(String) + Send + Sync>;

/// Redis as a store, as under `stores` in a file of the daemon.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreOptions {
    /// One server: `redis://127.0.0.1:6379`.
    pub redis: Option<String>,
    /// The primary that Sentinels report.
    pub sentinel: Option<SentinelOptions>,
    /// Some nodes of a cluster.
    pub cluster: Option<Vec<String>>,
    /// The user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// A file with the password.
    #[serde(alias = "passwordFile")]
    pub password_file: Option<String>,
    /// The number of the database.
    pub database: Option<i64>,
    /// The prefix of all keys.
    pub prefix: Option<String>,
    /// The secret with which secret keys are hashed.
    #[serde(alias = "keySecret")]
    pub key_secret: Option<String>,
    /// A file with that secret.
    #[serde(alias = "keySecretFile")]
    pub key_secret_file: Option<String>,
    deadline: Option<Time>,
    #[serde(alias = "connectDeadline")]
    connect_deadline: Option<Time>,
    /// The maximum number of checks in flight.
    #[serde(alias = "inFlightMax")]
    pub in_flight_max: Option<usize>,
    /// The maximum number of concurrent checks that are sent in one call.
    #[serde(alias = "checksPerCallMax")]
    pub checks_per_call_max: Option<usize>,
    /// A file with authorities as PEM.
    #[serde(alias = "tlsAuthority")]
    pub tls_authority: Option<String>,
    /// Read for files of the daemon, which removes keys of other policies at this interval.
    #[serde(alias = "sweepInterval")]
    pub sweep_interval: Option<String>,
}

/// The Sentinels of a primary.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentinelOptions {
    /// Their addresses.
    pub addresses: Vec<String>,
    /// The name of the service.
    pub service: String,
}

/// Omits everything that may contain a password.
impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl StoreOptions {
    /// Reads options as JSON: a map, or an address alone.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is unknown or a value is invalid.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        if let Ok(address) = serde_json::from_str::<String>(json) {
            return Ok(Self { redis: Some(address), ..Self::default() });
        }
        serde_json::from_str(json).map_err(|error| {
            Error::new(ErrorKind::Setting, format!("invalid options of a store: {error}"))
        })
    }

    /// Prepares the connections. They are opened by the first call.
    ///
    /// `warn` receives a text when failure modes start to decide, and another one when Redis decides
    /// again.
    ///
    /// # Errors
    ///
    /// Returns an error if not exactly one of `redis`, `sentinel` and `cluster` is set, if a file
    /// cannot be read, or if a value is out of range.
    pub fn connect(&self, warn: &Warn) -> Result<Redis, Error> {
        let mut builder = match (&self.redis, &self.sentinel, &self.cluster) {
            (Some(address), None, None) => Redis::single(address)?,
            (None, Some(sentinel), None) => {
                Redis::sentinel(&sentinel.addresses, &sentinel.service)?
            }
            (None, None, Some(nodes)) => Redis::cluster(nodes)?,
            _ => return Err(setting("a store has exactly one of redis, sentinel and cluster")),
        };
        if let Some(prefix) = &self.prefix {
            builder = builder.prefix(prefix);
        }
        if let Some(username) = &self.username {
            builder = builder.username(username);
        }
        let file = self.password_file.as_deref().map(read_text).transpose()?;
        if let Some(password) = self.password.as_ref().or(file.as_ref()) {
            builder = builder.password(password);
        }
        if let Some(database) = self.database {
            builder = builder.database(database);
        }
        let file = self.key_secret_file.as_deref().map(read_text).transpose()?;
        if let Some(secret) = self.key_secret.as_ref().or(file.as_ref()) {
            builder = builder.key_secret(secret.as_bytes());
        }
        if let Some(Time(deadline)) = self.deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(Time(deadline)) = self.connect_deadline {
            builder = builder.connect_deadline(deadline);
        }
        if let Some(checks) = self.in_flight_max {
            builder = builder.in_flight_max(checks);
        }
        if let Some(checks) = self.checks_per_call_max {
            builder = builder.checks_per_call_max(checks);
        }
        if let Some(path) = &self.tls_authority {
            builder = builder.tls_authority(&read(path)?);
        }
        let warn = Arc::clone(warn);
        builder.on_state_change(move |change| warn(change.to_string())).build()
    }

    /// Sets the maximum time of a call. After that, the policy's failure mode decides.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(Time(deadline));
        self
    }
}

fn setting(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Setting, message)
}

fn read(path: &str) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| setting(format!("cannot read {path:?}: {error}")))
}

/// Reads a text without the line break that an editor adds at the end.
fn read_text(path: &str) -> Result<String, Error> {
    let text = String::from_utf8(read(path)?);
    let text = text.map_err(|_| setting(format!("{path:?} is not UTF-8")))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
