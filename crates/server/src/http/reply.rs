//! Decisions as JSON replies.

use core::time::Duration;
use std::time::SystemTime;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::{Serialize, Serializer};
use slidegate::{Decision, Quota, QuotaDecision};
use slidegate_gate::{Ask, Caller, Gate, TierId};
use slidegate_http::{Body, Fields, PolicyDecision, Problem};

use super::Reply;
use super::body::JSON;
use crate::receipt::PortableReceipt;

/// The status of a reply that denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum DenialStatus {
    /// 200, without rate limit fields: the caller asks on behalf of someone else and must not slow
    /// down itself.
    #[default]
    Ok,
    /// 429 with a problem, to be passed on unchanged. Every reply carries rate limit fields.
    TooMany,
}

/// How to reply to a check.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyOptions<'a> {
    pub(super) denial: DenialStatus,
    pub(super) is_get: bool,
    pub(super) caller: Caller<'a>,
}

/// A decision as JSON.
#[expect(clippy::struct_excessive_bools, reason = "each is a member of the object")]
#[derive(Debug, Serialize)]
pub(super) struct DecisionBody<'a> {
    allowed: bool,
    policy: &'a str,
    /// The tightest quota.
    #[serde(flatten)]
    tightest: Option<QuotaStatus>,
    quotas: QuotaStatuses<'a>,
    /// The trace of a denied request.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<PortableReceipt>,
    /// Of several limits that were checked together, this one denied.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) over: bool,
    #[serde(skip_serializing_if = "is_false")]
    degraded: bool,
    #[serde(skip_serializing_if = "is_false")]
    estimated: bool,
    #[serde(skip_serializing_if = "is_false")]
    shadow_denied: bool,
}

#[derive(Debug, Serialize)]
struct QuotaStatus {
    limit: u64,
    remaining: u64,
    reset_after: Seconds,
    /// Only in a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<RetryAfter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Seconds>,
}

/// `null` means never.
#[derive(Debug, Serialize)]
struct RetryAfter(Option<Seconds>);

impl RetryAfter {
    fn new(after: Option<Duration>) -> Self {
        Self(after.map(Seconds))
    }
}

/// All quotas of a decision.
#[derive(Debug)]
struct QuotaStatuses<'a> {
    decision: &'a Decision,
    quotas: &'a [Quota],
}

/// A duration in seconds, rounded up to the millisecond so that waiting it is always enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds(pub(super) Duration);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl<'a> DecisionBody<'a> {
    pub(super) fn new(
        gate: &'a Gate,
        tier: Option<TierId>,
        decision: &'a Decision,
        caller: Caller<'a>,
    ) -> Self {
        let is_denied = !decision.is_allowed();
        let tightest = decision.tightest().map(|quota| {
            QuotaStatus::new(
                quota,
                is_denied.then(|| RetryAfter::new(decision.retry_after())),
                None,
            )
        });
        let trace = if is_denied { caller.trace() } else { None };
        Self {
            allowed: decision.is_allowed(),
            policy: gate.name(),
            tightest,
            quotas: QuotaStatuses { decision, quotas: gate.quotas(tier) },
            trace_id: trace.map(|trace| trace.trace_id()),
            receipt: decision.receipt().map(PortableReceipt::new),
            over: false,
            degraded: decision.is_degraded(),
            estimated: decision.is_estimated(),
            shadow_denied: decision.is_shadow_denied(),
        }
    }
}

impl QuotaStatus {
    fn new(
        quota: &QuotaDecision,
        retry_after: Option<RetryAfter>,
        window: Option<Duration>,
    ) -> Self {
        Self {
            limit: quota.limit(),
            remaining: quota.remaining(),
            reset_after: Seconds(quota.reset_after()),
            retry_after,
            window: window.map(Seconds),
        }
    }
}

