//! A primary that Sentinels report.
//!
//! A separate task watches every Sentinel: it subscribes to failover events and polls. Sentinels
//! learn of a failover one after the other, so they disagree for a moment. If a Sentinel reports
//! another primary than before, it is used immediately. A Sentinel that still reports the old
//! primary is ignored.
//!
//! In a planned failover, the old primary goes on serving, and Sentinels notice the promotion only with
//! their next `INFO`, up to a second later. So when a Sentinel names the replica that it is about to
//! promote, that replica is asked for its role, and used as soon as it is a primary.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Weak};

use redis::Value;
use slidegate::DegradedReason;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::RefreshPace;
use super::background::BackgroundTask;
use super::events;
use super::failure::Failure;
use super::link::NodeEvent;
use super::node::{Node, Request, Timing};

/// Creates the node of an address, with its credentials and settings.
pub(crate) type MakeNode = Box<dyn Fn(&str) -> Result<Node, Failure> + Send + Sync>;

/// The primary of a service, as its Sentinels report it.
pub(crate) struct Sentinel {
    watched: Vec<SentinelNode>,
    service: Box<str>,
    make: MakeNode,
    /// Creates the node of a replica that is being promoted.
    make_candidate: MakeNode,
    /// Waits for the promotion of a replica.
    promotion: BackgroundTask,
    timing: Timing,
    state: watch::Sender<State>,
    refresh_pace: RefreshPace,
}

/// One Sentinel.
struct SentinelNode {
    node: Arc<Node>,
    /// Triggers a poll.
    wake: Arc<Notify>,
    task: BackgroundTask,
}

struct State {
    views: Vec<SentinelReport>,
    primary: Option<Arc<Node>>,
    /// When a Sentinel last reported another primary than before.
    switched: Option<Instant>,
}

/// The last report of a Sentinel.
#[derive(Clone)]
enum SentinelReport {
    /// Nothing yet.
    Pending,
    /// The address of the primary.
    Primary(Box<str>),
    /// No report since this time.
    Failed(Failure, Instant),
}

/// The polling interval, in case an event is lost.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// How often a replica that is being promoted is asked for its role, and for how long.
const PROMOTION_EVERY: Duration = Duration::from_millis(20);
const PROMOTION_MAX: Duration = Duration::from_secs(10);

/// How long Sentinels may still report the old primary after a failover.
const SETTLE: Duration = Duration::from_secs(10);

