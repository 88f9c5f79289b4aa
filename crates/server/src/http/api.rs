//! The operations of the API.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

use http::Request;
use hyper::body::{Bytes, Incoming};
use serde_json::{Map, Value, json};
use slidegate::{Quota, StoreFuture};
use slidegate_gate::{Ask, Caller, GateDecision, check_all as check_asks};

use super::advertised::{self, advertise_all};
use super::error::ApiError;
use super::reply::{self, DecisionWriter, DenialStatus, ReplyOptions, Seconds};
use super::request::{
    self, CheckOptions, CheckRequest, ChecksRequest, KeyRequest, KeyTarget, RefundRequest,
    ReserveRequest, ResetRequest, SettleRequest, check_options, no_query, parse,
};
use super::{HttpState, Peer, Reply, body, waiting};
use crate::engine::latest;
use crate::spec::{CandidateSpec, PolicySpec};

type ApiResult = Result<Reply, ApiError>;

/// `POST /v1/check`
pub(super) async fn check(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let (body, options) = read_check(state, request, peer, true).await?;
    reply_to_check(state, &parse(&body)?, options).await
}

/// `GET /v1/check`
pub(super) async fn check_query(state: &HttpState, request: &Request<Incoming>) -> ApiResult {
    let query = request.uri().query().unwrap_or_default();
    let (check, options) = request::check_query(query, state.settings().wait_max)?;
    let CheckOptions { denial, wait } = options;
    let (caller, headers) = (Caller::http(request.headers()), request.headers());
    let place = request.extensions().get();
    let options = ReplyOptions { denial, wait, is_get: true, caller, headers, place };
    reply_to_check(state, &check, options).await
}

async fn reply_to_check(
    state: &HttpState,
    check: &CheckRequest<'_>,
    options: ReplyOptions<'_>,
) -> ApiResult {
    let plan = state.engine().plan();
    let ask = check.ask(&plan, state.settings().key_max)?;
    let GateDecision { decision, .. } = decide_or_wait(state, &ask, options).await;
    Ok(reply::decision(&state.settings().headers, &plan, &ask, &decision, options))
}

async fn decide_or_wait(
    state: &HttpState,
    ask: &Ask<'_>,
    options: ReplyOptions<'_>,
) -> GateDecision {
    let mut decided = match waiting(state, options.wait, options.place) {
        None => decide(ask, options.caller).await,
        // Boxed, so that checks that do not wait do not carry it.
        Some(waiting) => {
            Box::pin(state.engine().check_or_wait(*ask, &waiting, options.caller)).await
        }
    };
    state.settings().access.hide_from(options.headers, &mut decided.decision);
    decided
}

fn decide<'a>(ask: &Ask<'a>, caller: Caller<'a>) -> StoreFuture<'a, GateDecision> {
    ask.gate.check(ask.key, ask.tier, ask.cost, caller)
}

/// `POST /v1/peek`
pub(super) async fn peek(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let (body, options) = read_check(state, request, peer, false).await?;
    let check: CheckRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let ask = check.ask(&plan, state.settings().key_max)?;
    let decision = ask.gate.peek(ask.key, ask.tier, ask.cost).await?;
    Ok(reply::decision(&state.settings().headers, &plan, &ask, &decision, options))
}

/// `POST /v1/reserve`
pub(super) async fn reserve(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let (body, options) = read_check(state, request, peer, true).await?;
    let reserve: ReserveRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let target = reserve.find(&plan, state.settings().key_max)?;
    let ask = target.ask(request::cost(&reserve.cost)?);
    let GateDecision { decision, .. } = decide_or_wait(state, &ask, options).await;
    Ok(reply::decision(&state.settings().headers, &plan, &ask, &decision, options))
}

