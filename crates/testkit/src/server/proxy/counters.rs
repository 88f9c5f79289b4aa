//! What a proxy has seen.

/// Numbers that only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were closed at once, because too many were open.
    pub refused: u64,
    /// Whole requests forwarded.
    pub requests: u64,
    /// Whole replies read from the server, whatever became of them.
    pub replies: u64,
    /// Bytes forwarded to the server.
    pub bytes_to_server: u64,
    /// Bytes forwarded to clients.
    pub bytes_to_clients: u64,
    /// Replies, or their beginnings, that were thrown away.
    pub replies_swallowed: u64,
    /// Bytes of replies that were thrown away.
    pub bytes_swallowed: u64,
    /// Connections that were closed in the middle of something.
    pub cuts: u64,
}