impl Sentinel {
    /// Creates the service. `make_sentinels` creates the nodes of the Sentinels, `make` the node of
    /// a primary, `make_candidate` that of a replica.
    pub(crate) fn new(
        sentinels: Vec<Node>,
        service: &str,
        make: MakeNode,
        make_candidate: MakeNode,
        timing: Timing,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            let watch = |(index, node): (usize, Node)| {
                let this = Weak::clone(this);
                let node = node.on_event(Box::new(move |event| {
                    if let (Some(sentinel), NodeEvent::Failover(message)) = (this.upgrade(), event)
                    {
                        sentinel.switched(index, &message);
                    }
                }));
                SentinelNode {
                    node: Arc::new(node),
                    wake: Arc::default(),
                    task: BackgroundTask::default(),
                }
            };
            let watched: Vec<SentinelNode> = sentinels.into_iter().enumerate().map(watch).collect();
            let views = vec![SentinelReport::Pending; watched.len()];
            let this = Weak::clone(this);
            let make: MakeNode = Box::new(move |address| {
                let this = Weak::clone(&this);
                // A primary that closes its connections may have been demoted.
                let on_event = Box::new(move |event| {
                    if let (Some(sentinel), NodeEvent::Lost) = (this.upgrade(), event) {
                        sentinel.refresh_soon();
                    }
                });
                Ok(make(address)?.on_event(on_event))
            });
            Self {
                watched,
                service: service.into(),
                make,
                make_candidate,
                promotion: BackgroundTask::default(),
                timing,
                state: watch::Sender::new(State { views, primary: None, switched: None }),
                refresh_pace: RefreshPace::default(),
            }
        })
    }

    pub(crate) fn known(&self) -> Option<Arc<Node>> {
        self.state.borrow().primary.clone()
    }

    /// Returns `false` if the primary cannot be reached, or if no Sentinel has reported it.
    pub(crate) fn is_reachable(&self) -> bool {
        let state = self.state.borrow();
        let has_failed = |view: &SentinelReport| matches!(view, SentinelReport::Failed(..));
        match &state.primary {
            Some(primary) => !primary.is_unreachable(),
            None => !state.views.iter().all(has_failed),
        }
    }

    /// Returns the primary. Waits until a Sentinel reports it.
    ///
    /// # Errors
    ///
    /// Returns an error if no Sentinel does.
    pub(crate) async fn primary(self: &Arc<Self>, until: Instant) -> Result<Arc<Node>, Failure> {
        self.ensure_watched()?;
        if let Some(primary) = self.known() {
            return Ok(primary);
        }
        let mut state = self.state.subscribe();
        let is_known = |state: &State| {
            // After a while the caller waits for the next poll.
            let has_failed = |view: &SentinelReport| matches!(view, SentinelReport::Failed(_, at) if at.elapsed() < POLL_EVERY);
            state.primary.is_some() || state.views.iter().all(has_failed)
        };
        let late = || Failure::connecting("no Sentinel has reported the primary yet");
        let state = timeout_at(until, state.wait_for(is_known)).await;
        let Ok(Ok(state)) = state else {
            return Err(late());
        };
        let failure = state.views.iter().find_map(|view| match view {
            SentinelReport::Failed(failure, _) => Some(failure.clone()),
            SentinelReport::Pending | SentinelReport::Primary(_) => None,
        });
        state.primary.clone().ok_or_else(|| failure.unwrap_or_else(late))
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        request: Request<'_>,
        until: Instant,
    ) -> Result<(Value, Arc<Node>), Failure> {
        let primary = self.primary(until).await?;
        let result = primary.call(request, until).await;
        if result.as_ref().is_err_and(Failure::suggests_failover) {
            self.refresh_soon();
        }
        result.map(|value| (value, primary))
    }

    /// Polls all Sentinels immediately, unless that has just been done.
    fn refresh_soon(&self) {
        if self.refresh_pace.is_due(Instant::now()) {
            for watched in &self.watched {
                watched.wake.notify_one();
            }
        }
    }

    fn ensure_watched(self: &Arc<Self>) -> Result<(), Failure> {
        for (index, watched) in self.watched.iter().enumerate() {
            let wake = Arc::clone(&watched.wake);
            watched.task.ensure(|| watch(Arc::downgrade(self), index, wake))?;
        }
        Ok(())
    }

    /// Queries one Sentinel for the primary, and records the reply.
    async fn poll(&self, index: usize) {
        let Some(watched) = self.watched.get(index) else {
            return;
        };
        let view = match self.primary_seen_by(&watched.node).await {
            Ok(address) => SentinelReport::Primary(address.into()),
            Err(failure) => SentinelReport::Failed(failure, Instant::now()),
        };
        self.note(index, view);
    }

    async fn primary_seen_by(&self, sentinel: &Arc<Node>) -> Result<String, Failure> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&*self.service);
        let reply = sentinel.query(&command, self.timing.query_deadline()).await?;
        let unknown = || {
            let why = format!("{} knows no service {:?}", sentinel.address(), self.service);
            Failure::refused(DegradedReason::Unreachable, why)
        };
        let (host, port): (String, u16) = redis::from_redis_value(reply).map_err(|_| unknown())?;
        Ok(address_of(&host, &port.to_string()))
    }

    /// Handles a failover event of a Sentinel: the service, then host and port of the old and the
    /// new primary; or the replica that was selected for promotion, with its service.
    fn switched(self: &Arc<Self>, index: usize, message: &str) {
        let words: Vec<&str> = message.split(' ').collect();
        match words.as_slice() {
            [service, _, _, host, port] if **service == *self.service => {
                self.note(index, SentinelReport::Primary(address_of(host, port).into()));
            }
            ["slave", _, host, port, "@", service, ..] if **service == *self.service => {
                if let Ok(candidate) = (self.make_candidate)(&address_of(host, port)) {
                    let this = Arc::downgrade(self);
                    let candidate = Arc::new(candidate);
                    // Events arrive in a runtime.
                    let _ = self.promotion.ensure(|| await_promotion(this, index, candidate));
                }
            }
            _ => {}
        }
    }

    /// Uses a replica that was promoted. The Sentinels do not report it yet, so their reports of the old
    /// primary are ignored for a while.
    fn promoted(&self, index: usize, address: &str) {
        self.state.send_modify(|state| {
            state.switched = Some(Instant::now());
            self.adopt(state, index, address);
        });
    }

    /// Records the report of a Sentinel, and uses its primary if that is new.
    fn note(&self, index: usize, view: SentinelReport) {
        self.state.send_modify(|state| {
            let Some(seen) = state.views.get_mut(index) else {
                return;
            };
            let before = match &view {
                SentinelReport::Primary(_) => core::mem::replace(seen, view.clone()),
                // Its report before the failure still applies.
                SentinelReport::Pending | SentinelReport::Failed(..) => {
                    if !matches!(seen, SentinelReport::Primary(_)) {
                        *seen = view;
                    }
                    return;
                }
            };
            let SentinelReport::Primary(address) = view else {
                return;
            };
            let has_changed = matches!(before, SentinelReport::Primary(old) if old != address);
            if has_changed {
                state.switched = Some(Instant::now());
            }
            let is_settled = state.switched.is_none_or(|switched| switched.elapsed() > SETTLE);
            let agree = |view: &&SentinelReport| matches!(view, SentinelReport::Primary(other) if *other == address);
            let votes = state.views.iter().filter(agree).count();
            let is_majority = votes * 2 > state.views.len();
            if has_changed || state.primary.is_none() || (is_majority && is_settled) {
                self.adopt(state, index, &address);
            }
        });
    }

    /// Uses the primary at an address. A new address starts with a new breaker.
    fn adopt(&self, state: &mut State, index: usize, address: &str) {
        if state.primary.as_ref().is_some_and(|primary| primary.address() == address) {
            return;
        }
        match (self.make)(address) {
            Ok(primary) => {
                let primary = Arc::new(primary);
                primary.connect_soon();
                if let Some(old) = &state.primary {
                    events::switched(&self.service, old.address(), address);
                }
                state.primary = Some(primary);
            }
            Err(failure) => state.views[index] = SentinelReport::Failed(failure, Instant::now()),
        }
    }
}

