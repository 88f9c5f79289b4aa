//! The servers: one, one behind Sentinels, or a cluster.
//!
//! This module does not know the scripts. A call has a deadline and is sent once. It is sent again
//! only after a reply that says that the server did nothing.

mod background;
mod breaker;
mod channel;
mod clock_jump;
mod cluster;
mod events;
mod failure;
mod link;
mod node;
mod sentinel;
mod slots;
mod timeout;
mod turn;

pub use breaker::BreakerState;

pub(crate) use background::BackgroundTask;
pub(crate) use breaker::BreakerSettings;
pub(crate) use channel::{ConnectionPool, SharedConnection, UserConnection};
pub(crate) use clock_jump::ClockReading;
pub(crate) use cluster::Cluster;
pub(crate) use failure::{Failure, FailureKind};
pub(crate) use link::Greeting;
use node::Request;
pub(crate) use node::{Node, Timing};
pub(crate) use sentinel::{MakeNode, Sentinel};
pub(crate) use slots::slot_of;
pub(crate) use timeout::within;
pub(crate) use turn::Turn;
use turn::Turns;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Value};
use slidegate::DegradedReason;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::script::Script;

/// The servers that hold the state.
#[derive(Debug)]
pub(crate) struct Servers {
    layout: Layout,
    pub(crate) timing: Timing,
    turns: Turns,
    pub(crate) counts: Arc<ServerCounts>,
}

#[derive(Debug)]
pub(crate) enum Layout {
    Single(Arc<Node>),
    Sentinel(Arc<Sentinel>),
    Cluster(Arc<Cluster>),
    /// Behind a connection of the user, which may be one to a cluster.
    Given {
        node: Arc<Node>,
        is_cluster: bool,
    },
}

/// The reply of a script, and when the call was sent.
#[derive(Debug, Clone)]
pub(crate) struct RawReply {
    pub(crate) value: Value,
    pub(crate) sent: Instant,
    /// The node that replied, which compares the server's clock with the local one.
    pub(crate) node: Arc<Node>,
}

/// Limits how often the layout of the servers is looked up again after failures.
#[derive(Debug, Default)]
struct RefreshPace(Mutex<Option<Instant>>);

impl RefreshPace {
    const PAUSE: Duration = Duration::from_millis(100);

