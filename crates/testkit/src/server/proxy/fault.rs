//! What a proxy can do to those who use it.

/// What becomes of a reply. The request before it reached the server and was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyFault {
    /// It is thrown away, and the stream goes on after it.
    ///
    /// No network does that: whoever goes on using the connection takes the next reply for this one.
    Swallow,
    /// It is thrown away, and so is everything after it on that connection, which stays open.
    Deafen,
    /// Its first bytes arrive, then the connection is closed; `0` closes it in place of the reply.
    Cut {
        /// How many bytes arrive; at most the whole reply.
        after: usize,
    },
    /// These bytes arrive before it.
    Inject(Vec<u8>),
}

/// How clients are received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Door {
    /// Connections are accepted and served.
    #[default]
    Open,
    /// Connections are accepted, and nothing is forwarded either way, on open ones neither. What was
    /// held back goes on when the door is opened.
    BlackHole,
    /// Nobody is let in: a client that connects gets no answer, not even a refusal. Open connections
    /// are served.
    Shut,
}
