//! A policy with its store, tiers, rollout and metrics.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use slidegate::{
    Clock, Cost, Decision, DegradedReason, Error, ErrorKind, FailureMode, Outcome, Quota,
    QuotaDecision, Quotas, RetryAfter, Store, StoreFuture, StoreId, Target, Tier,
};

use crate::builder::{GateBuilder, LocalFallback};
use crate::counters::Counters;
use crate::metrics::Metrics;
use crate::observe::{Caller, GateOutcome, Observation, Observer, catch_panic};
use crate::rollout::{Rollout, Share};

/// A policy with its store, tiers, rollout and metrics. Every protocol calls a gate.
///
/// A gate is cheap to clone. Clones share the state and the counters.
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota};
/// use slidegate_gate::{Caller, Gate};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), slidegate::Error> {
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(10))?)?;
/// let gate = Gate::builder(limiter).tier("gold", [Quota::per_minute(1000)]).build()?;
///
/// let gold = gate.tier("gold");
/// let decided = gate.check(b"alice", gold, Cost::ONE, Caller::IN_PROCESS).await;
/// assert_eq!(decided.decision.remaining(), 999);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gate {
    pub(crate) name: Arc<str>,
    pub(crate) store: Arc<dyn Store>,
    /// The gate's quotas, if they differ from those of the store's policy.
    pub(crate) own: Option<Tier>,
    /// Identifies the tiers.
    pub(crate) id: StoreId,
    pub(crate) tiers: Arc<[(String, Tier)]>,
    pub(crate) rollout: Rollout,
    pub(crate) share: Share,
    pub(crate) candidate: Option<Arc<Candidate>>,
    /// Decides when the store fails and leaves the failure mode to the gate.
    pub(crate) local: Option<Arc<LocalFallback>>,
    pub(crate) secret_keys: bool,
    pub(crate) counters: Option<Arc<Counters>>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A policy that is evaluated for every request and never enforced.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) own: Option<Tier>,
}

/// The id of a tier of one gate: see [`Gate::tier`].
///
/// It works with the gate that returned it and with clones of that gate. Any other gate returns an
/// error, and [`Gate::check`] denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TierId {
    gate: StoreId,
    pub(crate) place: usize,
}

/// The result of a gate for a request.
#[derive(Debug)]
pub struct GateDecision {
    /// The decision to act on. A gate that is in shadow mode or switched off never denies.
    pub decision: Decision,
    /// The outcome of the request at this gate.
    pub outcome: GateOutcome,
    /// Whether the gate's denials are enforced for the key.
    pub is_enforced: bool,
    /// The decision of the candidate.
    pub candidate: Option<Box<Decision>>,
}

impl GateDecision {
    /// Returns whether this gate denied the request, or would have if it were enforced.
    pub fn is_over(&self) -> bool {
        self.outcome.is_rejected() || self.outcome == GateOutcome::ShadowDenied
    }
}

impl Gate {
    /// Returns a builder for a gate in front of a store.
    pub fn builder(store: impl slidegate::IntoStore) -> GateBuilder {
        GateBuilder::new(store.into_store())
    }

    /// Returns the name of the policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the quotas of a tier, or those of the gate. There are none for the tier of another gate.
    pub fn quotas(&self, tier: Option<TierId>) -> &[Quota] {
        match self.quotas_of(tier) {
            Some(Quotas::Tier(tier)) => tier.quotas(),
            Some(Quotas::Given(quotas)) => quotas,
            Some(Quotas::Policy) => self.store.policy().quotas(),
            None => &[],
        }
    }

    /// Returns the tier of this name.
    pub fn tier(&self, name: &str) -> Option<TierId> {
        let place = self.tiers.iter().position(|(known, _)| known == name)?;
        Some(TierId { gate: self.id, place })
    }

    /// Returns the name of a tier, or `None` for the tier of another gate.
    pub fn tier_name(&self, tier: TierId) -> Option<&str> {
        self.named_tier(tier).map(|(name, _)| name.as_str())
    }

    #[inline]
    fn named_tier(&self, tier: TierId) -> Option<&(String, Tier)> {
        if tier.gate == self.id { self.tiers.get(tier.place) } else { None }
    }

    /// Returns the names of all tiers.
    pub fn tier_names(&self) -> impl Iterator<Item = &str> {
        self.tiers.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether denials are enforced at all.
    pub fn rollout(&self) -> Rollout {
        self.rollout
    }

    /// Returns the share of keys for which denials are enforced.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Returns the value of the label `mode`.
    pub fn mode(&self) -> &'static str {
        match self.rollout {
            Rollout::Enforce if self.is_enforced_for_all() => "enforce",
            Rollout::Enforce => "percentage",
            Rollout::Shadow => "shadow",
            Rollout::Off => "off",
        }
    }

