//! One server: its connection, its breaker, its clock.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::ServerCounts;
use super::breaker::{Breaker, BreakerSettings, BreakerState};
use super::clock_jump::{ClockJumpDetector, ClockReading, ClockStep};
use super::failure::{Failure, FailureKind};

/// One server behind one multiplexed connection, which is made when it is first needed.
pub(crate) struct Node {
    address: Box<str>,
    client: Client,
    timing: Timing,
    link: Mutex<Link>,
    breaker: Breaker,
    clock_jumps: ClockJumpDetector,
    counts: Arc<ServerCounts>,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// From a call to its reply, connecting included if that is needed.
    pub(crate) call: Duration,
    /// For making a connection; a caller does not wait for it longer than for a call.
    pub(crate) connect: Duration,
    pub(crate) breaker: BreakerSettings,
    /// How far a server's clock may jump before the breaker opens.
    pub(crate) step: Duration,
}

enum Link {
    Down(Box<str>),
    /// A task is connecting; turns true when that has ended.
    Connecting(watch::Receiver<bool>),
    Up(NodeConnection),
}

/// A connection.
#[derive(Clone)]
struct NodeConnection {
    multiplexed: MultiplexedConnection,
    /// So that a late failure does not take down the connection made after it.
    number: u64,
    /// Whether replies have reached the right callers, as far as we know.
    is_trusted: Arc<AtomicBool>,
}

/// What is sent to a node.
pub(crate) struct Request<'a> {
    pub(crate) command: &'a Cmd,
    /// The number of callers that wait for the reply.
    pub(crate) callers: u32,
    /// Whether the node is importing the slot (`ASKING`).
    pub(crate) asking: bool,
}