/// Polls a Sentinel repeatedly, which also maintains its connection and the subscription.
async fn watch(sentinel: Weak<Sentinel>, index: usize, wake: Arc<Notify>) {
    while let Some(sentinel) = sentinel.upgrade() {
        sentinel.poll(index).await;
        drop(sentinel);
        // Woken, or the interval is over.
        let _ = timeout(POLL_EVERY, wake.notified()).await;
    }
}

/// Asks a replica for its role until it is a primary.
async fn await_promotion(sentinel: Weak<Sentinel>, index: usize, candidate: Arc<Node>) {
    let until = Instant::now() + PROMOTION_MAX;
    let role = redis::cmd("ROLE");
    while Instant::now() < until {
        let reply = candidate.query(&role, until).await;
        let Some(sentinel) = sentinel.upgrade() else { return };
        if matches!(
            &reply,
            Ok(Value::Array(parts)) if parts.first() == Some(&Value::BulkString(b"master".into()))
        ) {
            sentinel.promoted(index, candidate.address());
            return;
        }
        drop(sentinel);
        sleep(PROMOTION_EVERY).await;
    }
}

fn address_of(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentinels: Vec<&Node> = self.watched.iter().map(|watched| &*watched.node).collect();
        f.debug_struct("Sentinel")
            .field("sentinels", &sentinels)
            .field("service", &self.service)
            .field("primary", &self.known())
            .finish_non_exhaustive()
    }
}
