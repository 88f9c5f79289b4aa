//! The connection of a node, maintained in the background.
//!
//! Connecting has a separate time budget and is never restarted by a check that times out. A
//! connection that the server closes is replaced when that happens, not when the next check detects
//! it: RESP3 connections report it. Failed attempts and short-lived connections are followed by a
//! pause that grows and has jitter.

use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Weak};

use futures_util::future::{Either, select};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, Value};
use slidegate::DegradedReason;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::background::BackgroundTask;
use super::breaker::random_up_to;
use super::channel::{Channel, UserConnection};
use super::failure::{Failure, FailureKind};
use super::node::Node;
use crate::late::LateReply;

/// The connection of a node, and the task that maintains it.
pub(super) struct Link {
    source: Source,
    state: watch::Sender<LinkState>,
    keeper: BackgroundTask,
    /// Bounds the calls that timed out and whose reply is still awaited.
    late_calls: Arc<Semaphore>,
}

/// The source of connections.
enum Source {
    /// Opened by this crate.
    Own(Box<Clients>),
    /// Opened and maintained by the user.
    Given(NodeConnection),
}

/// Opens connections.
struct Clients {
    client: Client,
    /// For a server without RESP3, once that is known.
    resp2: Client,
    is_resp2: AtomicBool,
    greeting: Greeting,
}

/// The first command on a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    Nothing,
    /// `ROLE`: a replica is not used.
    Role,
    /// `SUBSCRIBE` to the events of a failover.
    FailoverEvents,
}

/// The channels on which a Sentinel reports another primary, and the replica that it is about to promote.
const FAILOVER_CHANNELS: [&str; 2] = ["+switch-master", "+selected-slave"];

enum LinkState {
    /// There is no connection, and the keeper is opening one.
    Connecting,
    /// There is no connection, and the keeper pauses until this time before it tries again.
    Down(Failure, Instant),
    Up(NodeConnection),
}

impl LinkState {
    /// Returns `true` if the connection with this number is the current one.
    fn is_up(&self, number: u64) -> bool {
        matches!(self, Self::Up(connection) if connection.number == number)
    }
}

/// A connection.
#[derive(Clone)]
pub(super) struct NodeConnection {
    pub(super) channel: Channel,
    /// Identifies the connection, so that a late failure does not close the next one.
    number: u64,
    /// Whether replies have reached the right callers, as far as is known.
    is_trusted: Arc<AtomicBool>,
}

impl NodeConnection {
    fn new(channel: Channel, number: u64) -> Self {
        Self { channel, number, is_trusted: Arc::new(AtomicBool::new(true)) }
    }

    pub(super) fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }
}

/// An event on a node's connection.
pub(crate) enum NodeEvent {
    /// The connection was lost, or could not be opened.
    Lost,
    /// A Sentinel reports a failover, with this message.
    Failover(String),
}

/// A connection that lasts this long ends a series of failures.
const STABLE: Duration = Duration::from_secs(1);

/// The longest time to wait for the reply to a call that timed out.
const LATE_MAX: Duration = Duration::from_secs(60);

/// The maximum number of calls whose late replies are awaited. Others are given up: the client library
/// does not send them if it has not done so yet.
const LATE_CALLS_MAX: usize = 64;

