//! Decisions as JSON replies.

use core::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::{Serialize, Serializer};
use slidegate::{Decision, QuotaDecision, RetryAfter};
use slidegate_gate::{Ask, Caller, Gate, TierId};
use slidegate_http::Problem;

use super::Reply;
use super::advertised::{self, AdvertisedDecision};
use super::body::JSON;
use crate::config::HeaderSettings;
use crate::engine::Plan;
use crate::overload::Place;
use crate::receipt::{PortableReceipt, TEXT_MAX as RECEIPT_MAX};

/// The status of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum DenialStatus {
    /// 200, without rate limit fields: the caller checks on behalf of another client and must not
    /// slow down itself.
    #[default]
    Ok,
    /// 429 with a problem, to be passed on unchanged. Every reply has rate limit fields.
    TooMany,
}

/// How to reply to a check.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyOptions<'a> {
    pub(super) denial: DenialStatus,
    /// How long to wait for units instead of denying.
    pub(super) wait: Duration,
    pub(super) is_get: bool,
    pub(super) caller: Caller<'a>,
    /// The fields of the request, with the client's token.
    pub(super) headers: &'a HeaderMap,
    /// The place that the request frees while it waits.
    pub(super) place: Option<&'a Place>,
}

/// A duration in seconds, rounded up to the millisecond so that waiting it is always enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds(pub(super) Duration);

impl Seconds {
    fn whole_and_millis(self) -> (u64, u32) {
        match self.0.subsec_nanos().div_ceil(1_000_000) {
            1000 => (self.0.as_secs().saturating_add(1), 0),
            millis => (self.0.as_secs(), millis),
        }
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.whole_and_millis() {
            (whole, 0) => serializer.serialize_u64(whole),
            (whole, millis) => {
                // One division rounds once, so that 1.382 is printed as 1.382.
                #[expect(clippy::cast_precision_loss, reason = "exact for 285,000 years")]
                let millis = (whole.saturating_mul(1000) + u64::from(millis)) as f64;
                serializer.serialize_f64(millis / 1000.0)
            }
        }
    }
}

/// Writes decisions as JSON. Every check needs it, and serde would take three times as many
/// instructions: see `docs/design/0008-fast-paths.md`. Decisions need no escapes: policy names are
/// printable ASCII without quotes.
#[derive(Debug)]
pub(super) struct DecisionWriter(Vec<u8>);

impl DecisionWriter {
    pub(super) fn with_capacity(decisions: usize) -> Self {
        Self(Vec::with_capacity(DECISION_BYTES * decisions))
    }

    pub(super) fn finish(self) -> Bytes {
        self.0.into()
    }

    pub(super) fn text(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.text(itoa::Buffer::new().format(number));
    }

    fn seconds(&mut self, duration: Duration) {
        let (whole, millis) = Seconds(duration).whole_and_millis();
        self.number(whole);
        if millis > 0 {
            let digit = |value: u32| b'0' + (value % 10) as u8;
            self.0.extend_from_slice(&[
                b'.',
                digit(millis / 100),
                digit(millis / 10),
                digit(millis),
            ]);
        }
    }

