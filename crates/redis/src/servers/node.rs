//! One server: its connection, its breaker, its clock.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Client, Cmd, RedisResult, Value};
use slidegate::DegradedReason;
use tokio::time::{Instant, timeout};

use super::ServerCounts;
use super::breaker::{Breaker, BreakerSettings, BreakerState, CallPermit};
use super::channel::{Channel, UserConnection};
use super::clock_jump::{ClockJumpDetector, ClockReading, ClockStep};
use super::events;
use super::failure::{Failure, FailureKind};
use super::link::{Greeting, Link, NodeEvent};
use super::timeout::within;

/// One server behind one multiplexed connection, which is opened on first use.
pub(crate) struct Node {
    address: Box<str>,
    timing: Timing,
    link: Link,
    breaker: Breaker,
    /// The last fault of the server: the reason why the breaker is open.
    last_fault: Mutex<Option<Failure>>,
    eval_refused: Mutex<Option<EvalRefusal>>,
    clock_jumps: ClockJumpDetector,
    counts: Arc<ServerCounts>,
    /// Whether the last attempt to connect failed.
    is_unreachable: AtomicBool,
    on_event: Option<OnEvent>,
}

/// Receives the events of a node.
pub(crate) type OnEvent = Box<dyn Fn(NodeEvent) + Send + Sync>;

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// From a call to its reply, including connecting if necessary.
    pub(crate) call: Duration,
    /// For opening a connection. A caller does not wait for it longer than for a call.
    pub(crate) connect: Duration,
    pub(crate) breaker: BreakerSettings,
    /// The clock step of a server from which the breaker opens.
    pub(crate) step: Duration,
}

impl Timing {
    /// Returns the deadline of a query about the servers that starts now, including connecting.
    pub(crate) fn query_deadline(&self) -> Instant {
        Instant::now() + self.connect + self.call.max(self.connect)
    }
}

/// A request to a node.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) command: &'a Arc<Cmd>,
    /// The command to send if the server does not have the script of `command`.
    pub(crate) script_text: Option<&'a (dyn Fn() -> Cmd + Sync)>,
    /// The number of callers that wait for the reply.
    pub(crate) callers: u32,
    /// Whether the node is importing the slot (`ASKING`).
    pub(crate) asking: bool,
}

/// The server's refusal to run a script from its text, because the user may not.
struct EvalRefusal {
    failure: Failure,
    /// The time until the next attempt.
    until: Instant,
    /// The number of refusals in a row.
    count: u32,
}

/// The maximum pause before a user that may not run scripts from their text is sent one again.
const EVAL_PAUSE_MAX: Duration = Duration::from_secs(10);

impl Node {
    pub(crate) fn new(
        address: &str,
        client: Client,
        greeting: Greeting,
        timing: Timing,
        counts: Arc<ServerCounts>,
    ) -> RedisResult<Self> {
        Ok(Self::with_link(address, Link::new(client, greeting)?, timing, counts))
    }

    /// Creates a node behind a connection of the user.
    pub(crate) fn given(
        connection: Arc<dyn UserConnection>,
        timing: Timing,
        counts: Arc<ServerCounts>,
    ) -> Self {
        Self::with_link("given connection", Link::given(connection), timing, counts)
    }

    fn with_link(address: &str, link: Link, timing: Timing, counts: Arc<ServerCounts>) -> Self {
        Self {
            address: address.into(),
            timing,
            link,
            breaker: Breaker::new(timing.breaker),
            last_fault: Mutex::default(),
            eval_refused: Mutex::default(),
            clock_jumps: ClockJumpDetector::new(timing.step),
            counts,
            is_unreachable: AtomicBool::new(false),
            on_event: None,
        }
    }

    /// Sends the events of the node to `on_event`.
    pub(crate) fn on_event(mut self, on_event: OnEvent) -> Self {
        self.on_event = Some(on_event);
        self
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn timing(&self) -> &Timing {
        &self.timing
    }

    pub(crate) fn breaker_state(&self) -> BreakerState {
        self.breaker.state(Instant::now())
    }

    /// Returns `true` if the last attempt to connect failed.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.is_unreachable.load(Ordering::Relaxed)
    }

    /// Starts to connect in the background, if that has not been done.
    pub(crate) fn connect_soon(self: &Arc<Self>) {
        // Without a runtime, the first call returns the error.
        let _ = Link::ensure_kept(self);
    }

