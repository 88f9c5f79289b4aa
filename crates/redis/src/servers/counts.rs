//! What has happened between us and the servers.

use core::sync::atomic::AtomicU64;

/// Counters that only ever rise.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Commands sent.
    pub(crate) calls: AtomicU64,
    /// Commands that were not answered in time.
    pub(crate) timeouts: AtomicU64,
    /// Connections that broke, and servers that were not what they should be.
    pub(crate) errors: AtomicU64,
    /// Calls not made because too many were under way.
    pub(crate) crowded: AtomicU64,
    /// Connections made.
    pub(crate) connections: AtomicU64,
    /// Times a breaker opened.
    pub(crate) breaker_opened: AtomicU64,
    /// Jumps of a server's clock.
    pub(crate) clock_steps: AtomicU64,
    /// Times a script had to be sent because the server did not have it.
    pub(crate) scripts_sent: AtomicU64,
    /// Redirections by a cluster.
    pub(crate) redirects: AtomicU64,
}