impl Node {
    pub(crate) fn new(
        address: &str,
        client: Client,
        timing: Timing,
        counts: Arc<ServerCounts>,
    ) -> Self {
        Self {
            address: address.into(),
            client,
            timing,
            link: Mutex::new(Link::Down("not connected yet".into())),
            breaker: Breaker::new(timing.breaker),
            clock_jumps: ClockJumpDetector::new(timing.step),
            counts,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn breaker_state(&self) -> BreakerState {
        self.breaker.state(Instant::now())
    }

    /// Whether the next call would be the breaker's probe.
    pub(crate) fn is_probe_due(&self) -> bool {
        self.breaker.is_probe_due(Instant::now())
    }

    /// Sends a request and waits for the reply until `until`, if the breaker allows it.
    pub(crate) async fn call(
        self: &Arc<Self>,
        request: Request<'_>,
        until: Instant,
    ) -> Result<Value, Failure> {
        let pass = match self.breaker.enter(Instant::now()) {
            Ok(pass) => pass,
            Err(left) => {
                let why = format!("{} did not answer; asked again in {left:?}", self.address);
                return Err(Failure::new(FailureKind::Open(left), why));
            }
        };
        let result = self.send(&request, until).await;
        match &result {
            Err(failure) if failure.is_server_fault() => {
                let was_probe = pass.is_probe();
                let opened = pass.fail(Instant::now(), request.callers);
                if opened {
                    self.counts.breaker_opened.fetch_add(1, Ordering::Relaxed);
                }
                // What is in flight on this connection may never be answered, nor what comes next.
                if opened || was_probe {
                    self.hang_up("the breaker opened", None);
                }
            }
            _ => pass.succeed(),
        }
        result
    }

    /// Sends a command whatever the breaker says, for queries about the server itself. The connection
    /// is dropped if there is no reply, because no breaker does that here.
    pub(crate) async fn query(
        self: &Arc<Self>,
        command: &Cmd,
        until: Instant,
    ) -> Result<Value, Failure> {
        let result = self.send(&Request { command, callers: 1, asking: false }, until).await;
        if result.as_ref().is_err_and(Failure::is_unknown) {
            self.hang_up("a query was not answered", None);
        }
        result
    }

    async fn send(
        self: &Arc<Self>,
        request: &Request<'_>,
        until: Instant,
    ) -> Result<Value, Failure> {
        let address = &self.address;
        let left = until.saturating_duration_since(Instant::now());
        let Ok(connected) = timeout(left, self.connection()).await else {
            return Err(Failure::refused(format!("{address} was not connected within {left:?}")));
        };
        let mut connection = connected?;
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        let Ok(answered) = timeout_at(until, request.send(&mut connection.multiplexed)).await
        else {
            self.counts.timeouts.fetch_add(1, Ordering::Relaxed);
            let within = self.timing.call;
            return Err(Failure::unknown(format!("{address} did not answer within {within:?}")));
        };
        let failure = match answered {
            _ if !connection.is_trusted.load(Ordering::Relaxed) => {
                Failure::unknown(format!("{address} gave answers to the wrong ones"))
            }
            Ok(Value::ServerError(error)) => Failure::from(redis::RedisError::from(error)),
            Ok(value) => return Ok(value),
            Err(error) => Failure::from(error),
        };
        if failure.is_unknown() || failure.kind == FailureKind::NotPrimary {
            self.counts.errors.fetch_add(1, Ordering::Relaxed);
            self.hang_up(&failure.to_string(), Some(connection.number));
        }
        Err(failure)
    }

    /// Compares the server's clock with ours. Every step is counted; a jump opens the breaker.
    pub(crate) fn note_time(&self, reading: ClockReading) {
        match self.clock_jumps.step(reading) {
            None => {}
            Some(ClockStep::Small(size)) => self.counts.count_small_step(size),
            Some(ClockStep::Jump) => {
                self.counts.clock_steps.fetch_add(1, Ordering::Relaxed);
                self.counts.breaker_opened.fetch_add(1, Ordering::Relaxed);
                self.breaker.trip(Instant::now());
            }
        }
    }

    /// Drops a connection that delivered a malformed reply. The replies after it may belong to
    /// other callers too, so every call that waits on that connection fails.
    pub(crate) fn distrust(&self) {
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
        if let Link::Up(connection) = &*self.link.lock() {
            // A caller woken on another thread at the same time may read this before it is set:
            // only replies that name their request could prevent that.
            connection.is_trusted.store(false, Ordering::Relaxed);
        }
        self.hang_up("it gave an answer that makes no sense", None);
    }

    async fn connection(self: &Arc<Self>) -> Result<NodeConnection, Failure> {
        let mut ended = match &mut *self.link.lock() {
            Link::Up(connection) => return Ok(connection.clone()),
            Link::Connecting(ended) if ended.has_changed().is_ok() => ended.clone(),
            // Down, or the runtime of the task that was connecting has ended.
            link => {
                let ended = self.connect();
                *link = Link::Connecting(ended.clone());
                ended
            }
        };
        // Either it has ended or its task was stopped; the link shows which.
        let _ = ended.wait_for(|ended| *ended).await;
        match &*self.link.lock() {
            Link::Up(connection) => Ok(connection.clone()),
            Link::Down(why) => Err(Failure::refused(why.clone())),
            Link::Connecting(_) => {
                Err(Failure::refused(format!("{} is not connected", self.address)))
            }
        }
    }

    /// Connects on a task of its own: a caller that gives up does not stop it for the others.
    fn connect(self: &Arc<Self>) -> watch::Receiver<bool> {
        let (ended, receiver) = watch::channel(false);
        let node = Arc::clone(self);
        tokio::spawn(async move {
            let link = node.make_link().await;
            *node.link.lock() = link;
            let _ = ended.send(true);
        });
        receiver
    }

    async fn make_link(&self) -> Link {
        let within = self.timing.connect;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(within))
            .set_response_timeout(None);
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        match timeout(within, connecting).await {
            Ok(Ok(multiplexed)) => {
                let number = self.counts.connections.fetch_add(1, Ordering::Relaxed);
                Link::Up(NodeConnection {
                    multiplexed,
                    number,
                    is_trusted: Arc::new(AtomicBool::new(true)),
                })
            }
            Ok(Err(error)) => {
                Link::Down(format!("cannot connect to {}: {error}", self.address).into())
            }
            Err(_) => {
                Link::Down(format!("cannot connect to {} within {within:?}", self.address).into())
            }
        }
    }

    /// Drops the connection, or only the one with this number.
    fn hang_up(&self, why: &str, number: Option<u64>) {
        let mut link = self.link.lock();
        if let Link::Up(connection) = &*link
            && number.is_none_or(|number| number == connection.number)
        {
            *link = Link::Down(why.into());
        }
    }
}

impl Request<'_> {
    async fn send(&self, connection: &mut MultiplexedConnection) -> redis::RedisResult<Value> {
        if !self.asking {
            return connection.send_packed_command(self.command).await;
        }
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").ignore().add_command(self.command.clone());
        let mut replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
        Ok(replies.pop().unwrap_or(Value::Nil))
    }
}

/// Without the client, which knows the password.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("address", &self.address)
            .field("breaker", &self.breaker_state())
            .finish_non_exhaustive()
    }
}
