//! What is asked of whom.

use super::subject::Which;

/// How a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `POST` with JSON on HTTP/1.1, connections kept.
    Http,
    /// The Redis protocol, so many commands at a time.
    Resp { pipelined: usize },
    /// Unary calls over a few HTTP/2 connections.
    Grpc,
}

/// A protocol with everyone who speaks it. The first subject is ours, the second the yardstick.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) protocol: Protocol,
    pub(super) subjects: &'static [Which],
    /// Whether the latency at a steady load is measured.
    pub(super) is_paced: bool,
    /// Whether instructions and allocations are counted, for the first two subjects.
    pub(super) is_counted: bool,
}

pub(super) const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "http",
        protocol: Protocol::Http,
        subjects: &[Which::Slidegate, Which::EmptyHyper, Which::Throttlecrab],
        is_paced: true,
        is_counted: true,
    },
    Workload {
        name: "resp-p1",
        protocol: Protocol::Resp { pipelined: 1 },
        subjects: &[Which::Slidegate, Which::Redis, Which::Throttlecrab],
        is_paced: true,
        is_counted: true,
    },
    Workload {
        name: "resp-p16",
        protocol: Protocol::Resp { pipelined: 16 },
        subjects: &[Which::Slidegate, Which::Redis, Which::Throttlecrab],
        is_paced: false,
        is_counted: true,
    },
    Workload {
        name: "grpc",
        protocol: Protocol::Grpc,
        subjects: &[Which::Slidegate, Which::EmptyTonic, Which::Throttlecrab],
        is_paced: true,
        is_counted: true,
    },
];

/// Keys that are asked for, all alike.
pub(super) const KEYS: u32 = 100_000;

/// Keys that are asked for while instructions are counted: few requests are made then, and most are
/// to meet a key that is there.
pub(super) const FEW_KEYS: u32 = 1000;

/// Units in a minute for each key: more than are asked for.
pub(super) const LIMIT: u32 = 1000;

/// Questions under way at the same time.
pub(super) const IN_FLIGHT: usize = 32;

/// Connections that the calls of gRPC share, as a proxy's workers do.
pub(super) const GRPC_CONNECTIONS: usize = 4;

impl Protocol {
    /// Questions that are sent at once.
    pub(super) fn batch(self) -> u64 {
        match self {
            Self::Resp { pipelined } => pipelined as u64,
            Self::Http | Self::Grpc => 1,
        }
    }
}
