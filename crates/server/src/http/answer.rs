//! A decision as JSON.

use std::time::SystemTime;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use slidegate::{Decision, Policy, Quota, QuotaDecision};
use slidegate_http::{Body, Fields, PolicyDecision, Problem};

use super::Reply;
use super::ask::Question;
use super::body::JSON;
use super::json::Json;
use crate::engine::{Caller, Limit, Pool, TierId};
use crate::receipt::ReceiptWord;

/// How a denial is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum DenialStatus {
    /// As an answer like any other, to someone who asks for others. No answer carries fields: they
    /// would tell whoever asks to slow down, who is not the one that is limited.
    #[default]
    Ok,
    /// As 429 with a problem, to be handed on as it is. Every answer carries fields.
    TooMany,
}

/// How a question wants to be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct How<'a> {
    pub(super) denial: DenialStatus,
    pub(super) is_get: bool,
    pub(super) caller: Caller<'a>,
}

/// The bytes of a usual answer.
pub(super) const ANSWER_BYTES: usize = 256;

/// The decision as an object. `is_over` matters where several were judged together.
#[inline]
pub(super) fn write(
    json: &mut Json,
    limit: &Limit,
    tier: Option<TierId>,
    decision: &Decision,
    is_over: Option<bool>,
    caller: Caller<'_>,
) {
    json.comma();
    let is_allowed = decision.is_allowed();
    // Every check writes this, so it is written in large pieces.
    if is_allowed {
        json.raw(r#"{"allowed":true,"policy":""#);
    } else {
        json.raw(r#"{"allowed":false,"policy":""#);
    }
    json.letters(limit.name().as_bytes());
    json.raw("\",");
    let quotas = limit.quotas(tier);
    if let [standing] = decision.quotas() {
        // What is told of the only quota stands twice, and is written once.
        let from = json.len();
        write_standing(json, standing, is_allowed);
        let to = json.len();
        json.raw(r#","quotas":[{"#);
        json.again(from..to);
        write_window(json, quotas.first());
        json.raw("}]");
    } else {
        if let Some(tightest) = decision.tightest() {
            write_left(json, tightest);
            if !is_allowed {
                write_retry(json, decision.retry_after());
            }
            json.raw(",");
        }
        json.raw(r#""quotas":["#);
        for (index, standing) in decision.quotas().iter().enumerate() {
            json.open(b'{');
            write_standing(json, standing, is_allowed);
            write_window(json, quotas.get(index));
            json.close(b'}');
        }
        json.close(b']');
    }
    if !is_allowed {
        write_trace(json, caller);
    }
    write_marks(json, decision, is_over);
    json.close(b'}');
}

#[inline]
fn write_standing(json: &mut Json, standing: &QuotaDecision, is_allowed: bool) {
    write_left(json, standing);
    if !is_allowed {
        write_retry(json, standing.retry_after());
    }
}

#[inline]
fn write_window(json: &mut Json, quota: Option<&Quota>) {
    if let Some(quota) = quota {
        json.raw(r#","window":"#);
        json.raw_seconds(quota.window());
    }
}

#[inline]
fn write_left(json: &mut Json, standing: &QuotaDecision) {
    json.raw(r#""limit":"#);
    json.raw_number(standing.limit());
    json.raw(r#","remaining":"#);
    json.raw_number(standing.remaining());
    json.raw(r#","reset_after":"#);
    json.raw_seconds(standing.reset_after());
}

/// `null` is never.
fn write_retry(json: &mut Json, after: Option<core::time::Duration>) {
    json.name("retry_after");
    match after {
        Some(after) => json.seconds(after),
        None => json.null(),
    }
}

/// Which trace was denied. Nobody looks for one that was allowed.
#[cold]
pub(super) fn write_trace(json: &mut Json, caller: Caller<'_>) {
    if let Some(trace) = caller.trace() {
        json.name("trace_id");
        json.text(trace.trace_id());
    }
}

#[inline]
fn write_marks(json: &mut Json, decision: &Decision, is_over: Option<bool>) {
    if let Some(receipt) = decision.receipt() {
        json.raw(r#","receipt":""#);
        ReceiptWord::new(receipt).with_letters(|letters| json.letters(letters));
        json.raw("\"");
    }
    if is_over == Some(true) {
        write_mark(json, "over");
    }
    if decision.is_degraded() {
        write_mark(json, "degraded");
    }
    if decision.is_estimated() {
        write_mark(json, "estimated");
    }
    if decision.is_shadow_denied() {
        write_mark(json, "shadow_denied");
    }
}

#[cold]
fn write_mark(json: &mut Json, name: &'static str) {
    json.name(name);
    json.bool(true);
}

/// The answer to one question.
#[inline]
pub(super) fn reply(question: &Question<'_>, decision: &Decision, how: How<'_>) -> Reply {
    let Question { limit, tier, .. } = *question;
    if how.denial == DenialStatus::TooMany {
        return reply_as_service(question, decision, how);
    }
    let mut json = Json::with_capacity(ANSWER_BYTES);
    write(&mut json, limit, tier, decision, None, how.caller);
    with_fields(json, &[], how.is_get)
}

/// The answer as the limited service itself would give it.
fn reply_as_service(question: &Question<'_>, decision: &Decision, how: How<'_>) -> Reply {
    let Question { limit, key, tier, .. } = *question;
    let judged = [judged(limit, tier, decision)];
    // Clients that slow down for a limit that is not enforced would spoil what is observed.
    let told = if limit.is_enforced(key) { &judged[..] } else { &[] };
    if let Some(problem) = Problem::of(told) {
        return denied(problem, told, how.caller);
    }
    let mut json = Json::with_capacity(ANSWER_BYTES);
    write(&mut json, limit, tier, decision, None, how.caller);
    with_fields(json, told, how.is_get)
}

/// An answer with the fields of what was judged.
#[inline]
pub(super) fn with_fields(json: Json, judged: &[PolicyDecision<'_>], is_get: bool) -> Reply {
    let mut reply = Response::new(Full::from(json.finish()));
    let headers = reply.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
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
    let problem = traced(problem, caller);
    let mut reply = problem.response(Body::Problem).map(Full::from);
    write_fields(judged, reply.headers_mut());
    reply
}

/// A problem that names the trace it happened in.
pub(super) fn traced(problem: Problem, caller: Caller<'_>) -> Problem {
    match caller.trace() {
        Some(trace) => problem.trace_id(trace.trace_id()),
        None => problem,
    }
}

#[inline]
pub(super) fn write_fields(judged: &[PolicyDecision<'_>], headers: &mut HeaderMap) {
    // The usual fields need no wall clock: times are told from now on.
    Fields::new().write(judged, SystemTime::UNIX_EPOCH, headers);
}

/// A type and five fields. The connection reads its next request into the same map, which has room for
/// the usual ones of that as well.
const HEADERS: usize = 6;

/// A decision of a limit, for fields and problems.
pub(super) fn judged<'a>(
    limit: &'a Limit,
    tier: Option<TierId>,
    decision: &'a Decision,
) -> PolicyDecision<'a> {
    PolicyDecision::new(policy(limit), decision).quotas(limit.quotas(tier))
}

fn policy(limit: &Limit) -> &Policy {
    match limit.pool() {
        Pool::Memory(limiter) => limiter.policy(),
        Pool::Redis(limiter) => limiter.policy(),
    }
}

/// An answer of JSON without fields.
pub(crate) fn plain(json: Json) -> Reply {
    let mut reply = Response::new(Full::from(json.finish()));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
