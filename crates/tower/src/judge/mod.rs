//! All gates of a layer, and what they make of a request.

mod decide;
mod decided;
mod wait;

use core::future::Future;
use core::net::IpAddr;
use core::pin::Pin;
use core::sync::atomic::AtomicUsize;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use slidegate::{Clock, Decision, Limiter, Mode};
use slidegate_http::{Fields, PolicyDecision, PolicyFields, Problem, TraceParent};

pub(crate) use decided::{Decided, Passed};

use crate::answer::Denial;
use crate::gate::{Ask, Asked, Gate, TierId};
use crate::head::Head;
use crate::key::Digest;
use crate::observe::{Enforcement, Happened, Judgement, Observer, tell};
use crate::store;
use crate::waiting::Waiting;

/// All gates of a layer, shared by its services.
pub(crate) struct Judge {
    pub(crate) gates: Vec<Gate>,
    pub(crate) digest: Digest,
    pub(crate) fields: Option<Fields>,
    /// Whether the fields tell a moment of the day, so that the clock must be read.
    pub(crate) tells_time: bool,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) waiters: Arc<AtomicUsize>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) trace_id: Option<Box<TraceId>>,
    /// The limiter of the only gate, if it is of the simplest kind, for which there is a short way.
    pub(crate) plain: Option<Plain>,
    /// Whether all that is asked is in this process.
    pub(crate) is_memory: bool,
    #[cfg(feature = "tracing")]
    pub(crate) events: crate::observe::Events,
}

/// One gate in memory that counts everything, and nobody watches.
pub(crate) struct Plain {
    pub(crate) limiter: Arc<Limiter>,
    /// Whether it asks for one unit by the peer's address.
    pub(crate) is_by_peer: bool,
    /// What the responses tell, as far as it is always the same.
    pub(crate) fields: Option<PolicyFields>,
}