    /// Sends a request and waits for the reply until `until`, if the breaker allows it. If the
    /// server does not have the script, it did nothing, so sending the text counts once.
    pub(crate) async fn call(
        self: &Arc<Self>,
        request: Request<'_>,
        mut until: Instant,
    ) -> Result<Value, Failure> {
        let result = self.call_once(&request, &mut until).await;
        let Some(text) = request.script_text else {
            return result;
        };
        if !result.as_ref().is_err_and(|failure| failure.kind == FailureKind::NoScript) {
            return result;
        }
        if let Some(refusal) = self.eval_refusal() {
            return self.call_failed(refusal, request.callers);
        }
        self.counts.scripts_sent.fetch_add(1, Ordering::Relaxed);
        let command = Arc::new(text());
        let request = Request { command: &command, ..request };
        let result = self.call_once(&request, &mut until).await;
        self.note_eval(result.as_ref().err());
        result
    }

    async fn call_once(
        self: &Arc<Self>,
        request: &Request<'_>,
        until: &mut Instant,
    ) -> Result<Value, Failure> {
        let permit = match self.breaker.enter(Instant::now()) {
            Ok(permit) => permit,
            Err(left) => {
                let fault = self.last_fault.lock().clone();
                let unnamed = || Failure::unreachable(format!("{} did not reply", self.address));
                return Err(fault.unwrap_or_else(unnamed).while_open(left));
            }
        };
        let result = self.send(request, until).await;
        match &result {
            Err(failure) if failure.is_server_fault() => {
                self.settle(permit, failure, request.callers);
            }
            // The text of the script follows, and its reply counts.
            Err(Failure { kind: FailureKind::NoScript, .. }) => drop(permit),
            _ => permit.succeed(),
        }
        result
    }

    /// Records a failure without a call.
    fn call_failed(&self, failure: Failure, callers: u32) -> Result<Value, Failure> {
        if let Ok(permit) = self.breaker.enter(Instant::now()) {
            self.settle(permit, &failure, callers);
        }
        Err(failure)
    }

    /// Counts a fault of the server in the breaker.
    fn settle(&self, permit: CallPermit<'_>, failure: &Failure, callers: u32) {
        *self.last_fault.lock() = Some(failure.clone());
        let was_probe = permit.is_probe();
        let opened = permit.fail(Instant::now(), callers);
        if opened {
            self.counts.breaker_opened.fetch_add(1, Ordering::Relaxed);
            events::failed(&self.address, "circuit breaker opened", failure);
        }
        // Calls in flight on this connection may never get a reply, nor may later ones.
        if (opened || was_probe) && failure.is_unknown() {
            self.link.hang_up_any();
        }
    }

    /// Sends a command regardless of the breaker, for queries about the server. The connection is
    /// dropped if there is no reply, because no breaker does that here.
    pub(crate) async fn query(
        self: &Arc<Self>,
        command: &Cmd,
        mut until: Instant,
    ) -> Result<Value, Failure> {
        let command = Arc::new(command.clone());
        let request = Request { command: &command, script_text: None, callers: 1, asking: false };
        let result = self.send(&request, &mut until).await;
        if result.as_ref().is_err_and(Failure::is_unknown) {
            self.link.hang_up_any();
        }
        result
    }

