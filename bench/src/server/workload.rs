//! The workloads and the servers that they are sent to.

use super::subject::ServerKind;

/// The protocol of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `POST` with JSON on HTTP/1.1, connections kept.
    Http,
    /// The Redis protocol, `pipelined` commands at a time.
    Resp { pipelined: usize },
    /// Unary calls over a few HTTP/2 connections.
    Grpc,
}

/// A protocol with all servers that speak it. The first is Slidegate, the second the reference.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) protocol: Protocol,
    pub(super) subjects: &'static [ServerKind],
    /// Whether the latency at a steady load is measured.
    pub(super) is_paced: bool,
    /// Whether instructions and allocations are counted, for the first two subjects.
    pub(super) is_counted: bool,
}

pub(super) const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "http",
        protocol: Protocol::Http,
        subjects: &[ServerKind::Slidegate, ServerKind::EmptyHyper, ServerKind::Throttlecrab],
        is_paced: true,
        is_counted: true,
    },
    Workload {
        name: "resp-p1",
        protocol: Protocol::Resp { pipelined: 1 },
        subjects: &[ServerKind::Slidegate, ServerKind::Redis, ServerKind::Throttlecrab],
        is_paced: true,
        is_counted: true,
    },
    Workload {
        name: "resp-p16",
        protocol: Protocol::Resp { pipelined: 16 },
        subjects: &[ServerKind::Slidegate, ServerKind::Redis, ServerKind::Throttlecrab],
        is_paced: false,
        is_counted: true,
    },
    Workload {
        name: "grpc",
        protocol: Protocol::Grpc,
        subjects: &[ServerKind::Slidegate, ServerKind::EmptyTonic, ServerKind::Throttlecrab],
        is_paced: true,
        is_counted: true,
    },
];

/// Keys that are checked, equally often.
pub(super) const KEYS: u32 = 100_000;

/// Keys that are checked while instructions are counted: few requests are sent then, and most should
/// find an existing key.
pub(super) const FEW_KEYS: u32 = 1000;

/// Units per minute for each key: more than are requested.
pub(super) const LIMIT: u32 = 1000;

/// Requests in flight at the same time.
pub(super) const IN_FLIGHT: usize = 32;

/// Connections that the calls of gRPC share, as a proxy's workers do.
pub(super) const GRPC_CONNECTIONS: usize = 4;

impl Protocol {
    /// Returns the number of requests that are sent at once.
    pub(super) fn batch(self) -> u64 {
        match self {
            Self::Resp { pipelined } => pipelined as u64,
            Self::Http | Self::Grpc => 1,
        }
    }
}
