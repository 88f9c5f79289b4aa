//! Builds a layer.

use core::fmt;
use std::sync::Arc;

use http::Response;
use slidegate::{Clock, Error, MonotonicClock};
use slidegate_gate::{Metrics, Observer, WaitOptions};
use slidegate_http::{Fields, PolicyFields, Reset};

use super::RateLimitLayer;
use crate::answer::{Denial, Http};
use crate::head::Head;
use crate::key::Digest;
use crate::rule::{Rule, refused};
use crate::rules::{LayerRules, TraceId};

/// Builds a [`RateLimitLayer`].
///
/// | setting | default |
/// |---|---|
/// | [`fields`](Self::fields) | [`Fields::new`] |
/// | [`answer`](Self::answer) | [`Http`], with `application/problem+json` |
/// | [`share_decision`](Self::share_decision) | off |
/// | [`wait`](Self::wait) | requests over the limit are denied |
/// | [`trace_id`](Self::trace_id) | from the field `traceparent` |
/// | [`secret`](Self::secret) | random, which is enough for stores in memory |
/// | [`clock`](Self::clock) | [`MonotonicClock::precise`] |
/// | [`observer`](Self::observer) | none |
#[must_use = "call `build` to get a layer"]
pub struct RateLimitLayerBuilder<A = Http> {
    rules: Vec<Rule>,
    fields: Option<Fields>,
    shares_decision: bool,
    answer: A,
    waiting: Option<WaitOptions>,
    observer: Option<Arc<dyn Observer>>,
    metrics: Option<Arc<Metrics>>,
    trace_id: Option<Box<TraceId>>,
    secret: Option<[u8; 16]>,
    clock: Option<Arc<dyn Clock>>,
}

/// The maximum number of rules of a layer.
const RULES_MAX: usize = 16;

impl RateLimitLayerBuilder {
    pub(super) fn new() -> Self {
        Self {
            rules: Vec::new(),
            fields: Some(Fields::new()),
            shares_decision: false,
            answer: Http::new(),
            waiting: None,
            observer: None,
            metrics: None,
            trace_id: None,
            secret: None,
            clock: None,
        }
    }
}

impl<A> RateLimitLayerBuilder<A> {
    /// Adds a rule. A request takes units from the gates of all rules that apply to it, or from
    /// none: see [`check_all`](slidegate_gate::check_all).
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets the header fields of responses. With `None`, only denials have fields: `Retry-After`
    /// and `Cache-Control: no-store`.
    pub fn fields(mut self, fields: impl Into<Option<Fields>>) -> Self {
        self.fields = fields.into();
        self
    }

    /// Creates the responses to denied requests with a function.
    ///
    /// `Retry-After`, `Cache-Control: no-store` and the other [fields](Denial::fields) are added to
    /// the response. Fields that the function sets are not replaced.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    /// use slidegate_tower::{RateLimitLayer, Rule};
    ///
    /// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100))?)?;
    /// let layer = RateLimitLayer::builder()
    ///     .rule(Rule::new(limiter))
    ///     .answer(|denial| {
    ///         let mut response = http::Response::new(format!("slow down: {}", denial.message()));
    ///         *response.status_mut() = denial.status();
    ///         response
    ///     })
    ///     .build()?;
    /// # let _ = layer;
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    pub fn answer<F, R>(self, answer: F) -> RateLimitLayerBuilder<F>
    where
        F: Fn(&Denial) -> Response<R>,
    {
        self.answer_with(answer)
    }

    /// Creates the responses to denied requests with an [`Answer`](crate::Answer), such as
    /// `Http::new().body(Body::Json)`. The fields are added as with [`answer`](Self::answer).
    pub fn answer_with<B>(self, answer: B) -> RateLimitLayerBuilder<B> {
        RateLimitLayerBuilder {
            rules: self.rules,
            fields: self.fields,
            shares_decision: self.shares_decision,
            answer,
            waiting: self.waiting,
            observer: self.observer,
            metrics: self.metrics,
            trace_id: self.trace_id,
            secret: self.secret,
            clock: self.clock,
        }
    }

    /// Responds to denied requests with gRPC statuses.
    #[cfg(feature = "tonic")]
    pub fn grpc(self) -> RateLimitLayerBuilder<crate::answer::Grpc> {
        self.answer_with(crate::answer::Grpc)
    }

