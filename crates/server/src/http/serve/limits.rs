//! How long and how much a connection may take.

use core::time::Duration;

/// Bounds on connections. Each has a default that suits a service behind proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeLimits {
    /// For the head of a request from its first byte on, and for a TLS handshake.
    pub header_timeout: Duration,
    /// For the whole of one request, its body included.
    pub request_timeout: Duration,
    /// For a client that does not take its answer.
    pub write_timeout: Duration,
    /// Without a request, after which a connection is closed.
    pub idle_timeout: Duration,
    /// For requests under way when the server is told to end.
    pub drain_timeout: Duration,
    /// Requests under way on one HTTP/2 connection.
    pub streams_max: u32,
    /// The largest head of a request, in bytes; at least 8192.
    pub head_max: usize,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(10),
            streams_max: 1024,
            head_max: 32 << 10,
        }
    }
}

/// hyper refuses less.
pub(super) const HEAD_MIN: usize = 8192;
