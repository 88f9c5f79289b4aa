//! What is done for each request of the API.

mod check;
mod policies;
mod several;
mod units;

use http::Request;
use hyper::body::Incoming;

pub(super) use self::check::{check, check_query};
pub(super) use self::policies::{policies, policy};
use super::answer::{DenialStatus, How};
use super::problem::{Refusal, shown};
use super::route::Operation;
use super::{HttpState, Reply, body, query};
use crate::engine::Caller;

/// The requests whose body says everything.
pub(super) async fn with_body(
    state: &HttpState,
    operation: Operation,
    request: &mut Request<Incoming>,
) -> Result<Reply, Refusal> {
    let settings = state.settings();
    let query = request.uri().query();
    let denial = match operation {
        Operation::CheckAll | Operation::Peek | Operation::Reserve => denial_status(query)?,
        _ => no_query(query).map(|()| DenialStatus::Ok)?,
    };
    body::check_type(request)?;
    let body = body::read_any(request, settings.body_max, settings.body_timeout).await?;
    let how = How { denial, is_get: false, caller: Caller::http(request.headers()) };
    match operation {
        Operation::CheckAll => several::check_all(state, &body, how).await,
        Operation::Batch => several::batch(state, &body, how.caller).await,
        Operation::Peek => check::peek(state, &body, how).await,
        Operation::Reserve => check::reserve(state, &body, how).await,
        Operation::Refund => units::refund(state, &body).await,
        Operation::Settle => units::settle(state, &body).await,
        Operation::Usage => units::usage(state, &body).await,
        Operation::History => units::history(state, &body).await,
        _ => units::reset(state, &body).await,
    }
}

/// How the query wants a denial to be told. Nothing else may stand in it: a misspelt `cost` that is
/// passed over would be charged as one.
#[inline]
fn denial_status(query: Option<&str>) -> Result<DenialStatus, Refusal> {
    let Some(query) = query else { return Ok(DenialStatus::default()) };
    let mut denial = None;
    for pair in query::pairs(query) {
        let (name, value) = pair?;
        if name != "status" {
            return Err(unknown_parameter(&name, "status"));
        }
        once(&mut denial, "status", parse_status(&value)?)?;
    }
    Ok(denial.unwrap_or_default())
}

fn parse_status(value: &str) -> Result<DenialStatus, Refusal> {
    match value {
        "200" => Ok(DenialStatus::Ok),
        "429" => Ok(DenialStatus::TooMany),
        _ => Err(Refusal::malformed(format!("status {} is not 200 or 429", shown(value)))),
    }
}

/// Where no parameter is known, none is passed over.
pub(super) fn no_query(query: Option<&str>) -> Result<(), Refusal> {
    match query {
        None | Some("") => Ok(()),
        Some(query) => Err(unknown_parameter(query, "none")),
    }
}

#[cold]
fn unknown_parameter(name: &str, known: &str) -> Refusal {
    Refusal::malformed(format!("parameter {} is not known here: use {known}", shown(name)))
}

/// Sets what may be said once.
fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Refusal> {
    if place.replace(value).is_some() {
        return Err(Refusal::malformed(format!("parameter {name} comes twice: say it once")));
    }
    Ok(())
}