/// Finds the trace that a request belongs to.
pub(crate) type TraceId = dyn Fn(&Head<'_>) -> Option<String> + Send + Sync;

/// What to do with a request.
pub(crate) enum Next {
    /// Serve it.
    Pass(Passed),
    /// Turn it away.
    Deny(Box<Denial>),
    /// Ask again when this is ready.
    Later(Pending),
}

pub(crate) type Pending = Pin<Box<dyn Future<Output = Result<Passed, Box<Denial>>> + Send>>;

/// What has to be known of a request after it is gone to the service.
struct About {
    started: u64,
    trace_id: Option<String>,
}

impl Judge {
    /// Who decides by the peer's address alone, if that is all there is to do, and the address.
    #[inline]
    pub(crate) fn plain_peer(&self, head: &Head<'_>) -> Option<(&Limiter, IpAddr)> {
        let plain = self.plain.as_ref().filter(|plain| plain.is_by_peer)?;
        Some((&plain.limiter, head.peer()?))
    }

    /// What to do with a request that did not pass by its peer's address.
    pub(crate) fn judge(self: &Arc<Self>, head: &Head<'_>) -> Next {
        if let Some(plain) = self.plain.as_ref().filter(|plain| !plain.is_by_peer)
            && let Some(passed) = self.judge_asking(plain, head)
        {
            return Next::Pass(passed);
        }
        self.judge_fully(head)
    }

    fn judge_asking(&self, plain: &Plain, head: &Head<'_>) -> Option<Passed> {
        let gate = self.gates.first()?;
        let Asked::Ask(ask) = gate.ask(0, head, &self.digest) else { return None };
        let tier = ask.tier.and_then(|id| gate.tier_of(id));
        let decision = store::check_memory(&plain.limiter, ask.key.as_slice(), tier, ask.cost);
        match Passed::one(&decision, ask.tier) {
            Some(passed) => Some(passed),
            None if decision.is_allowed() => {
                Some(Passed::Many(vec![Decided::plain(ask, decision)]))
            }
            None => None,
        }
    }

    #[cold]
    fn judge_fully(self: &Arc<Self>, head: &Head<'_>) -> Next {
        let started = self.now_if_watched();
        let mut asks = Vec::with_capacity(self.gates.len());
        for (index, gate) in self.gates.iter().enumerate() {
            match gate.ask(index, head, &self.digest) {
                Asked::Skip => {}
                Asked::Ask(ask) => asks.push(ask),
                Asked::Panicked => {
                    if let Some(denial) = self.panicked(gate, head, started) {
                        return Next::Deny(denial);
                    }
                }
                Asked::NoKey => {
                    if let Some(denial) = self.refuse(gate, Happened::NoKey, started) {
                        return Next::Deny(denial);
                    }
                }
                Asked::NoPeer => {
                    if let Some(denial) = self.refuse(gate, Happened::NoPeer, started) {
                        return Next::Deny(denial);
                    }
                }
            }
        }
        if asks.is_empty() {
            return Next::Pass(Passed::Nothing);
        }
        let about = About { started, trace_id: self.trace_id(head) };
        let mut pending: Pending = Box::pin(Arc::clone(self).decide_and_tell(asks, about));
        if !self.is_memory {
            return Next::Later(pending);
        }
        // Memory answers at once. If it does not, somebody waits for units, and is woken by
        // whoever polls next.
        match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(passed)) => Next::Pass(passed),
            Poll::Ready(Err(denial)) => Next::Deny(denial),
            Poll::Pending => Next::Later(pending),
        }
    }

    async fn decide_and_tell(
        self: Arc<Self>,
        asks: Vec<Ask>,
        about: About,
    ) -> Result<Passed, Box<Denial>> {
        let (decided, waited) = self.decide(asks).await;
        self.tell_all(&decided, waited, about.started);
        let denied =
            decided.iter().any(|decided| decided.enforced && !decided.decision.is_allowed());
        if denied {
            Err(Box::new(self.denial(&decided, about.trace_id)))
        } else {
            Ok(Passed::Many(decided))
        }
    }

    fn denial(&self, decided: &[Decided], trace_id: Option<String>) -> Denial {
        let judged = self.told(decided);
        let retry_after = decided
            .iter()
            .filter(|decided| decided.enforced && !decided.decision.is_allowed())
            .map(|decided| decided.decision.retry_after())
            .try_fold(Duration::ZERO, |longest, after| Some(longest.max(after?)));
        let mut problem = Problem::of(&judged).unwrap_or_else(Problem::store_failed);
        if let Some(id) = trace_id {
            problem = problem.trace_id(&id);
        }
        let fields = self.fields.unwrap_or(Fields::none().retry_after(true));
        let pairs = fields.pairs(&judged, self.system_time());
        Denial::of(problem, retry_after).with_fields(pairs)
    }

    /// The decisions that a client is told of: those that are enforced for it.
    fn told<'a>(&'a self, decided: &'a [Decided]) -> Vec<PolicyDecision<'a>> {
        let enforced = decided.iter().filter(|decided| decided.enforced);
        enforced.map(|decided| self.judged(decided.gate, decided.tier, &decided.decision)).collect()
    }

    fn judged<'a>(
        &'a self,
        gate: usize,
        tier: Option<TierId>,
        decision: &'a Decision,
    ) -> PolicyDecision<'a> {
        let gate = &self.gates[gate];
        let judged = PolicyDecision::new(gate.store().policy(), decision);
        match tier.and_then(|id| gate.tier_of(id)) {
            Some(tier) => judged.quotas(tier.quotas()),
            None => judged,
        }
    }

    /// Writes where the quotas stand into an allowed response. One that tells already why somebody
    /// further in turned the request away is left as it is.
    #[inline]
    pub(crate) fn write<R>(&self, passed: &Passed, response: &mut Response<R>) {
        let denied = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if denied.contains(&response.status()) || response.headers().contains_key(&TELLS_DENIAL) {
            return;
        }
        self.write_fields(passed, response.headers_mut());
    }

    #[inline]
    fn write_fields(&self, passed: &Passed, headers: &mut HeaderMap) {
        if let Passed::One { quota, tier: None } = passed
            && let Some(Plain { fields: Some(fields), .. }) = &self.plain
            && fields.write(quota, self.system_time(), headers)
        {
            return;
        }
        self.write_all_fields(passed, headers);
    }

    fn write_all_fields(&self, passed: &Passed, headers: &mut HeaderMap) {
        let Some(fields) = self.fields else { return };
        match passed {
            Passed::Nothing => {}
            Passed::One { quota, tier } => {
                let decision = Decision::new(slidegate::Outcome::Allow, &[*quota], None);
                fields.write(&[self.judged(0, *tier, &decision)], self.system_time(), headers);
            }
            Passed::Many(decided) => {
                fields.write(&self.told(decided), self.system_time(), headers);
            }
        }
    }

    /// The time of day, by the layer's clock; the epoch if no field tells it.
    fn system_time(&self) -> SystemTime {
        if !self.tells_time {
            return SystemTime::UNIX_EPOCH;
        }
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.clock.now())
    }

    fn trace_id(&self, head: &Head<'_>) -> Option<String> {
        let mut found = None;
        if let Some(find) = &self.trace_id {
            tell(|| found = find(head));
        }
        found.or_else(|| TraceParent::of(head.headers()).map(|parent| parent.trace_id().to_owned()))
    }

    /// What becomes of a request whose gate's functions panicked: what the policy says of failures.
    fn panicked(&self, gate: &Gate, head: &Head<'_>, started: u64) -> Option<Box<Denial>> {
        let decision = store::failed(gate.store().policy());
        let enforced = gate.share().is_all();
        let happened = happened(gate, &decision, enforced);
        self.tell_one(gate, happened, true, started);
        if decision.is_allowed() || !enforced {
            return None;
        }
        let mut problem = Problem::store_failed().retry_after(Duration::from_secs(1));
        if let Some(id) = self.trace_id(head) {
            problem = problem.trace_id(&id);
        }
        Some(Box::new(Denial::of(problem, Some(Duration::from_secs(1)))))
    }

    /// Turns a request away that cannot be counted, unless the gate denies nobody.
    fn refuse(&self, gate: &Gate, why: Happened, started: u64) -> Option<Box<Denial>> {
        // Without a key nobody can say whether it is among those that the policy is enforced for.
        let enforced = gate.store().policy().mode() != Mode::Shadow && gate.share().is_all();
        if !enforced {
            // A mistake of the server's stays loud: shadow mode would otherwise hide it.
            let told = if why == Happened::NoPeer { why } else { Happened::ShadowDenied };
            self.tell_one(gate, told, false, started);
            return None;
        }
        self.tell_one(gate, why, false, started);
        Some(Box::new(match why {
            Happened::NoPeer => Denial::no_peer(),
            _ => Denial::no_key(),
        }))
    }

    fn tell_one(&self, gate: &Gate, happened: Happened, degraded: bool, started: u64) {
        self.report(&Judgement {
            policy: gate.store().policy().name(),
            happened,
            enforcement: enforcement(gate),
            degraded,
            waited: false,
            candidate: None,
            took: self.since(started),
        });
    }

    fn tell_all(&self, decided: &[Decided], waited: bool, started: u64) {
        if !self.is_watched() {
            return;
        }
        let took = self.since(started);
        let someone_is_full = decided.iter().any(|decided| is_full(&decided.decision));
        for decided in decided {
            let gate = &self.gates[decided.gate];
            let candidate = gate.candidate_store().zip(decided.candidate.as_deref());
            self.report(&Judgement {
                policy: gate.store().policy().name(),
                happened: match happened(gate, &decided.decision, decided.enforced) {
                    // Denied together with others, though its own quotas had room.
                    Happened::Denied if someone_is_full && !is_full(&decided.decision) => {
                        Happened::DeniedByOther
                    }
                    happened => happened,
                },
                enforcement: enforcement(gate),
                degraded: decided.decision.is_degraded(),
                waited,
                candidate: candidate.map(|(store, decision)| {
                    let allowed = decision.is_allowed() && !decision.is_shadow_denied();
                    let would = if allowed { Happened::Allowed } else { Happened::Denied };
                    (store.policy().name(), would)
                }),
                took,
            });
        }
    }

    fn report(&self, judgement: &Judgement<'_>) {
        #[cfg(feature = "tracing")]
        if !matches!(judgement.happened, Happened::Allowed | Happened::DeniedByOther) {
            self.events.judged(judgement, self.clock.now());
        }
        if let Some(observer) = &self.observer {
            tell(|| observer.judged(judgement));
        }
    }

    fn is_watched(&self) -> bool {
        self.observer.is_some() || cfg!(feature = "tracing")
    }

    fn now_if_watched(&self) -> u64 {
        if self.observer.is_some() { self.clock.now() } else { 0 }
    }

    fn since(&self, started: u64) -> Duration {
        if self.observer.is_none() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.clock.now().saturating_sub(started))
    }
}

/// Looked for in every response: a constant would be copied each time.
static TELLS_DENIAL: HeaderName = RETRY_AFTER;

/// Whether it was denied for a quota of its own, or its store's failure.
fn is_full(decision: &Decision) -> bool {
    let has_room = decision.retry_after() == Some(Duration::ZERO) && !decision.is_degraded();
    !decision.is_allowed() && !has_room
}

fn enforcement(gate: &Gate) -> Enforcement {
    match gate.store().policy().mode() {
        Mode::Shadow => Enforcement::Shadow,
        _ if gate.share().is_all() => Enforcement::Enforce,
        _ => Enforcement::Canary,
    }
}

fn happened(gate: &Gate, decision: &Decision, enforced: bool) -> Happened {
    let would_pass = decision.is_allowed() && !decision.is_shadow_denied();
    let store_failed = decision.is_degraded()
        && gate.store().policy().failure_mode() == slidegate::FailureMode::Deny;
    match (would_pass, enforced && !decision.is_shadow_denied()) {
        (true, _) => Happened::Allowed,
        (false, false) => Happened::ShadowDenied,
        (false, true) if store_failed => Happened::StoreFailed,
        (false, true) => Happened::Denied,
    }
}
