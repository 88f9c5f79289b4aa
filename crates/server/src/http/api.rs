//! The operations of the API.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::collections::BTreeMap;

use http::Request;
use hyper::body::{Bytes, Incoming};
use serde::Serialize;
use serde_json::json;
use slidegate::{Algorithm, Decision, FailureMode, Quota};
use slidegate_http::Problem;

use super::error::ApiError;
use super::reply::{self, DecisionWriter, DenialStatus, ReplyOptions, Seconds};
use super::request::{
    self, CheckRequest, ChecksRequest, KeyRequest, RefundRequest, ReserveRequest, ResetRequest,
    SettleRequest, Target, denial_status, no_query, parse,
};
use super::{HttpState, Reply, body};
use crate::engine::{Ask, Caller, Pool, check_all as check_asks};
use crate::spec::{PolicySpec, Switch};

type ApiResult = Result<Reply, ApiError>;

/// `POST /v1/check`
pub(super) async fn check(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let (body, options) = read_check(state, request).await?;
    reply_to_check(state, &parse(&body)?, options).await
}

/// `GET /v1/check`
pub(super) async fn check_query(state: &HttpState, request: &Request<Incoming>) -> ApiResult {
    let query = request.uri().query().unwrap_or_default();
    let (check, denial) = request::check_query(query)?;
    let caller = Caller::http(request.headers());
    reply_to_check(state, &check, ReplyOptions { denial, is_get: true, caller }).await
}

async fn reply_to_check(
    state: &HttpState,
    check: &CheckRequest<'_>,
    options: ReplyOptions<'_>,
) -> ApiResult {
    let plan = state.engine().plan();
    let ask = check.ask(&plan, state.settings().key_max)?;
    let decision = decide(&ask, options.caller).await;
    Ok(reply::decision(&ask, &decision, options))
}

/// In memory the decision is there at once. A call to a server is boxed, because its future is large
/// and every request would carry it.
async fn decide(ask: &Ask<'_>, caller: Caller<'_>) -> Decision {
    let Ask { limit, key, tier, cost } = *ask;
    match limit.check_now(key, tier, cost, caller, |decision| decision) {
        Some(decision) => decision,
        None => Box::pin(limit.check(key, tier, cost, caller)).await,
    }
}

/// `POST /v1/peek`
pub(super) async fn peek(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let (body, options) = read_check(state, request).await?;
    let check: CheckRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let ask = check.ask(&plan, state.settings().key_max)?;
    let decision = ask.limit.peek(ask.key, ask.tier, ask.cost).await?;
    Ok(reply::decision(&ask, &decision, options))
}

/// `POST /v1/reserve`
pub(super) async fn reserve(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let (body, options) = read_check(state, request).await?;
    let reserve: ReserveRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let target = reserve.find(&plan, state.settings().key_max)?;
    let ask = target.ask(request::cost(&reserve.cost)?);
    let decision = decide(&ask, options.caller).await;
    Ok(reply::decision(&ask, &decision, options))
}