    async fn send(
        self: &Arc<Self>,
        request: &Request<'_>,
        until: &mut Instant,
    ) -> Result<Value, Failure> {
        let address = &self.address;
        let left = until.saturating_duration_since(Instant::now());
        let Ok(connected) = timeout(left, Link::connection(self)).await else {
            let why = format!("{address} was not connected within {left:?}");
            return Err(self.counted(Failure::connecting(why)));
        };
        let connection = connected?;
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        let mut reply = Box::pin(request.send(connection.channel.clone()));
        let Some(replied) = within(self.timing.call, until, &mut reply).await else {
            self.counts.timeouts.fetch_add(1, Ordering::Relaxed);
            let why = format!("{address} did not reply within {:?}", self.timing.call);
            let failure = Failure::unknown(DegradedReason::Timeout, why);
            // Queries change nothing.
            let late_reply =
                request.script_text.and_then(|_| self.link.receive_late(connection, reply));
            return Err(self.counted(failure.with_late_reply(late_reply)));
        };
        let failure = match replied {
            _ if !connection.is_trusted() => {
                let why = format!("{address} sent replies to the wrong callers");
                Failure::unknown(DegradedReason::BadReply, why)
            }
            Ok(Value::ServerError(error)) => Failure::from(redis::RedisError::from(error)),
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        if failure.is_unknown() || failure.kind == FailureKind::NotPrimary {
            self.counts.errors.fetch_add(1, Ordering::Relaxed);
            self.link.hang_up(&connection);
        }
        Err(self.counted(failure))
    }

    /// Counts a failure by its reason, unless the call is redirected.
    fn counted(&self, failure: Failure) -> Failure {
        if failure.is_server_fault() || failure.kind == FailureKind::BadReply {
            self.counts.failed(failure.reason());
        }
        failure
    }

    /// Compares the server's clock with the local one. Every step is counted, and a jump opens the
    /// breaker.
    pub(crate) fn note_time(&self, reading: ClockReading) {
        match self.clock_jumps.step(reading) {
            None => {}
            Some(ClockStep::Small(size)) => self.counts.count_small_step(size),
            Some(ClockStep::Jump) => {
                self.counts.clock_steps.fetch_add(1, Ordering::Relaxed);
                self.counts.breaker_opened.fetch_add(1, Ordering::Relaxed);
                let why = format!("the clock of {} jumped", self.address);
                let failure = Failure::refused(DegradedReason::Other, why);
                events::failed(&self.address, "circuit breaker opened", &failure);
                *self.last_fault.lock() = Some(failure);
                self.breaker.trip(Instant::now());
            }
        }
    }

    /// Drops a connection that delivered a malformed reply. The replies after it may belong to
    /// other callers too, so every call that waits on that connection fails.
    pub(crate) fn distrust(&self) {
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
        self.counts.failed(DegradedReason::BadReply);
        self.link.distrust();
    }

    /// Returns the refusal if the server has just refused to run a script from its text. Scripts
    /// are long, so none is sent for a while.
    fn eval_refusal(&self) -> Option<Failure> {
        let refused = self.eval_refused.lock();
        refused.as_ref().filter(|it| Instant::now() < it.until).map(|it| it.failure.clone())
    }

    /// Records the result of running a script from its text.
    fn note_eval(&self, failure: Option<&Failure>) {
        let mut refused = self.eval_refused.lock();
        let failure = failure.filter(|failure| failure.reason() == DegradedReason::Unauthorized);
        *refused = failure.map(|failure| {
            let count = refused.as_ref().map_or(0, |before| before.count).saturating_add(1);
            let pause = self.timing.breaker.open_min.saturating_mul(1 << count.min(16));
            let until = Instant::now() + pause.min(EVAL_PAUSE_MAX);
            EvalRefusal { failure: failure.clone(), until, count }
        });
    }

    /// Returns a number that no other connection of the same servers has.
    pub(super) fn next_number(&self) -> u64 {
        self.counts.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that the keeper has opened a connection.
    pub(super) fn note_connected(&self) {
        self.counts.connections.fetch_add(1, Ordering::Relaxed);
        self.is_unreachable.store(false, Ordering::Relaxed);
        events::connected(&self.address);
        // The settings of another user may apply to it.
        *self.eval_refused.lock() = None;
        self.breaker.allow_probe(Instant::now());
    }

    /// Records that the server has closed the connection.
    pub(super) fn note_lost(&self) {
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
        self.counts.failed(DegradedReason::Unreachable);
    }

    /// Records that the keeper could not open a connection.
    pub(super) fn note_not_connected(&self, failure: &Failure) {
        self.counts.failed(failure.reason());
        self.is_unreachable.store(true, Ordering::Relaxed);
        events::failed(&self.address, "not connected", failure);
    }

    pub(super) fn emit(&self, event: NodeEvent) {
        if let Some(on_event) = &self.on_event {
            on_event(event);
        }
    }
}

impl Request<'_> {
    /// Sends the command and waits for the reply, also after the caller has given up.
    fn send(
        &self,
        mut channel: Channel,
    ) -> impl Future<Output = Result<Value, Failure>> + Send + use<> {
        let (command, asking) = (Arc::clone(self.command), self.asking);
        async move {
            if asking { channel.send_asking(&command).await } else { channel.send(&command).await }
        }
    }
}

/// Omits the client, which contains the password.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("address", &self.address)
            .field("breaker", &self.breaker_state())
            .finish_non_exhaustive()
    }
}