    /// Inserts a [`RateLimitDecision`](crate::RateLimitDecision) into the extensions of every
    /// allowed request, so that its handler can read the decision and settle the units.
    ///
    /// Off by default, because it allocates memory for each request.
    pub fn share_decision(mut self) -> Self {
        self.shares_decision = true;
        self
    }

    /// Lets requests wait for units instead of denying them.
    pub fn wait(mut self, waiting: WaitOptions) -> Self {
        self.waiting = Some(waiting);
        self
    }

    /// Reports every decision to an observer, for gates that have none.
    pub fn observer(mut self, observer: Arc<impl Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Counts every decision, for gates that have no metrics.
    pub fn metrics(mut self, metrics: &Arc<Metrics>) -> Self {
        self.metrics = Some(Arc::clone(metrics));
        self
    }

    /// Sets a function that returns the trace id of a denied request, for example from a tracer. If
    /// it returns `None`, the field `traceparent` is read.
    pub fn trace_id(
        mut self,
        find: impl Fn(&Head<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.trace_id = Some(Box::new(find));
        self
    }

    /// Sets the secret with which parts of keys are hashed that are secret or longer than 256
    /// bytes. All processes that share a store need the same 16 random bytes, stored like other
    /// credentials.
    pub fn secret(mut self, secret: [u8; 16]) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Sets the clock for the time of decisions and for `X-RateLimit-Reset`. Limiters have a
    /// separate clock; a test passes the same [`ManualClock`](slidegate::ManualClock) to both.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Checks the settings and builds the layer.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no rule or more than 16, a key has more than eight parts or an
    /// invalid header field, or if keys that may have to be hashed go to a shared store and there
    /// is no secret.
    pub fn build(mut self) -> Result<RateLimitLayer<A>, Error> {
        let count = self.rules.len();
        if count == 0 || count > RULES_MAX {
            let message = format!("number of rules {count} is out of range: use 1 to {RULES_MAX}");
            return Err(refused(message));
        }
        let clock = self.clock.take().unwrap_or_else(|| Arc::new(MonotonicClock::precise()));
        let observer = self.observers(&clock);
        for rule in &mut self.rules {
            rule.validate(self.secret.is_some())?;
            let mut gate = rule.gate.clone().with_clock(Arc::clone(&clock));
            if let Some(observer) = &observer {
                gate = gate.with_observer(observer);
            }
            if let Some(metrics) = &self.metrics {
                gate = gate.with_metrics(metrics);
            }
            rule.gate = gate;
            rule.prepare();
        }
        let is_in_process = self.rules.iter().all(|rule| rule.gate.is_in_process());
        let shows_time =
            self.fields.is_some_and(|fields| fields == fields.x_ratelimit(Reset::Epoch));
        let keeps_nothing = !self.shares_decision && !self.rules.iter().any(Rule::keeps_decision);
        let rules = LayerRules {
            policy_fields: policy_fields(&self.rules, self.fields),
            is_in_process,
            is_plain: is_in_process && keeps_nothing && count == 1 && self.waiting.is_none(),
            shares_decision: self.shares_decision,
            rules: self.rules,
            digest: self.secret.map_or_else(Digest::random, |secret| Digest::new(&secret)),
            clock: shows_time.then_some(clock),
            fields: self.fields,
            waiting: self.waiting,
            trace_id: self.trace_id,
        };
        Ok(RateLimitLayer { rules: Arc::new(rules), answer: self.answer })
    }

    fn observers(&self, clock: &Arc<dyn Clock>) -> Option<Arc<dyn Observer>> {
        let observers = self.observer.iter().cloned();
        #[cfg(feature = "tracing")]
        let observers = {
            let events = slidegate_gate::TraceEvents::with_clock(Arc::clone(clock));
            observers.chain([Arc::new(events) as Arc<dyn Observer>])
        };
        #[cfg(not(feature = "tracing"))]
        let _ = clock;
        let observers: Vec<_> = observers.collect();
        (!observers.is_empty()).then(|| Arc::new(observers) as Arc<dyn Observer>)
    }
}

/// Returns the prepared fields of the only rule, if its responses have the same fields.
fn policy_fields(rules: &[Rule], fields: Option<Fields>) -> Option<PolicyFields> {
    let [rule] = rules else { return None };
    let policy = rule.gate.store().policy();
    fields
        .filter(|_| rule.gate.quotas(None) == policy.quotas())
        .and_then(|fields| PolicyFields::with_unit(fields, policy, &rule.unit))
}

impl<A> fmt::Debug for RateLimitLayerBuilder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayerBuilder")
            .field("rules", &self.rules)
            .field("fields", &self.fields)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
