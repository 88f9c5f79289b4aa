//! Who asks.

use core::fmt;

use http::HeaderMap;
use slidegate_http::TraceParent;

/// Who asks a question, for those who are told of its decision.
///
/// Two words, to be handed along with every question; fields are looked at when somebody asks.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    listener: Listener,
    fields: Option<&'a HeaderMap>,
}

/// The kind of listener that a question came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// None: asked within the process.
    Inside,
    /// The HTTP API, forward auth and Envoy's `/json`.
    Http,
    /// Envoy's rate limit service.
    Grpc,
    /// The Redis protocol.
    Resp,
}

impl Caller<'static> {
    /// Asked within the process.
    pub const INSIDE: Self = Self { listener: Listener::Inside, fields: None };
    /// Asked in the Redis protocol, which knows no fields.
    pub const RESP: Self = Self { listener: Listener::Resp, fields: None };
}

impl<'a> Caller<'a> {
    /// Asked over HTTP, with these fields.
    pub fn http(fields: &'a HeaderMap) -> Self {
        Self { listener: Listener::Http, fields: Some(fields) }
    }

    /// Asked over gRPC, with this metadata.
    pub fn grpc(metadata: &'a HeaderMap) -> Self {
        Self { listener: Listener::Grpc, fields: Some(metadata) }
    }

    /// What it came through.
    pub fn listener(&self) -> Listener {
        self.listener
    }

    /// The trace that it belongs to.
    pub fn trace(&self) -> Option<TraceParent<'a>> {
        self.fields.and_then(TraceParent::of)
    }
}

impl Listener {
    /// Its name, as the configuration has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
        }
    }
}

/// Fields carry secrets: they are not shown.
impl fmt::Debug for Caller<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Caller").field("listener", &self.listener).finish_non_exhaustive()
    }
}