impl Serialize for QuotaStatuses<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_denied = !self.decision.is_allowed();
        serializer.collect_seq(self.decision.quotas().iter().enumerate().map(|(index, quota)| {
            let window = self.quotas.get(index).map(Quota::window);
            QuotaStatus::new(quota, is_denied.then(|| RetryAfter::new(quota.retry_after())), window)
        }))
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = self.0.as_secs();
        match self.0.subsec_nanos().div_ceil(1_000_000) {
            0 => serializer.serialize_u64(whole),
            1000 => serializer.serialize_u64(whole.saturating_add(1)),
            millis => {
                let rounded = Duration::new(whole, millis * 1_000_000);
                serializer.serialize_f64(rounded.as_secs_f64())
            }
        }
    }
}

/// The reply to one check.
pub(super) fn decision(ask: &Ask<'_>, decision: &Decision, options: ReplyOptions<'_>) -> Reply {
    let Ask { gate, key, tier, .. } = *ask;
    let mut judged = None;
    // A client that slows down for a limit that is not enforced would distort what is observed.
    if options.denial == DenialStatus::TooMany && gate.is_enforced(key) {
        judged = Some(self::judged(gate, tier, decision));
    }
    let judged = judged.as_slice();
    if let Some(problem) = Problem::of(judged) {
        return denied(problem, judged, options.caller);
    }
    let body = DecisionBody::new(gate, tier, decision, options.caller);
    with_fields(&body, judged, options.is_get)
}

/// A JSON reply with the rate limit fields of `judged`.
pub(super) fn with_fields(
    body: &impl Serialize,
    judged: &[PolicyDecision<'_>],
    is_get: bool,
) -> Reply {
    let mut reply = json(body);
    let headers = reply.headers_mut();
    if is_get {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if !judged.is_empty() {
        write_fields(judged, headers);
    }
    reply
}

/// A denial as an error.
#[cold]
pub(super) fn denied(problem: Problem, judged: &[PolicyDecision<'_>], caller: Caller<'_>) -> Reply {
    let mut reply = traced(problem, caller).response(Body::Problem).map(Full::from);
    write_fields(judged, reply.headers_mut());
    reply
}

/// Adds the caller's trace to a problem.
pub(super) fn traced(problem: Problem, caller: Caller<'_>) -> Problem {
    match caller.trace() {
        Some(trace) => problem.trace_id(trace.trace_id()),
        None => problem,
    }
}

pub(super) fn write_fields(judged: &[PolicyDecision<'_>], headers: &mut HeaderMap) {
    // The default fields hold durations only, so the wall clock is not needed.
    Fields::new().write(judged, SystemTime::UNIX_EPOCH, headers);
}

/// A gate's decision, for rate limit fields and problems.
pub(super) fn judged<'a>(
    gate: &'a Gate,
    tier: Option<TierId>,
    decision: &'a Decision,
) -> PolicyDecision<'a> {
    PolicyDecision::new(gate.store().policy(), decision).quotas(gate.quotas(tier))
}

/// A JSON reply that no cache keeps.
pub(crate) fn plain(body: &impl Serialize) -> Reply {
    with_fields(body, &[], true)
}

/// A JSON reply.
pub(super) fn json(body: &impl Serialize) -> Reply {
    let mut bytes = Vec::with_capacity(BODY_CAPACITY);
    // Fails only for maps whose keys are not text, and there are none.
    let _ = serde_json::to_writer(&mut bytes, body);
    let mut reply = Response::new(Full::from(Bytes::from(bytes)));
    reply.headers_mut().reserve(HEADERS);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

/// Enough for most decisions.
const BODY_CAPACITY: usize = 256;

/// A content type and five rate limit fields. hyper parses the next request of the connection into the
/// same map, and its fields fit too.
const HEADERS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_up_to_the_millisecond() {
        for (nanos, text) in [
            (0, "0"),
            (1, "0.001"),
            (59_997_000_000, "59.997"),
            (999_000_001, "1"),
            (1_000_000_000, "1"),
            (1_050_000_000, "1.05"),
            (1_700_000_000_123_000_000, "1700000000.123"),
        ] {
            let seconds = Seconds(Duration::from_nanos(nanos));
            assert_eq!(serde_json::to_string(&seconds).unwrap(), text, "{nanos}");
        }
    }
}
