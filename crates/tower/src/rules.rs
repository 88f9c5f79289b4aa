//! All rules of a layer.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::RETRY_AFTER;
use http::{Extensions, HeaderMap, HeaderName, Response, StatusCode};
use slidegate::{Clock, Decision, Outcome, QuotaDecision, RetryAfter};
use slidegate_gate::{
    Ask, Caller, GateDecision, GateOutcome, TierId, WaitOptions, catch_panic, check_all,
};
use slidegate_http::{Fields, PolicyDecision, PolicyFields, Problem, TraceParent};

use crate::answer::Denial;
use crate::count::Served;
use crate::decision::{RateLimitDecision, RuleDecided};
use crate::head::Head;
use crate::key::Digest;
use crate::rule::{Rule, RuleAsk, SkipReason};

/// All rules of a layer, shared by its services.
pub(crate) struct LayerRules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) digest: Digest,
    pub(crate) fields: Option<Fields>,
    /// Prepared fields, if there is one rule and its policy has one quota.
    pub(crate) policy_fields: Option<PolicyFields>,
    /// The clock, if the fields contain a time of day.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) waiting: Option<WaitOptions>,
    pub(crate) trace_id: Option<Box<TraceId>>,
    /// Whether every store is in this process.
    pub(crate) is_in_process: bool,
    /// Whether there is one rule, decided in this process without waiting, and only the numbers of
    /// its decision are needed afterwards.
    pub(crate) is_plain: bool,
    /// Whether handlers get the decisions.
    pub(crate) shares_decision: bool,
}