    /// Writes a decision. `is_over` marks the policy that denied an all-or-nothing request.
    pub(super) fn decision(
        &mut self,
        gate: &Gate,
        tier: Option<TierId>,
        decision: &Decision,
        is_over: bool,
        caller: Caller<'_>,
    ) {
        let is_denied = !decision.is_allowed();
        self.text(if is_denied { r#"{"allowed":false"# } else { r#"{"allowed":true"# });
        self.text(r#","policy":""#);
        self.text(gate.name());
        self.text("\"");
        if let Some(tightest) = decision.tightest() {
            self.text(",");
            self.quota(tightest, is_denied.then(|| decision.retry_after()));
        }
        self.text(r#","quotas":["#);
        for (index, quota) in decision.quotas().iter().enumerate() {
            self.text(if index == 0 { "{" } else { ",{" });
            self.quota(quota, is_denied.then(|| quota.retry_after()));
            if let Some(quota) = gate.quotas(tier).get(index) {
                self.text(r#","window":"#);
                self.seconds(quota.window());
            }
            self.text("}");
        }
        self.text("]");
        if is_denied && let Some(trace) = caller.trace() {
            self.text(r#","trace_id":""#);
            self.text(trace.trace_id());
            self.text("\"");
        }
        if let Some(receipt) = PortableReceipt::of(decision) {
            self.text(r#","receipt":""#);
            self.0.extend_from_slice(receipt.encode(&mut [0; RECEIPT_MAX]));
            self.text("\"");
        }
        for (is_set, member) in [
            (is_over, r#","over":true"#),
            (decision.is_degraded(), r#","degraded":true"#),
            (decision.is_estimated(), r#","estimated":true"#),
            (decision.is_shadow_denied(), r#","shadow_denied":true"#),
        ] {
            if is_set {
                self.text(member);
            }
        }
        self.text("}");
    }

    /// Writes the members that a quota and the whole decision share. A denial has `retry_after`,
    /// with `null` for never.
    fn quota(&mut self, quota: &QuotaDecision, retry_after: Option<RetryAfter>) {
        self.text(r#""limit":"#);
        self.number(quota.limit());
        self.text(r#","remaining":"#);
        self.number(quota.remaining());
        self.text(r#","reset_after":"#);
        self.seconds(quota.reset_after());
        if let Some(retry_after) = retry_after {
            self.text(r#","retry_after":"#);
            match retry_after {
                RetryAfter::Now => self.seconds(Duration::ZERO),
                RetryAfter::After(time) => self.seconds(time),
                RetryAfter::Never => self.text("null"),
            }
        }
    }
}

/// Enough for most decisions.
const DECISION_BYTES: usize = 256;

/// Returns the reply to one check.
pub(super) fn decision(
    settings: &HeaderSettings,
    plan: &Plan,
    ask: &Ask<'_>,
    decision: &Decision,
    options: ReplyOptions<'_>,
) -> Reply {
    let Ask { gate, key, tier, .. } = *ask;
    let mut advertised = None;
    if options.denial == DenialStatus::TooMany {
        advertised = AdvertisedDecision::new(settings, ask, decision, gate.is_enforced(key));
    }
    let advertised = advertised.as_slice();
    if let Some(problem) = advertised::problem(advertised, plan) {
        return advertised::denied(settings, problem, advertised, plan, options.caller);
    }
    let mut body = DecisionWriter::with_capacity(1);
    body.decision(gate, tier, decision, false, options.caller);
    let mut reply = with_body(body.finish(), options.is_get);
    advertised::write_fields(settings, advertised, plan, reply.headers_mut());
    reply
}

/// A JSON reply, which no cache keeps if `is_get`.
pub(crate) fn with_body(body: Bytes, is_get: bool) -> Reply {
    let mut reply = with_json(body);
    if is_get {
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    reply
}

/// Adds the caller's trace to a problem.
pub(super) fn traced(problem: Problem, caller: Caller<'_>) -> Problem {
    match caller.trace() {
        Some(trace) => problem.trace_id(trace.trace_id()),
        None => problem,
    }
}

/// Returns a JSON reply that is not cached.
pub(crate) fn plain(body: &impl Serialize) -> Reply {
    with_body(to_json(body), true)
}

/// Returns a JSON reply.
pub(super) fn json(body: &impl Serialize) -> Reply {
    with_json(to_json(body))
}

fn to_json(body: &impl Serialize) -> Bytes {
    // Fails only for maps whose keys are not text, and there are none.
    serde_json::to_vec(body).unwrap_or_default().into()
}

fn with_json(body: Bytes) -> Reply {
    let mut reply = Response::new(Full::from(body));
    reply.headers_mut().reserve(HEADERS);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

/// A content type and five rate limit fields. hyper parses the next request of the connection into
/// the same map, and its fields fit too.
const HEADERS: usize = 6;

#[cfg(test)]
mod tests;
