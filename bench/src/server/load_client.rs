//! A client connection of any protocol.

use super::grpc::{Call, Channels};
use super::process::Server;
use super::subject::ServerKind;
use super::wire::Wire;
use super::workload::{FEW_KEYS, GRPC_CONNECTIONS, IN_FLIGHT, KEYS, Protocol};
use crate::random::Random;

/// One client: it sends its requests, waits for the replies and sends the next.
#[derive(Debug)]
pub(super) struct LoadClient {
    transport: Transport,
    random: Random,
    keys: u32,
}

#[derive(Debug)]
enum Transport {
    Wire(Wire),
    Grpc(Box<Call>),
}

impl LoadClient {
    /// Opens one client per request in flight.
    pub(super) async fn open_all(
        which: ServerKind,
        protocol: Protocol,
        server: &Server,
    ) -> Result<Vec<Self>, String> {
        let mut lines = Self::open(which, protocol, server, IN_FLIGHT, GRPC_CONNECTIONS).await?;
        for line in &mut lines {
            line.keys = KEYS;
        }
        Ok(lines)
    }

    /// Opens a single one with few keys.
    pub(super) async fn open_one(
        which: ServerKind,
        protocol: Protocol,
        server: &Server,
    ) -> Result<Self, String> {
        let lines = Self::open(which, protocol, server, 1, 1).await?;
        lines.into_iter().next().ok_or_else(|| "no line was opened".to_owned())
    }

    async fn open(
        which: ServerKind,
        protocol: Protocol,
        server: &Server,
        lines: usize,
        connections: usize,
    ) -> Result<Vec<Self>, String> {
        let mut all = Vec::with_capacity(lines);
        let channels = match protocol {
            Protocol::Grpc => Some(Channels::open(server.ports.grpc, connections).await?),
            Protocol::Http | Protocol::Resp { .. } => None,
        };
        for number in 0..lines {
            let transport = match &channels {
                Some(channels) => Transport::Grpc(Box::new(channels.call(which, number))),
                None => Transport::Wire(Wire::open(which, protocol, server).await?),
            };
            all.push(Self { transport, random: Random::new(number as u64 + 1), keys: FEW_KEYS });
        }
        Ok(all)
    }

    /// Sends one request, or a pipeline of them, and waits for all replies.
    pub(super) async fn ask(&mut self) -> Result<(), String> {
        let (random, keys) = (&mut self.random, self.keys);
        match &mut self.transport {
            Transport::Wire(wire) => wire.ask(|| random.below(keys)).await,
            Transport::Grpc(call) => call.ask(random.below(keys)).await,
        }
    }

    /// The body of the last answer, where there is one.
    pub(super) fn last_body(&self) -> &[u8] {
        match &self.transport {
            Transport::Wire(wire) => wire.last_body(),
            Transport::Grpc(_) => &[],
        }
    }
}
