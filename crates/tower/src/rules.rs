//! All rules of a layer, and what they make of a request.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use slidegate::{Clock, Decision, Outcome, QuotaDecision, RetryAfter};
use slidegate_gate::{
    Ask, Caller, Decided, GateOutcome, Rollout, TierId, Waiting, catch_panic, check_all,
};
use slidegate_http::{Fields, PolicyDecision, PolicyFields, Problem, TraceParent};

use crate::answer::Denial;
use crate::count::Served;
use crate::head::Head;
use crate::key::{Digest, KeyBytes};
use crate::rule::{Rule, RuleAsk, Unasked};

/// All rules of a layer, shared by its services.
pub(crate) struct LayerRules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) digest: Digest,
    pub(crate) fields: Option<Fields>,
    /// Precomputed fields, for the only rule if its policy has one quota.
    pub(crate) policy_fields: Option<PolicyFields>,
    /// Whether the fields contain a time of day, so that the clock must be read.
    pub(crate) needs_time: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) trace_id: Option<Box<TraceId>>,
    /// Whether every store is in this process.
    pub(crate) is_in_process: bool,
}

/// Finds the trace that a request belongs to.
pub(crate) type TraceId = dyn Fn(&Head<'_>) -> Option<String> + Send + Sync;

/// What to do with a request.
pub(crate) enum Next {
    Serve(Passed),
    Reject(Box<Denial>),
    /// Wait until this is ready.
    Wait(Pending),
}

pub(crate) type Pending = Pin<Box<dyn Future<Output = Result<Passed, Box<Denial>>> + Send>>;

/// What is kept of the decisions while a request is served.
pub(crate) enum Passed {
    /// No enforced rule applied.
    Nothing,
    /// The only rule's only quota, to be written into the response.
    One {
        quota: QuotaDecision,
        tier: Option<TierId>,
    },
    Many(Vec<RuleDecided>),
}

/// What the gate of one rule decided.
pub(crate) struct RuleDecided {
    rule: usize,
    tier: Option<TierId>,
    decided: Decided,
    /// Kept if the units may have to be returned.
    key: Option<Box<KeyBytes>>,
}

impl LayerRules {
    /// Decides about a request.
    #[inline]
    pub(crate) fn decide(self: &Arc<Self>, head: &Head<'_>) -> Next {
        match &self.rules[..] {
            // The common case needs no list and no future.
            [rule] if self.is_in_process && self.waiting.is_none() && !rule.may_uncount() => {
                match rule.translate(head, &self.digest) {
                    Ok(ask) => self.decide_one(rule, &ask, head),
                    Err(unasked) => {
                        let denial = self.reject(rule, unasked, head);
                        denial.map_or(Next::Serve(Passed::Nothing), Next::Reject)
                    }
                }
            }
            rules => self.decide_several(rules, head),
        }
    }

    #[inline]
    fn decide_one(self: &Arc<Self>, rule: &Rule, ask: &RuleAsk, head: &Head<'_>) -> Next {
        let RuleAsk { key, cost, tier } = ask;
        match rule.gate.check_in_process(key.as_slice(), *tier, *cost, Caller::IN_PROCESS) {
            Some(decided) if decided.decision.is_allowed() => Next::Serve(passed(decided, *tier)),
            Some(decided) => {
                let decided = RuleDecided { rule: 0, tier: *tier, decided, key: None };
                Next::Reject(Box::new(self.denial(&[decided], self.trace_id(head))))
            }
            // With a candidate, or switched off.
            None => self.decide_later(vec![(0, ask.clone())], head),
        }
    }

    #[cold]
    fn decide_several(self: &Arc<Self>, rules: &[Rule], head: &Head<'_>) -> Next {
        let mut asks = Vec::with_capacity(rules.len());
        for (index, rule) in rules.iter().enumerate() {
            match rule.translate(head, &self.digest) {
                Ok(ask) => asks.push((index, ask)),
                Err(unasked) => {
                    if let Some(denial) = self.reject(rule, unasked, head) {
                        return Next::Reject(denial);
                    }
                }
            }
        }
        if asks.is_empty() {
            return Next::Serve(Passed::Nothing);
        }
        self.decide_later(asks, head)
    }

    fn decide_later(self: &Arc<Self>, asks: Vec<(usize, RuleAsk)>, head: &Head<'_>) -> Next {
        let mut pending: Pending = Box::pin(Arc::clone(self).decide_all(asks, self.trace_id(head)));
        if !self.is_in_process {
            return Next::Wait(pending);
        }
        // Stores in memory are ready at once. If not, the request waits for units, and the first
        // poll by the service registers its waker.
        match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(passed)) => Next::Serve(passed),
            Poll::Ready(Err(denial)) => Next::Reject(denial),
            Poll::Pending => Next::Wait(pending),
        }
    }

    async fn decide_all(
        self: Arc<Self>,
        asks: Vec<(usize, RuleAsk)>,
        trace_id: Option<String>,
    ) -> Result<Passed, Box<Denial>> {
        let gate_asks: Vec<Ask<'_>> = asks
            .iter()
            .map(|(rule, RuleAsk { key, cost, tier })| Ask {
                gate: &self.rules[*rule].gate,
                key: key.as_slice(),
                tier: *tier,
                cost: *cost,
            })
            .collect();
        let decided = check_all(&gate_asks, self.waiting.as_ref(), Caller::IN_PROCESS).await;
        drop(gate_asks);
        let decided: Vec<RuleDecided> = asks
            .into_iter()
            .zip(decided)
            .map(|((rule, RuleAsk { key, tier, .. }), decided)| {
                let key = self.rules[rule].may_uncount().then(|| Box::new(key));
                RuleDecided { rule, tier, decided, key }
            })
            .collect();
        if decided.iter().any(RuleDecided::is_denied) {
            return Err(Box::new(self.denial(&decided, trace_id)));
        }
        Ok(Passed::Many(decided))
    }

    #[cold]
    fn denial(&self, decided: &[RuleDecided], trace_id: Option<String>) -> Denial {
        let judged = self.enforced(decided);
        let denied = decided.iter().filter(|decided| decided.is_denied());
        let retry_after = denied
            .map(|decided| decided.decided.decision.retry_after())
            .max()
            .and_then(RetryAfter::duration);
        let mut problem = Problem::of(&judged).unwrap_or_else(Problem::store_failed);
        if let Some(id) = trace_id {
            problem = problem.trace_id(&id);
        }
        let fields = self.fields.unwrap_or(Fields::none().retry_after(true));
        let pairs = fields.pairs(&judged, self.system_time());
        Denial::of(problem, retry_after).with_fields(pairs)
    }

    /// The decisions that are enforced for the client, which are those it may see.
    fn enforced<'a>(&'a self, decided: &'a [RuleDecided]) -> Vec<PolicyDecision<'a>> {
        let enforced = decided.iter().filter(|decided| decided.decided.is_enforced);
        enforced
            .map(|decided| self.judged(decided.rule, decided.tier, &decided.decided.decision))
            .collect()
    }

    fn judged<'a>(
        &'a self,
        rule: usize,
        tier: Option<TierId>,
        decision: &'a Decision,
    ) -> PolicyDecision<'a> {
        let gate = &self.rules[rule].gate;
        PolicyDecision::new(gate.store().policy(), decision).quotas(gate.quotas(tier))
    }

    /// Writes where the quotas stand into an allowed response. A response that an inner service
    /// rejected already says why, and is left as it is.
    #[inline]
    pub(crate) fn write<R>(&self, passed: &Passed, response: &mut Response<R>) {
        let denied = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if denied.contains(&response.status()) || response.headers().contains_key(&DENIAL_FIELD) {
            return;
        }
        self.write_fields(passed, response.headers_mut());
    }

    #[inline]
    fn write_fields(&self, passed: &Passed, headers: &mut HeaderMap) {
        if let (Passed::One { quota, tier: None }, Some(fields)) = (passed, &self.policy_fields)
            && fields.write(quota, self.system_time(), headers)
        {
            return;
        }
        let Some(fields) = self.fields else { return };
        match passed {
            Passed::Nothing => {}
            Passed::One { quota, tier } => {
                let decision = Decision::new(Outcome::Allow, &[*quota], None);
                fields.write(&[self.judged(0, *tier, &decision)], self.system_time(), headers);
            }
            Passed::Many(decided) => {
                fields.write(&self.enforced(decided), self.system_time(), headers);
            }
        }
    }

    /// The time of day by the layer's clock, or the epoch if no field contains it.
    fn system_time(&self) -> SystemTime {
        if !self.needs_time {
            return SystemTime::UNIX_EPOCH;
        }
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.clock.now())
    }

    fn trace_id(&self, head: &Head<'_>) -> Option<String> {
        let mut found = None;
        if let Some(find) = &self.trace_id {
            catch_panic(|| found = find(head));
        }
        found.or_else(|| TraceParent::of(head.headers()).map(|parent| parent.trace_id().to_owned()))
    }

    /// Returns the rejection of a request that the gate was not asked about; `None` if it passes.
    #[cold]
    fn reject(&self, rule: &Rule, unasked: Unasked, head: &Head<'_>) -> Option<Box<Denial>> {
        let gate = &rule.gate;
        // Without a key it is unknown whether the request is in the share.
        let is_enforced = gate.rollout() == Rollout::Enforce && gate.share().is_all();
        let (denial, outcome) = match unasked {
            Unasked::Skip => return None,
            Unasked::NoKey if is_enforced => (Denial::no_key(), GateOutcome::NoKey),
            Unasked::NoKey => (Denial::no_key(), GateOutcome::ShadowDenied),
            // A mistake in the server's setup is reported even in shadow mode.
            Unasked::NoPeer => (Denial::no_peer(), GateOutcome::NoPeer),
            Unasked::Panicked => return self.fail(rule, head),
        };
        gate.observe_without_key(outcome, false, Caller::IN_PROCESS);
        is_enforced.then(|| Box::new(denial))
    }

    /// Applies the failure mode to a request for which a user's function panicked.
    fn fail(&self, rule: &Rule, head: &Head<'_>) -> Option<Box<Denial>> {
        let decision = rule.gate.decide_failed();
        let outcome = match (decision.is_allowed(), decision.is_shadow_denied()) {
            (true, false) => GateOutcome::Allowed,
            (true, true) => GateOutcome::ShadowDenied,
            (false, _) => GateOutcome::StoreFailed,
        };
        rule.gate.observe_without_key(outcome, true, Caller::IN_PROCESS);
        if decision.is_allowed() {
            return None;
        }
        let mut problem = Problem::store_failed().retry_after(Duration::from_secs(1));
        if let Some(id) = self.trace_id(head) {
            problem = problem.trace_id(&id);
        }
        Some(Box::new(Denial::of(problem, Some(Duration::from_secs(1)))))
    }
}

