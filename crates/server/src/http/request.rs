//! Requests of the HTTP API: bodies, and the queries that replace them.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use slidegate::{Cost, Quota};
use slidegate_gate::{Ask, Gate, TierId};

use super::error::{ApiError, ApiErrorKind, shown};
use super::reply::DenialStatus;
use crate::engine::Plan;
use crate::json_object::{Object, without_values};
use crate::receipt::PortableReceipt;

/// Defines the body of a request about one key.
macro_rules! key_request {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name<'a> {
            #[serde(borrow)]
            pub(super) policy: Cow<'a, str>,
            #[serde(borrow)]
            pub(super) key: Cow<'a, str>,
            pub(super) tier: Option<String>,
            $($(#[$field_doc])* pub(super) $field: $type,)*
        }

        impl $name<'_> {
            pub(super) fn find<'a>(
                &'a self,
                plan: &'a Plan,
                key_max: usize,
            ) -> Result<KeyTarget<'a>, ApiError> {
                find(plan, &self.policy, &self.key, self.tier.as_deref(), key_max)
            }
        }
    };
}

key_request!(
    /// Checks or peeks `cost` units, one by default.
    CheckRequest { cost: Option<Value> }
);
key_request!(
    /// Takes an estimate.
    ReserveRequest { cost: Value }
);
key_request!(
    /// Reads the state of a key.
    KeyRequest {}
);
key_request!(
    /// Refunds the units of a receipt.
    RefundRequest { receipt: String }
);
key_request!(
    /// Corrects an estimate.
    SettleRequest { receipt: String, actual: Value }
);

/// Several checks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChecksRequest<'a> {
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) asks: Vec<CheckRequest<'a>>,
}

fn objects<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<CheckRequest<'a>>, D::Error> {
    let objects = Vec::<Object<CheckRequest<'a>>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(check)| check).collect())
}

/// Removes a key in every tier.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResetRequest<'a> {
    #[serde(borrow)]
    pub(super) policy: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
}

/// A gate, the tier that applies, and a valid key.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyTarget<'a> {
    pub(super) gate: &'a Gate,
    pub(super) tier: Option<TierId>,
    pub(super) key: &'a [u8],
}

impl CheckRequest<'_> {
    pub(super) fn ask<'a>(&'a self, plan: &'a Plan, key_max: usize) -> Result<Ask<'a>, ApiError> {
        // A malformed cost is reported even if the policy does not exist.
        let cost = self.cost.as_ref().map_or(Ok(Cost::ONE), cost)?;
        Ok(self.find(plan, key_max)?.ask(cost))
    }
}

impl<'a> KeyTarget<'a> {
    pub(super) fn ask(self, cost: Cost) -> Ask<'a> {
        let Self { gate, tier, key } = self;
        Ask { gate, key, tier, cost }
    }
}

/// Looks up the gate and the tier, and checks the key.
pub(super) fn find<'a>(
    plan: &'a Plan,
    policy: &str,
    key: &'a str,
    tier: Option<&str>,
    key_max: usize,
) -> Result<KeyTarget<'a>, ApiError> {
    if !(1..=key_max).contains(&key.len()) {
        return Err(bad_key(key, key_max));
    }
    let gate = plan.gate(policy).ok_or_else(|| unknown_policy(plan, policy))?;
    let tier = match tier {
        None => None,
        Some(name) => Some(gate.tier(name).ok_or_else(|| unknown_tier(gate, name))?),
    };
    Ok(KeyTarget { gate, tier, key: key.as_bytes() })
}

#[cold]
pub(super) fn unknown_policy(plan: &Plan, name: &str) -> ApiError {
    let names = plan.spec().policies.iter().map(|policy| policy.name.as_str());
    ApiError::unknown(ApiErrorKind::UnknownPolicy, &"policy", name, names)
}

#[cold]
fn unknown_tier(gate: &Gate, name: &str) -> ApiError {
    let what = format!("tier of policy {:?} named", gate.name());
    ApiError::unknown(ApiErrorKind::UnknownTier, &what, name, gate.tier_names())
}

/// Never shows the key, which may be a secret.
#[cold]
fn bad_key(key: &str, key_max: usize) -> ApiError {
    let len = key.len();
    ApiError::malformed(format!("a key of {len} bytes is out of range: use 1 to {key_max}"))
}

pub(super) fn receipt(text: &str) -> Result<PortableReceipt, ApiError> {
    PortableReceipt::parse(text).ok_or_else(|| {
        ApiError::malformed(format!(
            "malformed receipt {}: send the receipt of an allowed check unchanged",
            shown(text)
        ))
    })
}

pub(super) fn cost(value: &Value) -> Result<Cost, ApiError> {
    Ok(Cost::new(units("cost", value, 1)?)?)
}

/// Parses a number of units. In JSON, `3.0` is the number 3.
pub(super) fn units(name: &str, value: &Value, least: u64) -> Result<u64, ApiError> {
    let whole = |float: f64| format!("{float}").parse().ok();
    let units = value.as_u64().or_else(|| value.as_f64().and_then(whole));
    units.filter(|units| (least..=Quota::LIMIT_MAX).contains(units)).ok_or_else(|| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let text: String = text.chars().take(40).collect();
        ApiError::malformed(format!(
            "{name} {text} is out of range: use a whole number from {least} to {}",
            Quota::LIMIT_MAX
        ))
    })
}