    /// Returns whether keys are secrets that must not be shown or logged.
    pub fn has_secret_keys(&self) -> bool {
        self.secret_keys
    }

    /// Returns the name of the candidate.
    pub fn candidate_name(&self) -> Option<&str> {
        self.candidate.as_ref().map(|candidate| candidate.store.policy().name())
    }

    /// Returns the counters, if the gate has metrics.
    pub fn counters(&self) -> Option<&Arc<Counters>> {
        self.counters.as_ref()
    }

    /// Returns whether keys stay in this process.
    pub fn is_in_process(&self) -> bool {
        let candidate = self.candidate.as_ref();
        self.store.in_process().is_some()
            && candidate.is_none_or(|candidate| candidate.store.in_process().is_some())
    }

    /// Returns whether denials are enforced for this key.
    #[inline]
    pub fn is_enforced(&self, key: &[u8]) -> bool {
        self.rollout == Rollout::Enforce && self.share.contains(&self.name, key)
    }

    /// Returns whether denials are enforced for every key. Only such a gate denies a request without a
    /// key, because such a request belongs to no share of the keys.
    pub fn is_enforced_for_all(&self) -> bool {
        self.rollout == Rollout::Enforce && self.share.is_all()
    }

    /// Returns the same gate with other quotas over the same state, and without tiers.
    ///
    /// # Errors
    ///
    /// Returns an error if the quotas do not fit the policy.
    pub fn with_quotas(&self, quotas: &[Quota]) -> Result<Self, Error> {
        let own = Some(self.store.tier(quotas)?);
        let local = self.local.as_ref().map(|local| local.with_quotas(quotas)).transpose()?;
        let local = local.map(Arc::new);
        Ok(Self { own, tiers: Arc::from([]), candidate: None, local, ..self.clone() })
    }

    /// Adds an observer to a gate that has none.
    #[must_use]
    pub fn with_observer(mut self, observer: &Arc<dyn Observer>) -> Self {
        self.observer.get_or_insert_with(|| Arc::clone(observer));
        self
    }

