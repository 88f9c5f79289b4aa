//! How a layer is made.

use core::fmt;
use core::sync::atomic::AtomicUsize;
use std::sync::Arc;

use slidegate::{Clock, Error, ErrorKind, Mode, MonotonicClock};
use slidegate_http::{Fields, PolicyFields, Reset};

use super::RateLimitLayer;
use crate::answer::Http;
use crate::gate::Gate;
use crate::head::Head;
use crate::judge::{Judge, Plain, TraceId};
use crate::key::Digest;
use crate::observe::Observer;
use crate::store::Place;
use crate::waiting::Waiting;

/// Builds a [`RateLimitLayer`].
///
/// | setting | default |
/// |---|---|
/// | [`fields`](Self::fields) | [`Fields::new`] |
/// | [`answer`](Self::answer) | [`Http`], with `application/problem+json` |
/// | [`wait`](Self::wait) | nobody waits: who is over the limit is denied |
/// | [`trace_id`](Self::trace_id) | from the field `traceparent` |
/// | [`secret`](Self::secret) | random, which does for memory |
/// | [`clock`](Self::clock) | [`MonotonicClock::precise`] |
/// | [`observer`](Self::observer) | nobody |
#[must_use = "call `build` to get a layer"]
pub struct RateLimitLayerBuilder<A = Http> {
    gates: Vec<Gate>,
    fields: Option<Fields>,
    answer: A,
    waiting: Option<Waiting>,
    observer: Option<Arc<dyn Observer>>,
    trace_id: Option<Box<TraceId>>,
    secret: Option<[u8; 16]>,
    clock: Option<Box<dyn Clock>>,
}

/// The most gates of a layer.
const GATES_MAX: usize = 16;

impl RateLimitLayerBuilder {
    pub(super) fn new() -> Self {
        Self {
            gates: Vec::new(),
            fields: Some(Fields::new()),
            answer: Http::new(),
            waiting: None,
            observer: None,
            trace_id: None,
            secret: None,
            clock: None,
        }
    }
}

impl<A> RateLimitLayerBuilder<A> {
    /// Adds a gate. A request takes units at all gates that are for it, or at none.
    ///
    /// Where all count in memory, or all in one Redis, that is one step. Otherwise they are asked
    /// in turn, and what was taken goes back when one denies.
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gates.push(gate);
        self
    }

    /// Which header fields responses carry; `None` for none but `Retry-After` and
    /// `Cache-Control: no-store` on denials.
    pub fn fields(mut self, fields: impl Into<Option<Fields>>) -> Self {
        self.fields = fields.into();
        self
    }

    /// Who makes the responses of requests that are turned away.
    pub fn answer<B>(self, answer: B) -> RateLimitLayerBuilder<B> {
        RateLimitLayerBuilder {
            gates: self.gates,
            fields: self.fields,
            answer,
            waiting: self.waiting,
            observer: self.observer,
            trace_id: self.trace_id,
            secret: self.secret,
            clock: self.clock,
        }
    }

    /// Answers as gRPC clients understand it.
    #[cfg(feature = "tonic")]
    pub fn grpc(self) -> RateLimitLayerBuilder<crate::answer::Grpc> {
        self.answer(crate::answer::Grpc)
    }

    /// Lets requests wait for units instead of denying them.
    pub fn wait(mut self, waiting: Waiting) -> Self {
        self.waiting = Some(waiting);
        self
    }

    /// Who is told what the gates do.
    pub fn observer(mut self, observer: Arc<impl Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Finds the trace that a denied request belongs to, from a tracer of the program's for
    /// example. Where it answers `None`, the field `traceparent` is read.
    pub fn trace_id(
        mut self,
        find: impl Fn(&Head<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.trace_id = Some(Box::new(find));
        self
    }

    /// The secret under which parts of keys are hashed that are secret or above 256 bytes. All
    /// processes that share a store need the same; 16 random bytes, kept as other credentials are.
    pub fn secret(mut self, secret: [u8; 16]) -> Self {
        self.secret = Some(secret);
        self
    }

    /// The clock that decisions are timed by and that `X-RateLimit-Reset` is told by. Limiters
    /// have a clock of their own; a test gives the same [`ManualClock`](slidegate::ManualClock) to
    /// both.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Checks everything and makes the layer.
    ///
    /// # Errors
    ///
    /// When there is no gate or more than 16, a key has more than eight parts or names a header
    /// field that cannot be, a percentage is above 100, or keys that may have to be hashed go to
    /// a shared store and there is no secret.
    pub fn build(self) -> Result<RateLimitLayer<A>, Error> {
        let count = self.gates.len();
        if count == 0 || count > GATES_MAX {
            let message = format!("number of gates {count} is out of range: use 1 to {GATES_MAX}");
            return Err(Error::new(ErrorKind::Setting, message));
        }
        for gate in &self.gates {
            gate.check(self.secret.is_some())?;
        }
        let judge = Judge {
            plain: plain(&self.gates, self.fields).filter(|_| self.observer.is_none()),
            is_memory: self.gates.iter().all(Gate::is_memory),
            gates: self.gates,
            digest: self.secret.map_or_else(Digest::random, |secret| Digest::new(&secret)),
            tells_time: self
                .fields
                .is_some_and(|fields| fields == fields.x_ratelimit(Reset::Epoch)),
            fields: self.fields,
            clock: self.clock.unwrap_or_else(|| Box::new(MonotonicClock::precise())),
            waiting: self.waiting,
            waiters: Arc::new(AtomicUsize::new(0)),
            observer: self.observer,
            trace_id: self.trace_id,
            #[cfg(feature = "tracing")]
            events: crate::observe::Events::default(),
        };
        Ok(RateLimitLayer { judge: Arc::new(judge), answer: self.answer })
    }
}

/// What the short way needs, if it will do: an allowance is all that has to be known.
fn plain(gates: &[Gate], fields: Option<Fields>) -> Option<Plain> {
    let [gate] = gates else { return None };
    let Place::Memory(limiter) = &gate.store().0 else { return None };
    let policy = limiter.policy();
    let simple = gate.candidate_store().is_none()
        && gate.counting().is_all()
        && gate.share().is_all()
        && policy.mode() == Mode::Enforce;
    // With several quotas a decision is too large to be kept by the short way.
    let is_by_peer = gate.is_by_peer() && policy.quotas().len() == 1;
    let fields = fields.and_then(|fields| PolicyFields::new(fields, policy));
    simple.then(|| Plain { limiter: Arc::clone(limiter), is_by_peer, fields })
}

impl<A> fmt::Debug for RateLimitLayerBuilder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayerBuilder")
            .field("gates", &self.gates)
            .field("fields", &self.fields)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