/// `POST /v1/check_all`: all or nothing.
pub(super) async fn check_all(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let (body, options) = read_check(state, request).await?;
    let settings = state.settings();
    let ChecksRequest { asks: checks } = parse(&body)?;
    check_count(&checks, settings.together_max)?;
    let plan = state.engine().plan();
    let find = |(index, check)| {
        let ask = CheckRequest::ask(check, &plan, settings.key_max);
        ask.map_err(|error| error.in_part(&format_args!("asks[{index}]")))
    };
    let asks = checks.iter().enumerate().map(find).collect::<Result<Vec<_>, _>>()?;
    let answers = check_asks(&asks, options.caller).await;

    let mut judged = Vec::new();
    if options.denial == DenialStatus::TooMany {
        for (ask, answer) in asks.iter().zip(&answers) {
            if ask.limit.is_enforced(ask.key) {
                judged.push(reply::judged(ask.limit, ask.tier, &answer.decision));
            }
        }
    }
    if let Some(problem) = Problem::of(&judged) {
        return Ok(reply::denied(problem, &judged, options.caller));
    }
    let is_allowed = answers.iter().all(|answer| answer.decision.is_allowed());
    let mut body = DecisionWriter::with_capacity(answers.len());
    body.text(if is_allowed { r#"{"allowed":true"# } else { r#"{"allowed":false"# });
    body.text(r#","answers":["#);
    for (index, (ask, answer)) in asks.iter().zip(&answers).enumerate() {
        body.text(if index == 0 { "" } else { "," });
        let Ask { limit, tier, .. } = *ask;
        body.decision(limit, tier, &answer.decision, answer.is_over, options.caller);
    }
    body.text("]}");
    Ok(reply::with_fields(body.finish(), &judged, false))
}

/// `POST /v1/batch`: each on its own. An unknown policy or tier is reported in its place; if anything
/// is malformed, nothing is checked.
pub(super) async fn batch(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let body = read(state, request).await?;
    let (settings, caller) = (state.settings(), Caller::http(request.headers()));
    let ChecksRequest { asks: checks } = parse(&body)?;
    check_count(&checks, settings.batch_max)?;
    let plan = state.engine().plan();
    let mut asks = Vec::with_capacity(checks.len());
    for (index, check) in checks.iter().enumerate() {
        match check.ask(&plan, settings.key_max) {
            Err(error) if error.is_malformed() => {
                return Err(error.in_part(&format_args!("asks[{index}]")));
            }
            ask => asks.push(ask),
        }
    }
    let mut decisions = Vec::with_capacity(asks.len());
    for some in asks.chunks(IN_FLIGHT_MAX) {
        decisions.extend(decide_each(some, caller).await);
    }
    let mut body = DecisionWriter::with_capacity(asks.len());
    body.text(r#"{"answers":["#);
    for (index, (ask, decision)) in asks.iter().zip(&decisions).enumerate() {
        body.text(if index == 0 { "" } else { "," });
        match (ask, decision) {
            (Ok(ask), Some(decision)) => {
                body.decision(ask.limit, ask.tier, decision, false, caller);
            }
            (Err(error), _) => body.text(&json!(error.body(caller)).to_string()),
            // There is a decision for each valid check.
            (Ok(_), None) => body.text("null"),
        }
    }
    body.text("]}");
    Ok(reply::with_fields(body.finish(), &[], true))
}

/// Checks of one batch that wait for a store at the same time.
const IN_FLIGHT_MAX: usize = 64;

/// Decides valid checks, in order. Calls to a server run concurrently.
async fn decide_each(
    asks: &[Result<Ask<'_>, ApiError>],
    caller: Caller<'_>,
) -> Vec<Option<Decision>> {
    let mut decisions = Vec::with_capacity(asks.len());
    let mut waiting = Vec::new();
    for (index, ask) in asks.iter().enumerate() {
        decisions.push(match ask {
            Ok(ask) if matches!(ask.limit.pool(), Pool::Memory(_)) => {
                Some(decide(ask, caller).await)
            }
            Ok(ask) => {
                waiting.push((index, Box::pin(decide(ask, caller))));
                None
            }
            Err(_) => None,
        });
    }
    join(&mut waiting, |index, decision| decisions[index] = Some(decision)).await;
    decisions
}

/// Waits for all futures.
async fn join<F: Future>(
    waiting: &mut Vec<(usize, Pin<Box<F>>)>,
    mut put: impl FnMut(usize, F::Output),
) {
    poll_fn(|cx| {
        waiting.retain_mut(|(index, future)| match future.as_mut().poll(cx) {
            Poll::Ready(output) => {
                put(*index, output);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn check_count(checks: &[CheckRequest<'_>], most: usize) -> Result<(), ApiError> {
    let count = checks.len();
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(ApiError::malformed(format!("{count} asks are out of range: send 1 to {most} at a time")))
}

/// `POST /v1/refund`
pub(super) async fn refund(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let body = read(state, request).await?;
    let refund: RefundRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let Target { limit, tier, key } = refund.find(&plan, state.settings().key_max)?;
    let receipt = request::receipt(&refund.receipt)?.in_limit(limit, key);
    let units = limit.refund(key, tier, receipt).await?;
    Ok(reply::plain(&json!({"policy": limit.name(), "refunded": units})))
}

/// `POST /v1/settle`
pub(super) async fn settle(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let body = read(state, request).await?;
    let settle: SettleRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let Target { limit, tier, key } = settle.find(&plan, state.settings().key_max)?;
    let receipt = request::receipt(&settle.receipt)?.in_limit(limit, key);
    let actual = request::units("actual", &settle.actual, 0)?;
    let units = limit.settle(key, tier, receipt, actual).await?;
    Ok(reply::plain(&json!({"policy": limit.name(), "charged": units})))
}

/// `POST /v1/usage`
pub(super) async fn usage(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let body = read(state, request).await?;
    let usage: KeyRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let Target { limit, tier, key } = usage.find(&plan, state.settings().key_max)?;
    let usage = limit.usage(key, tier).await?;
    let quota = |(index, quota): (usize, &Quota)| {
        json!({
            "limit": quota.limit(), "window": Seconds(quota.window()), "used": usage.units(index),
        })
    };
    let quotas: Vec<_> = limit.quotas(tier).iter().enumerate().map(quota).collect();
    Ok(reply::plain(&json!({"policy": limit.name(), "quotas": quotas})))
}

/// `POST /v1/history`: oldest first.
pub(super) async fn history(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let body = read(state, request).await?;
    let history: KeyRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let Target { limit, tier, key } = history.find(&plan, state.settings().key_max)?;
    let events = limit.history(key, tier).await?;
    let left_out = events.len().saturating_sub(state.settings().history_max);
    let event = |event: &slidegate::Event| json!({"at": Seconds(event.at), "units": event.units});
    let events: Vec<_> = events[left_out..].iter().map(event).collect();
    Ok(reply::plain(&json!({"policy": limit.name(), "events": events, "left_out": left_out})))
}

/// `POST /v1/reset`
pub(super) async fn reset(state: &HttpState, request: &mut Request<Incoming>) -> ApiResult {
    let body = read(state, request).await?;
    let reset: ResetRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let Target { limit, key, .. } = request::find(&plan, &reset.policy, &reset.key, None, key_max)?;
    let existed = limit.reset(key).await?;
    Ok(reply::plain(&json!({"policy": limit.name(), "reset": existed})))
}

/// Reads the body of a check, and how its query wants a denial to be reported.
async fn read_check<'a>(
    state: &HttpState,
    request: &'a mut Request<Incoming>,
) -> Result<(Bytes, ReplyOptions<'a>), ApiError> {
    let denial = denial_status(request.uri().query())?;
    let body = body::read_json(request, state.settings()).await?;
    let caller = Caller::http(request.headers());
    Ok((body, ReplyOptions { denial, is_get: false, caller }))
}

/// Reads the body of a request that takes no query.
async fn read(state: &HttpState, request: &mut Request<Incoming>) -> Result<Bytes, ApiError> {
    no_query(request.uri().query())?;
    body::read_json(request, state.settings()).await
}

/// `GET /v1/policies`
pub(super) fn policies(state: &HttpState, request: &Request<Incoming>) -> ApiResult {
    no_query(request.uri().query())?;
    let plan = state.engine().plan();
    let policies: Vec<_> = plan.spec().policies.iter().map(PolicyBody::new).collect();
    Ok(reply::plain(&json!({"policies": policies})))
}

/// `GET /v1/policies/{name}`
pub(super) fn policy(state: &HttpState, request: &Request<Incoming>, name: &str) -> ApiResult {
    no_query(request.uri().query())?;
    let name = request::decode(name)?;
    let plan = state.engine().plan();
    let unknown = || request::unknown_policy(&plan, &name);
    Ok(reply::plain(&PolicyBody::new(plan.spec().policy(&name).ok_or_else(unknown)?)))
}

#[derive(Debug, Serialize)]
struct PolicyBody<'a> {
    name: &'a str,
    quotas: Vec<QuotaBody>,
    algorithm: String,
    mode: &'static str,
    enforce_percent: u8,
    store: &'a str,
    failure_mode: &'static str,
    tiers: BTreeMap<&'a str, Vec<QuotaBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<CandidateBody>,
}

#[derive(Debug, Serialize)]
struct CandidateBody {
    quotas: Vec<QuotaBody>,
    algorithm: String,
}

#[derive(Debug, Serialize)]
struct QuotaBody {
    limit: u64,
    window: Seconds,
}

impl<'a> PolicyBody<'a> {
    fn new(policy: &'a PolicySpec) -> Self {
        let tiers = policy.tiers.iter().map(|(name, tier)| (name.as_str(), quotas(tier)));
        let candidate = policy.candidate.as_ref().map(|candidate| CandidateBody {
            quotas: quotas(&candidate.quotas),
            algorithm: algorithm(candidate.algorithm),
        });
        Self {
            name: &policy.name,
            quotas: quotas(&policy.quotas),
            algorithm: algorithm(policy.algorithm),
            mode: match policy.switch {
                Switch::Enforce => "enforce",
                Switch::Shadow => "shadow",
                Switch::Off => "off",
            },
            enforce_percent: policy.enforce_percent,
            store: &policy.store,
            failure_mode: failure_mode(policy.failure_mode),
            tiers: tiers.collect(),
            candidate,
        }
    }
}

fn quotas(quotas: &[Quota]) -> Vec<QuotaBody> {
    let body = |quota: &Quota| QuotaBody { limit: quota.limit(), window: Seconds(quota.window()) };
    quotas.iter().map(body).collect()
}

/// As in configurations.
fn algorithm(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Log => "log".to_owned(),
        Algorithm::LogCapped { bytes_max } => format!("log_capped: {bytes_max}"),
        Algorithm::Counter => "counter".to_owned(),
        Algorithm::Segments { count } => format!("segments: {count}"),
        Algorithm::Gcra => "gcra".to_owned(),
        Algorithm::Fixed => "fixed".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn failure_mode(mode: FailureMode) -> &'static str {
    match mode {
        FailureMode::Deny => "deny",
        FailureMode::Local => "local",
        _ => "allow",
    }
}