    /// Returns `true` if a lookup is due, and records it.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now >= last + Self::PAUSE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

/// Counters of the calls to the servers.
#[derive(Debug, Default)]
pub(crate) struct ServerCounts {
    /// Commands sent.
    pub(crate) calls: AtomicU64,
    /// Commands without a reply in time.
    pub(crate) timeouts: AtomicU64,
    /// Connections that broke, and servers that were not primaries.
    pub(crate) errors: AtomicU64,
    /// Calls not made because too many were in flight for too long.
    pub(crate) crowded: AtomicU64,
    /// Connections opened.
    pub(crate) connections: AtomicU64,
    /// Numbers assigned to connections.
    numbers: AtomicU64,
    /// Times a breaker opened.
    pub(crate) breaker_opened: AtomicU64,
    /// Jumps of a server's clock.
    pub(crate) clock_steps: AtomicU64,
    /// Steps of a server's clock within the tolerance.
    pub(crate) small_clock_steps: AtomicU64,
    /// The largest of these, in microseconds.
    pub(crate) small_clock_step_max: AtomicU64,
    /// Scripts sent because the server did not have them.
    pub(crate) scripts_sent: AtomicU64,
    /// Redirections by a cluster.
    pub(crate) redirects: AtomicU64,
    /// Failed calls and connections, by the number of their reason.
    failures: [AtomicU64; DegradedReason::ALL.len()],
}

impl ServerCounts {
    pub(crate) fn failed(&self, reason: DegradedReason) {
        self.failures[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Failed calls and connections, in the order of [`DegradedReason::ALL`].
    pub(crate) fn failures(&self) -> [u64; DegradedReason::ALL.len()] {
        self.failures.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

impl ServerCounts {
    fn count_small_step(&self, size: Duration) {
        self.small_clock_steps.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(size.as_micros()).unwrap_or(u64::MAX);
        self.small_clock_step_max.fetch_max(micros, Ordering::Relaxed);
    }
}

impl Servers {
    pub(crate) fn new(
        layout: Layout,
        timing: Timing,
        in_flight_max: usize,
        counts: Arc<ServerCounts>,
    ) -> Self {
        Self { layout, timing, turns: Turns::new(in_flight_max, timing.call), counts }
    }

    /// Runs a script once on keys of one slot, and waits for the reply until `until`. `callers` is
    /// the number of checks that fail if the call does.
    pub(crate) async fn run_script(
        &self,
        callers: u32,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
        until: Instant,
    ) -> Result<RawReply, Failure> {
        let key = keys.first().map_or(&[][..], |key| key);
        let sent = Instant::now();
        let by_hash = Arc::new(command("EVALSHA", &script.hash, keys, arguments));
        let by_text = || command("EVAL", &script.text, keys, arguments);
        let request =
            Request { command: &by_hash, script_text: Some(&by_text), callers, asking: false };
        let (value, node) = match &self.layout {
            Layout::Single(node) | Layout::Given { node, .. } => {
                (node.call(request, until).await?, Arc::clone(node))
            }
            Layout::Sentinel(sentinel) => sentinel.call(request, until).await?,
            Layout::Cluster(cluster) => cluster.call(slot_of(key), request, until).await?,
        };
        Ok(RawReply { value, sent, node })
    }

    /// Waits until a caller may be in flight, and counts it until its turn is dropped. Without the
    /// wait, the deadline of its call is `until`.
    ///
    /// # Errors
    ///
    /// Returns an error if too many are in flight for too long, or there is no runtime.
    pub(crate) async fn enter(&self, until: Instant) -> Result<Turn<'_>, Failure> {
        if Handle::try_current().is_err() {
            self.counts.failed(DegradedReason::NoRuntime);
            return Err(Failure::no_runtime());
        }
        self.turns.take(until).await.inspect_err(|failure| {
            self.counts.crowded.fetch_add(1, Ordering::Relaxed);
            self.counts.failed(failure.reason());
        })
    }

    /// Returns `true` if keys are distributed over several servers, so that a script cannot use
    /// arbitrary pairs of them.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.layout, Layout::Cluster(_) | Layout::Given { is_cluster: true, .. })
    }

    /// Returns `true` if Sentinels report the primary.
    pub(crate) fn is_sentinel(&self) -> bool {
        matches!(self.layout, Layout::Sentinel(_))
    }

    /// Returns `true` if it is known which server replied. A cluster connection of the user does not
    /// show it.
    pub(crate) fn knows_nodes(&self) -> bool {
        !matches!(self.layout, Layout::Given { is_cluster: true, .. })
    }

    /// Returns the deadline of a query about the servers that starts now.
    pub(crate) fn query_deadline(&self) -> Instant {
        self.timing.query_deadline()
    }

    /// Returns every primary.
    pub(crate) async fn primaries(&self) -> Result<Vec<Arc<Node>>, Failure> {
        if Handle::try_current().is_err() {
            return Err(Failure::no_runtime());
        }
        let until = self.query_deadline();
        match &self.layout {
            Layout::Single(node) | Layout::Given { node, is_cluster: false } => {
                Ok(vec![Arc::clone(node)])
            }
            Layout::Given { .. } => Err(Failure::refused(
                DegradedReason::Other,
                "the nodes behind a cluster connection are not known: use Redis::cluster",
            )),
            Layout::Sentinel(sentinel) => Ok(vec![sentinel.primary(until).await?]),
            Layout::Cluster(cluster) => cluster.primaries(until).await,
        }
    }

    /// Returns the nodes that must reply before limiters can work: every primary, or the connection
    /// of the user.
    pub(crate) async fn nodes_to_try(&self) -> Result<Vec<Arc<Node>>, Failure> {
        match &self.layout {
            Layout::Given { node, .. } => Ok(vec![Arc::clone(node)]),
            _ => self.primaries().await,
        }
    }

    /// Returns `true` if a call for a key may be sent now: the breaker of its server is not open.
    pub(crate) fn may_call(&self, key: &[u8]) -> bool {
        let node = match &self.layout {
            Layout::Single(node) | Layout::Given { node, .. } => Some(Arc::clone(node)),
            Layout::Sentinel(sentinel) => sentinel.known(),
            Layout::Cluster(cluster) => cluster.known_of(slot_of(key)),
        };
        node.is_none_or(|node| node.breaker_state() != BreakerState::Open)
    }

    /// Returns `false` if no server that holds keys can be reached, as far as is known. Needs no
    /// call: connections are attempted in the background.
    pub(crate) fn is_reachable(&self) -> bool {
        match &self.layout {
            Layout::Single(node) | Layout::Given { node, .. } => !node.is_unreachable(),
            Layout::Sentinel(sentinel) => sentinel.is_reachable(),
            Layout::Cluster(cluster) => cluster.is_reachable(),
        }
    }

    /// Returns the worst breaker state of all servers.
    pub(crate) fn breaker_state(&self) -> BreakerState {
        let nodes = match &self.layout {
            Layout::Single(node) | Layout::Given { node, .. } => vec![Arc::clone(node)],
            Layout::Sentinel(sentinel) => sentinel.known().into_iter().collect(),
            Layout::Cluster(cluster) => cluster.serving(),
        };
        nodes.iter().map(|node| node.breaker_state()).max().unwrap_or(BreakerState::Closed)
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