/// `POST /v1/check_all`: all or nothing.
pub(super) async fn check_all(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let (body, options) = read_check(state, request, peer, true).await?;
    let settings = state.settings();
    let ChecksRequest { asks: checks } = parse(&body)?;
    check_count(&checks, settings.all_or_nothing_max)?;
    let plan = state.engine().plan();
    let find = |(index, check)| {
        let ask = CheckRequest::ask(check, &plan, settings.key_max);
        ask.map_err(|error| error.in_part(&format_args!("asks[{index}]")))
    };
    let asks = checks.iter().enumerate().map(find).collect::<Result<Vec<_>, _>>()?;
    let waiting = waiting(state, options.wait, options.place);
    let mut all = check_asks(&asks, waiting.as_ref(), options.caller).await?;
    for decided in &mut all {
        settings.access.hide_from(options.headers, &mut decided.decision);
    }

    let headers = &settings.headers;
    let mut advertised = Vec::new();
    if options.denial == DenialStatus::TooMany {
        advertised = advertise_all(headers, &asks, &all);
    }
    if let Some(problem) = advertised::problem(&advertised, &plan) {
        return Ok(advertised::denied(headers, problem, &advertised, &plan, options.caller));
    }
    let is_allowed = all.iter().all(|decided| decided.decision.is_allowed());
    let mut body = DecisionWriter::with_capacity(all.len());
    body.text(if is_allowed { r#"{"allowed":true"# } else { r#"{"allowed":false"# });
    body.text(r#","answers":["#);
    for (index, (ask, decided)) in asks.iter().zip(&all).enumerate() {
        body.text(if index == 0 { "" } else { "," });
        let is_over = decided.is_over();
        body.decision(ask.gate, ask.tier, &decided.decision, is_over, options.caller);
    }
    body.text("]}");
    let mut reply = reply::with_body(body.finish(), false);
    advertised::write_fields(headers, &advertised, &plan, reply.headers_mut());
    Ok(reply)
}

/// `POST /v1/batch`: independent checks. An unknown policy or tier is reported in its place. If
/// anything is malformed, nothing is checked.
pub(super) async fn batch(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let body = read(state, request, peer).await?;
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
    let mut all = Vec::with_capacity(asks.len());
    for some in asks.chunks(IN_FLIGHT_MAX) {
        all.extend(decide_each(some, caller).await);
    }
    for decided in all.iter_mut().flatten() {
        settings.access.hide_from(request.headers(), &mut decided.decision);
    }
    let mut body = DecisionWriter::with_capacity(asks.len());
    body.text(r#"{"answers":["#);
    for (index, (ask, decided)) in asks.iter().zip(&all).enumerate() {
        body.text(if index == 0 { "" } else { "," });
        match (ask, decided) {
            (Ok(ask), Some(decided)) => {
                body.decision(ask.gate, ask.tier, &decided.decision, false, caller);
            }
            (Err(error), _) => body.text(&json!(error.body(caller)).to_string()),
            // There is a decision for each valid check.
            (Ok(_), None) => body.text("null"),
        }
    }
    body.text("]}");
    Ok(reply::with_body(body.finish(), true))
}

/// The maximum number of checks of one batch that wait for a store at the same time.
const IN_FLIGHT_MAX: usize = 64;

/// Decides valid checks, in order. Calls to a server run concurrently.
async fn decide_each(
    asks: &[Result<Ask<'_>, ApiError>],
    caller: Caller<'_>,
) -> Vec<Option<GateDecision>> {
    let mut all = Vec::with_capacity(asks.len());
    let mut pending = Vec::new();
    for (index, ask) in asks.iter().enumerate() {
        all.push(match ask.as_ref().map(|ask| decide(ask, caller).try_now()) {
            Ok(Ok(decided)) => Some(decided),
            Ok(Err(check)) => {
                pending.push((index, check));
                None
            }
            Err(_) => None,
        });
    }
    join(&mut pending, |index, decided| all[index] = Some(decided)).await;
    all
}

/// Waits for all futures.
async fn join<F: Future + Unpin>(
    waiting: &mut Vec<(usize, F)>,
    mut put: impl FnMut(usize, F::Output),
) {
    poll_fn(|cx| {
        waiting.retain_mut(|(index, future)| match Pin::new(future).poll(cx) {
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
    Err(ApiError::malformed(format!(
        "{count} checks are out of range: send 1 to {most} per request"
    )))
}

/// `POST /v1/refund`
pub(super) async fn refund(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let body = read(state, request, peer).await?;
    let refund: RefundRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let KeyTarget { gate, tier, key } = refund.find(&plan, state.settings().key_max)?;
    let units = request::receipt(&refund.receipt)?.refund(gate, key, tier).await?;
    Ok(reply::plain(&json!({"policy": gate.name(), "refunded": units})))
}

/// `POST /v1/settle`
pub(super) async fn settle(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let body = read(state, request, peer).await?;
    let settle: SettleRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let KeyTarget { gate, tier, key } = settle.find(&plan, state.settings().key_max)?;
    let receipt = request::receipt(&settle.receipt)?;
    let actual = request::units("actual", &settle.actual, 0)?;
    let units = receipt.settle(gate, key, tier, actual).await?;
    Ok(reply::plain(&json!({"policy": gate.name(), "charged": units})))
}

/// `POST /v1/usage`
pub(super) async fn usage(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let body = read(state, request, peer).await?;
    let usage: KeyRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let KeyTarget { gate, tier, key } = usage.find(&plan, state.settings().key_max)?;
    let usage = gate.usage(key, tier).await?;
    let quota = |(index, quota): (usize, &Quota)| {
        json!({
            "limit": quota.limit(), "window": Seconds(quota.window()), "used": usage.units(index),
        })
    };
    let quotas: Vec<_> = gate.quotas(tier).iter().enumerate().map(quota).collect();
    Ok(reply::plain(&json!({"policy": gate.name(), "quotas": quotas})))
}

/// `POST /v1/history`: oldest first.
pub(super) async fn history(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let body = read(state, request, peer).await?;
    let history: KeyRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let KeyTarget { gate, tier, key } = history.find(&plan, state.settings().key_max)?;
    let events = gate.history(key, tier).await?;
    let shown = latest(&events);
    let left_out = events.len() - shown.len();
    let event = |event: &slidegate::Event| json!({"at": Seconds(event.at), "units": event.units});
    let shown: Vec<_> = shown.iter().map(event).collect();
    Ok(reply::plain(&json!({"policy": gate.name(), "events": shown, "left_out": left_out})))
}

/// `POST /v1/reset`
pub(super) async fn reset(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> ApiResult {
    let body = read(state, request, peer).await?;
    let reset: ResetRequest<'_> = parse(&body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let KeyTarget { gate, key, .. } =
        request::find(&plan, &reset.policy, &reset.key, None, key_max)?;
    let existed = gate.reset(key).await?;
    Ok(reply::plain(&json!({"policy": gate.name(), "reset": existed})))
}

/// Reads the body of a check, and how its query wants it to be carried out.
async fn read_check<'a>(
    state: &HttpState,
    request: &'a mut Request<Incoming>,
    peer: &Peer,
    may_wait: bool,
) -> Result<(Bytes, ReplyOptions<'a>), ApiError> {
    let wait_max = may_wait.then_some(state.settings().wait_max);
    let CheckOptions { denial, wait } = check_options(request.uri().query(), wait_max)?;
    let body = body::read_json(request, state.body_limits(peer)).await?;
    let (caller, headers) = (Caller::http(request.headers()), request.headers());
    let place = request.extensions().get();
    Ok((body, ReplyOptions { denial, wait, is_get: false, caller, headers, place }))
}

/// Reads the body of a request without a query.
async fn read(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> Result<Bytes, ApiError> {
    no_query(request.uri().query())?;
    body::read_json(request, state.body_limits(peer)).await
}

/// `GET /v1/policies`
pub(super) fn policies(state: &HttpState, request: &Request<Incoming>) -> ApiResult {
    no_query(request.uri().query())?;
    let plan = state.engine().plan();
    let policies: Vec<_> = plan.spec().policies.iter().map(policy_body).collect();
    Ok(reply::plain(&json!({"policies": policies})))
}

/// `GET /v1/policies/{name}`
pub(super) fn policy(state: &HttpState, request: &Request<Incoming>, name: &str) -> ApiResult {
    no_query(request.uri().query())?;
    let name = request::decode(name)?;
    let plan = state.engine().plan();
    let unknown = || request::unknown_policy(&plan, &name);
    Ok(reply::plain(&policy_body(plan.spec().policy(&name).ok_or_else(unknown)?)))
}

fn policy_body(policy: &PolicySpec) -> Value {
    let tiers = policy.tiers.iter().map(|(name, tier)| (name.clone(), quotas(tier)));
    let mut body = json!({
        "name": policy.name,
        "quotas": quotas(&policy.quotas),
        "algorithm": policy.algorithm.to_string(),
        "mode": policy.rollout.name(),
        "enforce_percent": policy.enforce_percent,
        "store": policy.store,
        "failure_mode": policy.failure_mode.name(),
        "tiers": tiers.collect::<Map<_, _>>(),
    });
    if let Some(CandidateSpec { quotas: of_candidate, algorithm }) = &policy.candidate {
        let algorithm = algorithm.to_string();
        body["candidate"] = json!({"quotas": quotas(of_candidate), "algorithm": algorithm});
    }
    body
}

fn quotas(quotas: &[Quota]) -> Value {
    let quota = |quota: &Quota| json!({"limit": quota.limit(), "window": Seconds(quota.window())});
    quotas.iter().map(quota).collect()
}