/// The longest pause between two attempts to connect.
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Link {
    /// Creates a link that connects with `client`, which should use RESP3.
    pub(super) fn new(client: Client, greeting: Greeting) -> Result<Self, redis::RedisError> {
        let info = client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let resp2 = Client::open(info.set_redis_settings(settings))?;
        let is_resp2 = AtomicBool::new(false);
        let source = Source::Own(Box::new(Clients { client, resp2, is_resp2, greeting }));
        Ok(Self::of(source, LinkState::Connecting))
    }

    /// Creates a link over a connection of the user.
    pub(super) fn given(connection: Arc<dyn UserConnection>) -> Self {
        let connection = NodeConnection::new(Channel::Given(connection), 0);
        Self::of(Source::Given(connection.clone()), LinkState::Up(connection))
    }

    fn of(source: Source, state: LinkState) -> Self {
        let late_calls = Arc::new(Semaphore::new(LATE_CALLS_MAX));
        Self {
            source,
            state: watch::Sender::new(state),
            keeper: BackgroundTask::default(),
            late_calls,
        }
    }

    /// The connection, if there is one.
    pub(super) fn current(&self) -> Option<NodeConnection> {
        if let Source::Given(connection) = &self.source {
            return Some(connection.clone());
        }
        // Otherwise the runtime that drives the connection has ended.
        if !self.keeper.is_running() {
            return None;
        }
        match &*self.state.borrow() {
            LinkState::Up(connection) => Some(connection.clone()),
            LinkState::Connecting | LinkState::Down(..) => None,
        }
    }

    /// Starts the keeper of a node's link unless it is running.
    pub(super) fn ensure_kept(node: &Arc<Node>) -> Result<(), Failure> {
        let link = node.link();
        if matches!(link.source, Source::Given(_)) {
            return Ok(());
        }
        link.keeper.ensure(|| {
            link.state.send_replace(LinkState::Connecting);
            keep(Arc::downgrade(node))
        })
    }

    /// Returns the connection of a node. Waits while one is being opened.
    ///
    /// # Errors
    ///
    /// Returns the failure of the last attempt while the keeper pauses after it.
    pub(super) async fn connection(node: &Arc<Node>) -> Result<NodeConnection, Failure> {
        let link = node.link();
        if let Some(connection) = link.current() {
            return Ok(connection);
        }
        Self::ensure_kept(node)?;
        let mut state = link.state.subscribe();
        let is_known = |state: &LinkState| match state {
            LinkState::Up(_) => true,
            LinkState::Connecting => false,
            // After the pause the caller waits for the attempt. If `block_on` runs single checks,
            // the keeper runs only while one of them waits.
            LinkState::Down(_, until) => Instant::now() < *until,
        };
        let known = state.wait_for(is_known).await;
        match known.as_deref() {
            Ok(LinkState::Up(connection)) => Ok(connection.clone()),
            Ok(LinkState::Down(failure, _)) => Err(failure.clone()),
            Ok(LinkState::Connecting) | Err(_) => Err(Failure::connecting("not connected yet")),
        }
    }

    /// Waits in the background for the reply to a call that timed out, until the connection is
    /// dropped. Returns `None` for a connection of the user, which a pool may be waiting for, and if too
    /// many replies are awaited.
    pub(super) fn receive_late(
        &self,
        connection: NodeConnection,
        reply: impl Future<Output = Result<Value, Failure>> + Send + Unpin + 'static,
    ) -> Option<LateReply> {
        if matches!(self.source, Source::Given(_)) {
            return None;
        }
        let permit = Arc::clone(&self.late_calls).try_acquire_owned().ok()?;
        let (sender, late_reply) = LateReply::new();
        let mut state = self.state.subscribe();
        tokio::spawn(async move {
            let _permit = permit;
            let dropped = pin!(state.wait_for(|state| !state.is_up(connection.number)));
            if let Ok(Either::Left((reply, _))) = timeout(LATE_MAX, select(reply, dropped)).await
                && connection.is_trusted()
            {
                sender.send(&reply);
            }
        });
        Some(late_reply)
    }

    /// Drops a connection, so that the keeper opens another one.
    pub(super) fn hang_up(&self, connection: &NodeConnection) {
        self.lose(connection.number);
    }

    /// Drops the current connection.
    pub(super) fn hang_up_any(&self) {
        if let Some(connection) = self.current() {
            self.hang_up(&connection);
        }
    }

    /// Drops the connection because its replies may belong to other callers. Every call that waits
    /// on it fails. A connection of the user stays in use.
    pub(super) fn distrust(&self) {
        if matches!(self.source, Source::Own(_))
            && let Some(connection) = self.current()
        {
            // A caller woken on another thread at the same time may read this before it is set.
            // Only replies that identify their request could prevent that.
            connection.is_trusted.store(false, Ordering::Relaxed);
            self.hang_up(&connection);
        }
    }

    /// Returns `true` if this connection was the current one.
    fn lose(&self, number: u64) -> bool {
        self.state.send_if_modified(|state| {
            if state.is_up(number) && matches!(self.source, Source::Own(_)) {
                *state = LinkState::Connecting;
                return true;
            }
            false
        })
    }

    /// Opens a connection on which the server has accepted the credentials.
    async fn connect(&self, node: &Arc<Node>) -> Result<NodeConnection, Failure> {
        let Source::Own(clients) = &self.source else {
            return self.current().ok_or_else(|| Failure::unreachable("not connected"));
        };
        let Clients { client, resp2, is_resp2, greeting } = &**clients;
        let (address, number, within) = (node.address(), node.next_number(), node.timing().connect);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(within))
            .set_response_timeout(None);
        let connecting = async {
            if client.get_connection_info().redis_settings().protocol().supports_resp3()
                && !is_resp2.load(Ordering::Relaxed)
            {
                let config = config.clone().set_push_sender(push_handler(node, number));
                match client.get_multiplexed_async_connection_with_config(&config).await {
                    Err(error) if is_unknown_protocol(&error) => {
                        is_resp2.store(true, Ordering::Relaxed);
                    }
                    result => return result,
                }
            }
            resp2.get_multiplexed_async_connection_with_config(&config).await
        };
        let greeted = async {
            let multiplexed =
                connecting.await.map_err(|error| Failure::of_connecting(address, &error))?;
            greet(address, *greeting, multiplexed).await
        };
        let late =
            || Failure::unreachable(format!("cannot connect to {address} within {within:?}"));
        let multiplexed = timeout(within, greeted).await.unwrap_or_else(|_| Err(late()))?;
        Ok(NodeConnection::new(Channel::Own(multiplexed), number))
    }
}

