//! The servers: one, one behind Sentinels, or a cluster.
//!
//! Nothing here knows what is asked. A call has a deadline and is sent once; what may be sent a
//! second time is only what a server said it did not do.

mod breaker;
mod cluster;
mod counts;
mod failure;
mod jitter;
mod node;
mod sentinel;
mod slots;
mod step;

pub use breaker::BreakerState;

pub(crate) use breaker::BreakerSettings;
pub(crate) use cluster::Cluster;
pub(crate) use counts::Counts;
pub(crate) use failure::{Failure, FailureKind};
pub(crate) use node::{Node, Request, Timing};
pub(crate) use sentinel::{MakeNode, Sentinel};
pub(crate) use slots::slot_of;
pub(crate) use step::Reading;

use core::sync::atomic::Ordering;
use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::script::Script;

/// Where the state is.
#[derive(Debug)]
pub(crate) struct Servers {
    layout: Layout,
    pub(crate) timing: Timing,
    /// Calls that may be under way at a time.
    in_flight: Semaphore,
    in_flight_max: usize,
    pub(crate) counts: Arc<Counts>,
}

#[derive(Debug)]
pub(crate) enum Layout {
    Single(Arc<Node>),
    Sentinel(Arc<Sentinel>),
    Cluster(Arc<Cluster>),
}

/// A script's answer and the moment it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) value: Value,
    pub(crate) sent: Instant,
    /// Who answered, to be told what its clock showed.
    pub(crate) node: Arc<Node>,
}

impl Servers {
    pub(crate) fn new(
        layout: Layout,
        timing: Timing,
        in_flight_max: usize,
        counts: Arc<Counts>,
    ) -> Self {
        Self { layout, timing, in_flight: Semaphore::new(in_flight_max), in_flight_max, counts }
    }

    /// Runs a script on the keys, which must be of one slot, once, for so many callers who have entered;
    /// waits for the answer until `until`.
    pub(crate) async fn run_for(
        &self,
        callers: u32,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
        until: Instant,
    ) -> Result<Answered, Failure> {
        let sent = Instant::now();
        let key = keys.first().map_or(&[][..], |key| key);
        let by_hash = command("EVALSHA", script.hash(), keys, arguments);
        match self.call(key, &by_hash, callers, until).await {
            // The server has lost its scripts: it did nothing, so sending the text counts once.
            Err(failure) if failure.kind == FailureKind::NoScript => {
                self.counts.scripts_sent.fetch_add(1, Ordering::Relaxed);
                let sent = Instant::now();
                let by_text = command("EVAL", script.text(), keys, arguments);
                let (value, node) = self.call(key, &by_text, callers, until).await?;
                Ok(Answered { value, sent, node })
            }
            Err(failure) => Err(failure),
            Ok((value, node)) => Ok(Answered { value, sent, node }),
        }
    }

    /// One more who waits for an answer, until the permit is dropped.
    ///
    /// # Errors
    ///
    /// When too many do.
    pub(crate) fn enter(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.in_flight.try_acquire().map_err(|_| {
            self.counts.crowded.fetch_add(1, Ordering::Relaxed);
            Failure::refused("too many calls are under way; raise in_flight_max")
        })
    }

    /// Whether somebody waits for an answer.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.available_permits() < self.in_flight_max
    }

    /// Whether all keys go to one server and can be one script's.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.layout, Layout::Cluster(_))
    }

    /// Every primary there is.
    pub(crate) async fn primaries(&self) -> Result<Vec<Arc<Node>>, Failure> {
        let until = Instant::now() + self.timing.call.max(self.timing.connect);
        match &self.layout {
            Layout::Single(node) => Ok(vec![Arc::clone(node)]),
            Layout::Sentinel(sentinel) => Ok(vec![sentinel.primary(until).await?]),
            Layout::Cluster(cluster) => cluster.primaries(until).await,
        }
    }

    /// Whether the server of a key is to be tried, and nobody is trying.
    pub(crate) fn is_probe_due(&self, key: &[u8]) -> bool {
        let node = match &self.layout {
            Layout::Single(node) => Some(Arc::clone(node)),
            Layout::Sentinel(sentinel) => sentinel.known(),
            Layout::Cluster(cluster) => cluster.known_of(slot_of(key)),
        };
        node.is_some_and(|node| node.is_probe_due())
    }

    /// The worst breaker of all servers.
    pub(crate) fn breaker_state(&self) -> BreakerState {
        let nodes = match &self.layout {
            Layout::Single(node) => vec![Arc::clone(node)],
            Layout::Sentinel(sentinel) => sentinel.known().into_iter().collect(),
            Layout::Cluster(cluster) => cluster.serving(),
        };
        let states: Vec<_> = nodes.iter().map(|node| node.breaker_state()).collect();
        let has = |state| states.contains(&state);
        if has(BreakerState::Open) {
            BreakerState::Open
        } else if has(BreakerState::HalfOpen) {
            BreakerState::HalfOpen
        } else {
            BreakerState::Closed
        }
    }

    async fn call(
        &self,
        key: &[u8],
        command: &Cmd,
        callers: u32,
        until: Instant,
    ) -> Result<(Value, Arc<Node>), Failure> {
        match &self.layout {
            Layout::Single(node) => {
                let value = node.call(Request::Shared(command, callers), until).await?;
                Ok((value, Arc::clone(node)))
            }
            Layout::Sentinel(sentinel) => sentinel.call(command, callers, until).await,
            Layout::Cluster(cluster) => cluster.call(slot_of(key), command, until).await,
        }
    }
}

fn command(name: &str, script: &str, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + arguments.len(), 0);
    command.arg(name).arg(script).arg(keys.len());
    for part in keys.iter().chain(arguments) {
        command.arg(part.as_slice());
    }
    command
}