/// Returns the trace id of a request.
pub(crate) type TraceId = dyn Fn(&Head<'_>) -> Option<String> + Send + Sync;

/// The next step of a request.
pub(crate) enum Next {
    Serve(KeptDecisions),
    Reject(Box<Denial>),
    /// Wait until the future is ready.
    Wait(Pending),
}

pub(crate) type Pending = Pin<Box<dyn Future<Output = Result<KeptDecisions, Box<Denial>>> + Send>>;

/// The part of the decisions that is kept while a request is served.
pub(crate) enum KeptDecisions {
    /// No enforced rule applied.
    Nothing,
    /// The only quota of the only rule, to be written into the response.
    One {
        quota: QuotaDecision,
        tier: Option<TierId>,
    },
    Many(Vec<Arc<RuleDecided>>),
}

impl LayerRules {
    /// Decides about a request.
    #[inline]
    pub(crate) fn decide(self: &Arc<Self>, head: &Head<'_>) -> Next {
        match &self.rules[..] {
            // The common case needs no list and no future.
            [rule] if self.is_plain => match rule.translate(head, &self.digest) {
                Ok(ask) => self.decide_one(rule, &ask, head),
                Err(reason) => {
                    let denial = self.reject(rule, reason, head);
                    denial.map_or(Next::Serve(KeptDecisions::Nothing), Next::Reject)
                }
            },
            rules => self.decide_several(rules, head),
        }
    }

    #[inline]
    fn decide_one(self: &Arc<Self>, rule: &Rule, ask: &RuleAsk, head: &Head<'_>) -> Next {
        let RuleAsk { key, cost, tier, .. } = ask;
        match rule.gate.check_in_process(key.as_slice(), *tier, *cost, Caller::IN_PROCESS) {
            Some(decided) if decided.decision.is_allowed() => Next::Serve(passed(decided, *tier)),
            Some(decided) => {
                let decided = Arc::new(RuleDecided::new(0, *tier, decided));
                Next::Reject(Box::new(self.denial(&[decided], self.trace_id(head))))
            }
            // The gate has a candidate, is switched off, or must not decide.
            None => self.decide_later(vec![(0, ask.clone())], head),
        }
    }

    #[cold]
    fn decide_several(self: &Arc<Self>, rules: &[Rule], head: &Head<'_>) -> Next {
        let mut asks = Vec::with_capacity(rules.len());
        for (index, rule) in rules.iter().enumerate() {
            match rule.translate(head, &self.digest) {
                Ok(ask) => asks.push((index, ask)),
                Err(reason) => {
                    if let Some(denial) = self.reject(rule, reason, head) {
                        return Next::Reject(denial);
                    }
                }
            }
        }
        if asks.is_empty() {
            return Next::Serve(KeptDecisions::Nothing);
        }
        self.decide_later(asks, head)
    }

    fn decide_later(self: &Arc<Self>, asks: Vec<(usize, RuleAsk)>, head: &Head<'_>) -> Next {
        let mut pending: Pending = Box::pin(Arc::clone(self).decide_all(asks, self.trace_id(head)));
        if !self.is_in_process {
            return Next::Wait(pending);
        }
        // Stores in memory are ready immediately. Otherwise the request waits for units, and the
        // first poll by the service registers its waker.
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
    ) -> Result<KeptDecisions, Box<Denial>> {
        let gate_asks: Vec<Ask<'_>> = asks
            .iter()
            .map(|(rule, RuleAsk { key, cost, tier, .. })| Ask {
                gate: &self.rules[*rule].gate,
                key: key.as_slice(),
                tier: *tier,
                cost: *cost,
            })
            .collect();
        let Ok(decided) = check_all(&gate_asks, self.waiting.as_ref(), Caller::IN_PROCESS).await
        else {
            // The layer has fewer rules than the maximum, and each rule has checked its tier.
            return Err(Box::new(unchecked(trace_id)));
        };
        drop(gate_asks);
        let decided: Vec<Arc<RuleDecided>> = asks
            .into_iter()
            .zip(decided)
            .map(|((rule, RuleAsk { key, tier, partition_key, .. }), decided)| {
                let mut decided = RuleDecided::new(rule, tier, decided);
                let is_kept = self.shares_decision || self.rules[rule].may_uncount();
                decided.key = is_kept.then(|| Box::new(key));
                decided.partition_key = partition_key;
                Arc::new(decided)
            })
            .collect();
        if decided.iter().any(|decided| decided.is_denied()) {
            return Err(Box::new(self.denial(&decided, trace_id)));
        }
        Ok(KeptDecisions::Many(decided))
    }

    #[cold]
    fn denial(&self, decided: &[Arc<RuleDecided>], trace_id: Option<String>) -> Denial {
        let denied = decided.iter().filter(|decided| decided.is_denied());
        let retry_after = denied
            .map(|decided| decided.lock().decision.retry_after())
            .max()
            .and_then(RetryAfter::duration);
        let fields = self.fields.unwrap_or(Fields::none().retry_after(true));
        let (mut problem, pairs) = self.with_enforced(decided, |decisions| {
            let problem = Problem::of(decisions).unwrap_or_else(Problem::store_failed);
            (problem, fields.pairs(decisions, self.system_time()))
        });
        if let Some(id) = trace_id {
            problem = problem.trace_id(&id);
        }
        Denial::of(problem, retry_after).with_fields(pairs)
    }

    /// Calls a function with the decisions that are enforced for the client, which are those it may
    /// see.
    fn with_enforced<T>(
        &self,
        decided: &[Arc<RuleDecided>],
        call: impl FnOnce(&[PolicyDecision<'_>]) -> T,
    ) -> T {
        let locked: Vec<_> = decided.iter().map(|one| (one, one.lock())).collect();
        let enforced = locked.iter().filter(|(_, decided)| decided.is_enforced);
        let decisions: Vec<_> = enforced
            .map(|(one, decided)| {
                let decision = self.policy_decision(one.rule, one.tier, &decided.decision);
                match &one.partition_key {
                    Some(key) => decision.partition_key(key),
                    None => decision,
                }
            })
            .collect();
        call(&decisions)
    }

    fn policy_decision<'a>(
        &'a self,
        rule: usize,
        tier: Option<TierId>,
        decision: &'a Decision,
    ) -> PolicyDecision<'a> {
        let Rule { gate, unit, .. } = &self.rules[rule];
        let quotas = gate.quotas(tier);
        PolicyDecision::new(gate.store().policy(), decision).quotas(quotas).unit(unit)
    }

    /// Writes the status of the quotas into an allowed response. A rejection by an inner service is
    /// not changed.
    #[inline]
    pub(crate) fn write<R>(&self, passed: &KeptDecisions, response: &mut Response<R>) {
        let denied = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if denied.contains(&response.status()) || response.headers().contains_key(&DENIAL_FIELD) {
            return;
        }
        self.write_fields(passed, response.headers_mut());
    }

    #[inline]
    fn write_fields(&self, passed: &KeptDecisions, headers: &mut HeaderMap) {
        if let (KeptDecisions::One { quota, tier: None }, Some(fields)) =
            (passed, &self.policy_fields)
            && fields.write(quota, self.system_time(), headers)
        {
            return;
        }
        let Some(fields) = self.fields else { return };
        match passed {
            KeptDecisions::Nothing => {}
            KeptDecisions::One { quota, tier } => {
                let decision = Decision::new(Outcome::Allow, &[*quota], None);
                let decision = self.policy_decision(0, *tier, &decision);
                fields.write(&[decision], self.system_time(), headers);
            }
            KeptDecisions::Many(decided) => {
                self.with_enforced(decided, |decisions| {
                    fields.write(decisions, self.system_time(), headers);
                });
            }
        }
    }

    /// Returns the time of day from the layer's clock, or the epoch if no field contains it.
    fn system_time(&self) -> SystemTime {
        let nanos = self.clock.as_ref().map_or(0, |clock| clock.now());
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    fn trace_id(&self, head: &Head<'_>) -> Option<String> {
        let mut found = None;
        if let Some(find) = &self.trace_id {
            catch_panic(|| found = find(head));
        }
        found.or_else(|| TraceParent::of(head.headers()).map(|parent| parent.trace_id().to_owned()))
    }

    /// Returns the rejection of a request that the gate did not check, or `None` if it passes.
    #[cold]
    fn reject(&self, rule: &Rule, reason: SkipReason, head: &Head<'_>) -> Option<Box<Denial>> {
        let gate = &rule.gate;
        match reason {
            SkipReason::Skip => None,
            SkipReason::NoKey => {
                let is_denied = gate.deny_without_key(Caller::IN_PROCESS);
                is_denied.then(|| Box::new(Denial::no_key()))
            }
            SkipReason::NoPeer => {
                // An error in the server's setup is reported even in shadow mode.
                gate.observe_without_key(GateOutcome::NoPeer, false, Caller::IN_PROCESS);
                gate.is_enforced_for_all().then(|| Box::new(Denial::no_peer()))
            }
            SkipReason::Panicked => self.fail(rule, head),
            SkipReason::ForeignTier => {
                let is_denied = gate.is_enforced_for_all();
                let outcome =
                    if is_denied { GateOutcome::ForeignTier } else { GateOutcome::ShadowDenied };
                gate.observe_without_key(outcome, false, Caller::IN_PROCESS);
                is_denied.then(|| Box::new(unchecked(self.trace_id(head))))
            }
        }
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
        Some(Box::new(unchecked(self.trace_id(head))))
    }
}

/// Returns the denial of a request that could not be checked.
fn unchecked(trace_id: Option<String>) -> Denial {
    let mut problem = Problem::store_failed().retry_after(Duration::from_secs(1));
    if let Some(id) = trace_id {
        problem = problem.trace_id(&id);
    }
    Denial::of(problem, Some(Duration::from_secs(1)))
}

/// A static, because it is looked up in every response and a constant would be copied.
static DENIAL_FIELD: HeaderName = RETRY_AFTER;

/// Returns the part of the decision of the only rule that is kept. Its units are never refunded.
#[inline]
fn passed(decided: GateDecision, tier: Option<TierId>) -> KeptDecisions {
    if !decided.is_enforced {
        return KeptDecisions::Nothing;
    }
    match decided.decision.quotas() {
        [quota] => KeptDecisions::One { quota: *quota, tier },
        _ => KeptDecisions::Many(vec![Arc::new(RuleDecided::new(0, tier, decided))]),
    }
}

impl KeptDecisions {
    /// Returns `true` if nothing has to be done after the response.
    #[inline]
    pub(crate) fn is_done(&self, rules: &LayerRules) -> bool {
        match self {
            Self::Nothing => true,
            Self::One { .. } => rules.fields.is_none(),
            Self::Many(_) => false,
        }
    }

    /// Inserts the decisions into the request extensions, if handlers get them.
    #[inline]
    pub(crate) fn share(&self, rules: &Arc<LayerRules>, extensions: &mut Extensions) {
        if let Self::Many(decided) = self
            && rules.shares_decision
        {
            RateLimitDecision::insert(decided, rules, extensions);
        }
    }

    /// Returns for each decision whether the response counts, or `None` if all do.
    pub(crate) fn uncounted(&self, rules: &LayerRules, served: &Served<'_>) -> Option<Vec<bool>> {
        let Self::Many(decided) = self else { return None };
        let counts: Vec<bool> = decided.iter().map(|one| one.counts(rules, served)).collect();
        counts.contains(&false).then_some(counts)
    }

    /// Refunds the units of responses that do not count. `counts` has an entry for each decision.
    pub(crate) async fn uncount(self, rules: &LayerRules, counts: &[bool]) -> Self {
        if let Self::Many(all) = &self {
            for (one, counts) in all.iter().zip(counts) {
                if !counts {
                    one.uncount(&rules.rules[one.rule].gate).await;
                }
            }
        }
        self
    }
}

impl RuleDecided {
    fn counts(&self, rules: &LayerRules, served: &Served<'_>) -> bool {
        // If the function panics, the response counts.
        let mut counts = true;
        if self.key.is_some() {
            catch_panic(|| counts = rules.rules[self.rule].count.counts(served));
        }
        counts
    }
}