/// Handles push messages of the server, and the end of the connection.
fn push_handler(node: &Arc<Node>, number: u64) -> impl Fn(PushInfo) -> Result<(), ()> + use<> {
    let node = Arc::downgrade(node);
    move |push| {
        let node = node.upgrade().ok_or(())?;
        match push.kind {
            PushKind::Disconnection if node.link().lose(number) => {
                node.note_lost();
                node.emit(NodeEvent::Lost);
            }
            PushKind::Message => {
                if let Some(Value::BulkString(message)) = push.data.into_iter().nth(1)
                    && let Ok(message) = String::from_utf8(message)
                {
                    node.emit(NodeEvent::Failover(message));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn is_unknown_protocol(error: &redis::RedisError) -> bool {
    error.kind() == redis::ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || error.detail().is_some_and(|detail| detail.contains("unknown command"))
}

async fn greet(
    address: &str,
    greeting: Greeting,
    mut connection: MultiplexedConnection,
) -> Result<MultiplexedConnection, Failure> {
    match greeting {
        Greeting::Nothing => {}
        Greeting::FailoverEvents => {
            // Without the permission, or without RESP3, the Sentinel is polled.
            for channel in FAILOVER_CHANNELS {
                let _ = connection.subscribe(channel).await;
            }
        }
        Greeting::Role => {
            // Without the permission, a replica is detected when it refuses to write.
            let reply = connection.send_packed_command(&redis::cmd("ROLE")).await;
            let is_replica = matches!(
                reply,
                Ok(Value::Array(parts)) if parts.first() == Some(&Value::BulkString(b"slave".into()))
            );
            if is_replica {
                let why = format!("{address} is a replica");
                return Err(Failure::new(
                    FailureKind::NotPrimary,
                    DegradedReason::NotWritable,
                    why,
                ));
            }
        }
    }
    Ok(connection)
}

/// Keeps a node connected until it is dropped.
async fn keep(node: Weak<Node>) {
    // Failed attempts and short-lived connections in a row.
    let mut failures: u32 = 0;
    loop {
        let Some(kept) = node.upgrade() else {
            return;
        };
        let open_min = kept.timing().breaker.open_min;
        let (failure, pause) = match kept.link().connect(&kept).await {
            Ok(connection) => {
                kept.note_connected();
                let mut state = kept.link().state.subscribe();
                kept.link().state.send_replace(LinkState::Up(connection));
                let (since, address) = (Instant::now(), Box::<str>::from(kept.address()));
                drop(kept);
                let lost = state.wait_for(|state| !matches!(state, LinkState::Up(_))).await;
                if lost.is_err() {
                    return;
                }
                failures = if since.elapsed() >= STABLE { 0 } else { failures.saturating_add(1) };
                let failure = Failure::unreachable(format!("{address} closes its connections"));
                // The first time, a new connection is opened immediately.
                (failure, pause(open_min, failures.saturating_sub(1)))
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                kept.note_not_connected(&failure);
                (failure, pause(open_min, failures))
            }
        };
        if pause.is_zero() {
            continue;
        }
        let Some(kept) = node.upgrade() else {
            return;
        };
        kept.link().state.send_replace(LinkState::Down(failure, Instant::now() + pause));
        kept.emit(NodeEvent::Lost);
        drop(kept);
        tokio::time::sleep(pause).await;
        if let Some(node) = node.upgrade() {
            node.link().state.send_replace(LinkState::Connecting);
        }
    }
}

/// Returns the pause after this number of failures in a row. Half of it is random, so that many
/// processes do not connect at the same time.
fn pause(open_min: Duration, failures: u32) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let half = (open_min.saturating_mul(1 << failures.min(16)) / 2).min(PAUSE_MAX) / 2;
    half + random_up_to(half)
}