    /// Registers a gate that has no metrics yet.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &Metrics) -> Self {
        if self.counters.is_none() {
            self.counters = Some(metrics.register(&self));
        }
        self
    }

    /// Measures the time of decisions by `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks the request, and takes the units if allowed. The future is ready immediately if the
    /// store is in memory.
    ///
    /// With a tier of another gate, an enforced gate denies, and no retry helps. The outcome is
    /// [`GateOutcome::ForeignTier`].
    #[inline]
    pub fn check<'a>(
        &'a self,
        key: &'a [u8],
        tier: Option<TierId>,
        cost: Cost,
        caller: Caller<'a>,
    ) -> StoreFuture<'a, GateDecision> {
        if let Some(decided) = self.check_in_process(key, tier, cost, caller) {
            return StoreFuture::ready(decided);
        }
        let request = Request { key, tier, cost, caller, began: self.now() };
        if self.rollout == Rollout::Off {
            return StoreFuture::ready(self.decide_off(&request));
        }
        let Ok(target) = self.target(key, tier) else {
            return StoreFuture::ready(self.refuse_tier(&request));
        };
        if self.must_refuse(key) {
            return StoreFuture::ready(self.refuse(&request));
        }
        if self.candidate.is_some() {
            return self.check_with_candidate(request, target);
        }
        match self.store.check(target, cost).try_now() {
            Ok(result) => StoreFuture::ready(self.conclude_result(&request, result, None)),
            Err(pending) => StoreFuture::pending(async move {
                let result = pending.await;
                self.conclude_result(&request, result, None)
            }),
        }
    }

    /// Checks the request if the store is in this process, there is no candidate, and the gate is
    /// not switched off. Otherwise returns `None` and does nothing.
    ///
    /// This is [`check`](Gate::check) without a future: a decision is large, and a future around it
    /// is moved several times.
    #[inline]
    pub fn check_in_process(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
        caller: Caller<'_>,
    ) -> Option<GateDecision> {
        if self.candidate.is_some() || self.rollout == Rollout::Off || self.must_refuse(key) {
            return None;
        }
        let limiter = self.store.in_process()?;
        let request = Request { key, tier, cost, caller, began: self.now() };
        let decision = match self.quotas_of(tier)? {
            Quotas::Policy => limiter.check_cost(key, cost),
            quotas => limiter.with(quotas).ok()?.check_cost(key, cost),
        };
        Some(self.conclude(&request, decision, None))
    }

    #[cold]
    fn check_with_candidate<'a>(
        &'a self,
        request: Request<'a>,
        target: Target<'a>,
    ) -> StoreFuture<'a, GateDecision> {
        let Request { key, cost, .. } = request;
        let candidate = match self.ask_candidate(key, cost).try_now() {
            Ok(candidate) => candidate,
            Err(pending) => {
                return StoreFuture::pending(async move {
                    let candidate = pending.await;
                    let result = self.store.check(target, cost).await;
                    self.conclude_result(&request, result, candidate)
                });
            }
        };
        match self.store.check(target, cost).try_now() {
            Ok(result) => StoreFuture::ready(self.conclude_result(&request, result, candidate)),
            Err(pending) => StoreFuture::pending(async move {
                let result = pending.await;
                self.conclude_result(&request, result, candidate)
            }),
        }
    }

    /// Returns the outcome of a decision of this gate alone.
    pub(crate) fn outcome_of(&self, decision: &Decision) -> GateOutcome {
        if decision.is_shadow_denied() {
            GateOutcome::ShadowDenied
        } else if decision.is_allowed() {
            GateOutcome::Allowed
        } else if decision.is_degraded() && self.store.policy().failure_mode() == FailureMode::Deny
        {
            GateOutcome::StoreFailed
        } else {
            GateOutcome::Denied
        }
    }

    /// Evaluates the candidate. It sees every request, also those that the gate denies.
    pub(crate) fn ask_candidate<'a>(
        &'a self,
        key: &'a [u8],
        cost: Cost,
    ) -> StoreFuture<'a, Option<Box<Decision>>> {
        let Some(candidate) = &self.candidate else { return StoreFuture::ready(None) };
        match candidate.store.check(Target::new(key, candidate.own.as_ref()), cost).try_now() {
            Ok(result) => StoreFuture::ready(result.ok().map(Box::new)),
            Err(pending) => StoreFuture::pending(async move { pending.await.ok().map(Box::new) }),
        }
    }

    /// Lets the store decide, or the failure mode if the store fails.
    pub(crate) async fn check_store(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
    ) -> Decision {
        let Ok(target) = self.target(key, tier) else {
            return self.refusal(RetryAfter::Never);
        };
        let result = self.store.check(target, cost).await;
        result.unwrap_or_else(|_| self.decide_without_store(key, tier, cost))
    }

    /// Returns a key with the quotas of a tier, or those of the gate. Returns an error if the tier
    /// belongs to another gate.
    #[inline]
    pub(crate) fn target<'a>(
        &'a self,
        key: &'a [u8],
        tier: Option<TierId>,
    ) -> Result<Target<'a>, Error> {
        match self.quotas_of(tier) {
            Some(quotas) => Ok(Target { key, quotas }),
            None => Err(self.foreign_tier()),
        }
    }

    /// Returns `None` if the tier belongs to another gate.
    #[inline]
    fn quotas_of(&self, tier: Option<TierId>) -> Option<Quotas<'_>> {
        match tier {
            Some(tier) => self.named_tier(tier).map(|(_, tier)| Quotas::Tier(tier)),
            None => Some(self.own.as_ref().into()),
        }
    }

    #[cold]
    fn foreign_tier(&self) -> Error {
        let message = format!(
            "the tier belongs to another gate than {:?}: use Gate::tier of it",
            self.name()
        );
        Error::new(ErrorKind::Setting, message)
    }

    /// Returns the decision of a gate that limits nothing: everything remains.
    pub(crate) fn unlimited(&self, tier: Option<TierId>) -> Decision {
        let whole = |quota: &Quota| {
            let limit = quota.limit();
            QuotaDecision::new(limit, limit, RetryAfter::Now, Duration::ZERO)
        };
        let quotas: Vec<_> = self.quotas(tier).iter().map(whole).collect();
        Decision::new(Outcome::Allow, &quotas, None)
    }

    /// Returns whether a request must be denied because its decision could not be recorded.
    #[inline]
    pub(crate) fn must_refuse(&self, key: &[u8]) -> bool {
        let observer = self.observer.as_ref();
        observer.is_some_and(|observer| !observer.can_record()) && self.is_enforced(key)
    }

    /// Returns the denial of a request that is not evaluated.
    pub(crate) fn refusal(&self, retry_after: RetryAfter) -> Decision {
        let reset_after = retry_after.duration().unwrap_or_default();
        let none = |quota: &Quota| QuotaDecision::new(quota.limit(), 0, retry_after, reset_after);
        let quotas: Vec<_> = self.quotas(None).iter().map(none).collect();
        Decision::new(Outcome::Deny, &quotas, None)
    }

    /// Denies a request whose decision could not be recorded.
    #[cold]
    fn refuse(&self, request: &Request<'_>) -> GateDecision {
        let decided = GateDecision {
            decision: self.refusal(REFUSED_FOR),
            outcome: GateOutcome::Unrecorded,
            is_enforced: true,
            candidate: None,
        };
        self.report(request, &decided);
        decided
    }

    /// Denies a request with the tier of another gate, if denials are enforced.
    #[cold]
    fn refuse_tier(&self, request: &Request<'_>) -> GateDecision {
        let is_enforced = self.is_enforced(request.key);
        let decision = self.refusal(RetryAfter::Never);
        let decided = GateDecision {
            decision: if is_enforced { decision } else { decision.into_shadow() },
            outcome: if is_enforced { GateOutcome::ForeignTier } else { GateOutcome::ShadowDenied },
            is_enforced,
            candidate: None,
        };
        self.report(request, &decided);
        decided
    }

    #[inline]
    pub(crate) fn observe(&self, observation: &Observation<'_>) {
        if let Some(counters) = &self.counters {
            counters.add(observation);
        }
        if let Some(observer) = &self.observer {
            catch_panic(|| observer.decided(observation));
        }
    }

    /// Returns the time, or zero if it is not needed.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.is_observed() { self.clock.now() } else { 0 }
    }

    #[inline]
    pub(crate) fn since(&self, began: u64) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(began))
    }

    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.counters.is_some() || self.observer.is_some()
    }

    #[cold]
    fn decide_off(&self, request: &Request<'_>) -> GateDecision {
        let decided = GateDecision {
            decision: self.unlimited(request.tier),
            outcome: GateOutcome::Off,
            is_enforced: false,
            candidate: None,
        };
        self.report(request, &decided);
        decided
    }

    fn conclude_result(
        &self,
        request: &Request<'_>,
        result: Result<Decision, Error>,
        candidate: Option<Box<Decision>>,
    ) -> GateDecision {
        let Request { key, tier, cost, .. } = *request;
        let decision = result.unwrap_or_else(|_| self.decide_without_store(key, tier, cost));
        self.conclude(request, decision, candidate)
    }

    /// Applies the rollout to a decision, counts it and reports it.
    #[inline]
    fn conclude(
        &self,
        request: &Request<'_>,
        mut decision: Decision,
        candidate: Option<Box<Decision>>,
    ) -> GateDecision {
        let is_enforced = self.is_enforced(request.key);
        if !is_enforced {
            decision = decision.into_shadow();
        }
        let outcome = self.outcome_of(&decision);
        let decided = GateDecision { decision, outcome, is_enforced, candidate };
        if self.is_observed() {
            self.report(request, &decided);
        }
        decided
    }

    fn report(&self, request: &Request<'_>, decided: &GateDecision) {
        self.observe(&Observation {
            gate: self,
            key: request.key,
            tier: request.tier,
            cost: request.cost,
            decision: Some(&decided.decision),
            outcome: decided.outcome,
            is_degraded: decided.decision.is_degraded(),
            has_waited: false,
            candidate_denies: decided.candidate.as_deref().map(would_deny),
            took: self.since(request.began),
            caller: request.caller,
        });
    }

    #[cold]
    fn decide_without_store(&self, key: &[u8], tier: Option<TierId>, cost: Cost) -> Decision {
        match &self.local {
            Some(local) => {
                local.with(tier).check_cost(key, cost).into_degraded(DegradedReason::Other)
            }
            None => self.failure_decision(),
        }
    }

    pub(crate) fn failure_decision(&self) -> Decision {
        let denies = self.store.policy().failure_mode() == FailureMode::Deny;
        let outcome = if denies { Outcome::Deny } else { Outcome::Allow };
        Decision::new(outcome, &[], None).into_degraded(DegradedReason::Other)
    }
}

/// When to try again after a request whose decision could not be recorded.
pub(crate) const REFUSED_FOR: RetryAfter = RetryAfter::After(Duration::from_secs(1));

/// Returns whether a candidate's decision would deny the request if it were enforced.
pub(crate) fn would_deny(decision: &Decision) -> bool {
    !decision.is_allowed() || decision.is_shadow_denied()
}

/// A request to one gate.
#[derive(Clone, Copy)]
struct Request<'a> {
    key: &'a [u8],
    tier: Option<TierId>,
    cost: Cost,
    caller: Caller<'a>,
    /// When the request arrived, if it is needed.
    began: u64,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("name", &self.name)
            .field("mode", &self.mode())
            .field("tiers", &self.tiers.len())
            .field("candidate", &self.candidate_name())
            .finish_non_exhaustive()
    }
}