/// Reads a body as a JSON object.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    // As text, so that UTF-8 is checked once, and not for each string.
    let text = core::str::from_utf8(body).map_err(|error| malformed(&error))?;
    let Object(request) = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    Ok(request)
}

#[cold]
fn malformed(error: &dyn fmt::Display) -> ApiError {
    let reason: String = without_values(&error.to_string()).chars().take(200).collect();
    ApiError::malformed(format!("invalid request body: {reason}"))
}

/// How to carry out a check: the parameters that go with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CheckOptions {
    pub(super) denial: DenialStatus,
    /// How long to wait for units.
    pub(super) wait: Duration,
}

/// Parses a check from a query.
pub(super) fn check_query(
    query: &str,
    wait_max: Duration,
) -> Result<(CheckRequest<'_>, CheckOptions), ApiError> {
    let (mut policy, mut key, mut cost, mut tier) = (None, None, None, None);
    let (mut denial, mut wait) = (None, None);
    for (name, value) in parameters(query)? {
        match &*name {
            "policy" => once(&mut policy, "policy", value)?,
            "key" => once(&mut key, "key", value)?,
            "cost" => once(&mut cost, "cost", digits(&value))?,
            "tier" => once(&mut tier, "tier", value.into_owned())?,
            "status" => once(&mut denial, "status", parse_status(&value)?)?,
            "wait" => once(&mut wait, "wait", parse_wait(&value, wait_max)?)?,
            name => return Err(unknown_parameter(name, "policy, key, cost, tier, status, wait")),
        }
    }
    let (Some(policy), Some(key)) = (policy, key) else {
        let example = "/v1/check?policy=api&key=alice";
        let detail = format!("missing policy or key in the query: use for example {example}");
        return Err(ApiError::malformed(detail));
    };
    let options =
        CheckOptions { denial: denial.unwrap_or_default(), wait: wait.unwrap_or_default() };
    Ok((CheckRequest { policy, key, tier, cost }, options))
}

/// Returns a number if the text is digits only, otherwise the text.
fn digits(text: &str) -> Value {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<u64>().ok().filter(|_| is_digits);
    number.map_or_else(|| Value::from(text), Value::from)
}

/// Reads how to carry out a check that is in the body. With `wait_max` it may wait. Any other parameter
/// is an error: a misspelled `cost` must not be charged as one unit.
pub(super) fn check_options(
    query: Option<&str>,
    wait_max: Option<Duration>,
) -> Result<CheckOptions, ApiError> {
    let Some(query) = query else { return Ok(CheckOptions::default()) };
    let (mut denial, mut wait) = (None, None);
    for (name, value) in parameters(query)? {
        match (&*name, wait_max) {
            ("status", _) => once(&mut denial, "status", parse_status(&value)?)?,
            ("wait", Some(most)) => once(&mut wait, "wait", parse_wait(&value, most)?)?,
            (name, Some(_)) => return Err(unknown_parameter(name, "status, wait")),
            (name, None) => return Err(unknown_parameter(name, "status")),
        }
    }
    Ok(CheckOptions { denial: denial.unwrap_or_default(), wait: wait.unwrap_or_default() })
}

/// Reads a time to wait, in seconds.
pub(super) fn parse_wait(value: &str, most: Duration) -> Result<Duration, ApiError> {
    let seconds = serde_json::from_str(value).ok();
    let wait = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    wait.filter(|wait| *wait <= most).ok_or_else(|| {
        ApiError::malformed(format!(
            "wait {} is out of range: use 0 to {} seconds, which `limits.wait_max` sets",
            shown(value),
            most.as_secs_f64()
        ))
    })
}

fn parse_status(value: &str) -> Result<DenialStatus, ApiError> {
    match value {
        "200" => Ok(DenialStatus::Ok),
        "429" => Ok(DenialStatus::TooMany),
        _ => Err(ApiError::malformed(format!("status {} is not 200 or 429", shown(value)))),
    }
}

/// Rejects a query if no parameter is allowed.
pub(super) fn no_query(query: Option<&str>) -> Result<(), ApiError> {
    match query {
        None | Some("") => Ok(()),
        // Its value may be a key.
        Some(query) => {
            Err(unknown_parameter(query.split(['=', '&']).next().unwrap_or_default(), "none"))
        }
    }
}

#[cold]
fn unknown_parameter(name: &str, known: &str) -> ApiError {
    ApiError::malformed(format!("unknown parameter {}: use {known}", shown(name)))
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), ApiError> {
    if place.replace(value).is_some() {
        return Err(ApiError::malformed(format!("duplicate parameter {name}: send it once")));
    }
    Ok(())
}

/// Returns the decoded parameters of a query.
pub(super) fn parameters(query: &str) -> Result<form_urlencoded::Parse<'_>, ApiError> {
    // The library keeps invalid encodings and replaces invalid UTF-8, so that two different keys
    // could become one.
    decode(query)?;
    Ok(form_urlencoded::parse(query.as_bytes()))
}

/// Decodes `%XX`, strictly.
pub(super) fn decode(text: &str) -> Result<Cow<'_, str>, ApiError> {
    // The text is not shown: it may contain a key.
    let refused =
        |what: &str| ApiError::malformed(format!("the URL {what}: send UTF-8 bytes as %XX"));
    let is_code = |rest: &str| {
        rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_code) {
        return Err(refused("has a % without two hexadecimal digits"));
    }
    percent_decode_str(text).decode_utf8().map_err(|_| refused("is not UTF-8"))
}

#[cfg(test)]
mod tests;