/// Looked up in every response; a constant would be copied each time.
static DENIAL_FIELD: HeaderName = RETRY_AFTER;

/// What is kept of a decision of the only rule, whose units are never returned.
#[inline]
fn passed(decided: Decided, tier: Option<TierId>) -> Passed {
    if !decided.is_enforced {
        return Passed::Nothing;
    }
    match decided.decision.quotas() {
        [quota] => Passed::One { quota: *quota, tier },
        _ => Passed::Many(vec![RuleDecided { rule: 0, tier, decided, key: None }]),
    }
}

impl Passed {
    /// Returns whether nothing is left to do after the response.
    #[inline]
    pub(crate) fn is_done(&self, rules: &LayerRules) -> bool {
        match self {
            Self::Nothing => true,
            Self::One { .. } => rules.fields.is_none(),
            Self::Many(_) => false,
        }
    }

    /// Returns for each decision whether the response counts, or `None` if all do.
    pub(crate) fn uncounted(&self, rules: &LayerRules, served: &Served<'_>) -> Option<Vec<bool>> {
        let Self::Many(decided) = self else { return None };
        let counts: Vec<bool> = decided.iter().map(|one| one.counts(rules, served)).collect();
        counts.contains(&false).then_some(counts)
    }

    /// Returns the units of responses that do not count. `counts` has an entry for each decision.
    pub(crate) async fn uncount(mut self, rules: &LayerRules, counts: &[bool]) -> Self {
        if let Self::Many(all) = &mut self {
            for (one, counts) in all.iter_mut().zip(counts) {
                if !counts && let Some(key) = one.key.take() {
                    let gate = &rules.rules[one.rule].gate;
                    gate.uncount(key.as_slice(), one.tier, &mut one.decided).await;
                }
            }
        }
        self
    }
}

impl RuleDecided {
    fn is_denied(&self) -> bool {
        self.decided.is_enforced && !self.decided.decision.is_allowed()
    }

    fn counts(&self, rules: &LayerRules, served: &Served<'_>) -> bool {
        // A function that panics has not said that the response does not count.
        let mut counts = true;
        if self.key.is_some() {
            catch_panic(|| counts = rules.rules[self.rule].count.counts(served));
        }
        counts
    }
}
