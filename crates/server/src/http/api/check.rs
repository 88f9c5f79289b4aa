//! One question: check, peek, reserve.

use http::Request;
use hyper::body::Incoming;
use slidegate::Decision;

use super::{denial_status, once, parse_status, unknown_parameter};
use crate::engine::Caller;
use crate::http::answer::{self, DenialStatus, How};
use crate::http::ask::{AskBody, Question, ReserveBody, Text, Units, find, parse, parse_ask};
use crate::http::problem::Refusal;
use crate::http::{HttpState, Reply, body, query};

/// Takes if there is room.
#[inline]
pub(crate) async fn check(
    state: &HttpState,
    request: &mut Request<Incoming>,
) -> Result<Reply, Refusal> {
    let settings = state.settings();
    let denial = denial_status(request.uri().query())?;
    body::check_type(request)?;
    let body = body::read_any(request, settings.body_max, settings.body_timeout).await?;
    let how = How { denial, is_get: false, caller: Caller::http(request.headers()) };
    let taken = take_now(state, &parse_ask(&body)?, how)?;
    match taken {
        Some(reply) => Ok(reply),
        None => Box::pin(async { take(state, &parse_ask(&body)?, how).await }).await,
    }
}

/// The same, asked by a query.
#[inline]
pub(crate) async fn check_query(
    state: &HttpState,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    let (ask, denial) = read_query(request.uri().query().unwrap_or_default())?;
    let how = How { denial, is_get: true, caller: Caller::http(request.headers()) };
    match take_now(state, &ask, how)? {
        Some(reply) => Ok(reply),
        None => Box::pin(take(state, &ask, how)).await,
    }
}

/// The answer of a limit in memory, without a future, which would be carried by every request; `None`
/// from one that has to be waited for.
#[inline]
fn take_now(state: &HttpState, ask: &AskBody<'_>, how: How<'_>) -> Result<Option<Reply>, Refusal> {
    let plan = state.engine().plan();
    let question = ask.find(&plan, state.settings().key_max)?;
    let Question { limit, key, tier, cost } = question;
    let reply = |decision| answer::reply(&question, &decision, how);
    Ok(limit.check_now(key, tier, cost, how.caller, reply))
}

async fn take(state: &HttpState, ask: &AskBody<'_>, how: How<'_>) -> Result<Reply, Refusal> {
    let plan = state.engine().plan();
    let question = ask.find(&plan, state.settings().key_max)?;
    let decision = question.ask(how.caller).await;
    Ok(answer::reply(&question, &decision, how))
}

impl Question<'_> {
    /// In memory the answer is there at once; otherwise it is waited for in a box, because a future
    /// that talks to servers is large and every request would carry it.
    #[inline]
    pub(super) async fn ask(&self, caller: Caller<'_>) -> Decision {
        let Question { limit, key, tier, cost } = *self;
        match limit.check_now(key, tier, cost, caller, |decision| decision) {
            Some(decision) => decision,
            None => Box::pin(limit.check(key, tier, cost, caller)).await,
        }
    }
}

fn read_query(query: &str) -> Result<(AskBody<'_>, DenialStatus), Refusal> {
    let (mut policy, mut key, mut cost, mut tier, mut denial) = (None, None, None, None, None);
    for pair in query::pairs(query) {
        let (name, value) = pair?;
        match &*name {
            "policy" => once(&mut policy, "policy", Text(value))?,
            "key" => once(&mut key, "key", Text(value))?,
            "cost" => once(&mut cost, "cost", Units::from(value))?,
            "tier" => once(&mut tier, "tier", Text(value))?,
            "status" => once(&mut denial, "status", parse_status(&value)?)?,
            name => return Err(unknown_parameter(name, "policy, key, cost, tier, status")),
        }
    }
    let (Some(policy), Some(key)) = (policy, key) else {
        let example = "/v1/check?policy=api&key=alice";
        let detail = format!("the query lacks policy or key: ask like {example}");
        return Err(Refusal::malformed(detail));
    };
    Ok((AskBody { policy, key, cost, tier }, denial.unwrap_or_default()))
}

/// Looks, and takes nothing.
pub(super) async fn peek(state: &HttpState, body: &[u8], how: How<'_>) -> Result<Reply, Refusal> {
    let ask: AskBody<'_> = parse(body)?;
    let plan = state.engine().plan();
    let question = ask.find(&plan, state.settings().key_max)?;
    let Question { limit, key, tier, cost } = question;
    let decision = limit.peek(key, tier, cost).await?;
    Ok(answer::reply(&question, &decision, how))
}

/// Takes an estimate.
pub(super) async fn reserve(
    state: &HttpState,
    body: &[u8],
    how: How<'_>,
) -> Result<Reply, Refusal> {
    let ask: ReserveBody<'_> = parse(body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let (limit, tier, key) = find(&plan, &ask.policy, &ask.key, ask.tier.as_ref(), key_max)?;
    let question = Question { limit, key, tier, cost: ask.cost.cost()? };
    let decision = question.ask(how.caller).await;
    Ok(answer::reply(&question, &decision, how))
}
