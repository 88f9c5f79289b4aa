//! What the HTTP listener answers from.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use slidegate_http::ClientAddress;

use crate::domain::Options;
use crate::engine::{ASKS_MAX, Engine};

/// The engine, and how requests are read.
#[derive(Debug)]
pub struct HttpState {
    engine: Arc<Engine>,
    settings: HttpSettings,
}

/// How requests are read, and how much of them.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The largest body, in bytes.
    pub body_max: usize,
    /// How long a body may take. In HTTP/1 the whole request is bounded by
    /// [`ServeLimits::request_timeout`](super::ServeLimits) instead.
    pub body_timeout: Duration,
    /// The longest key, in characters.
    pub key_max: usize,
    /// The most checks in a batch.
    pub batch_max: usize,
    /// The most checks that are made together, at most [`ASKS_MAX`].
    pub together_max: usize,
    /// The most requests that are told of a key's history, the latest.
    pub history_max: usize,
    /// How forward auth finds the client's address. If any proxy is trusted, only trusted ones may ask.
    pub client: ClientAddress,
    /// How Envoy's `/json` is answered.
    pub envoy: Arc<Options>,
    /// Set when the process is about to end: `/healthcheck` tells load balancers so.
    pub is_ending: Arc<AtomicBool>,
}

impl HttpState {
    /// Answers from an engine.
    pub fn new(engine: Arc<Engine>, settings: HttpSettings) -> Self {
        let together_max = settings.together_max.min(ASKS_MAX);
        Self { engine, settings: HttpSettings { together_max, ..settings } }
    }

    /// What is in force.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// How requests are read.
    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            body_max: 64 << 10,
            body_timeout: Duration::from_secs(10),
            key_max: 1024,
            batch_max: 1000,
            together_max: ASKS_MAX,
            history_max: 10_000,
            client: ClientAddress::peer(),
            envoy: Arc::default(),
            is_ending: Arc::default(),
        }
    }
}
