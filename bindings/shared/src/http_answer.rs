//! Header fields of a response, and the body of a denial.

use std::time::SystemTime;

use serde::Deserialize;
use slidegate::{Error, ErrorKind};
use slidegate_gate::{Decided, Gate, TierId};
use slidegate_http::{Body, Fields, Form, PolicyDecision, Problem, QuotaUnit, Reset};

/// Which header fields and which body a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HttpOptions {
    fields: Fields,
    body: Body,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Words {
    ratelimit: String,
    #[serde(alias = "xRatelimit")]
    x_ratelimit: String,
    #[serde(alias = "retryAfter")]
    retry_after: bool,
    body: String,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            ratelimit: "list".to_owned(),
            x_ratelimit: "delta".to_owned(),
            retry_after: true,
            body: "problem".to_owned(),
        }
    }
}

impl HttpOptions {
    /// Reads options as JSON. All are optional:
    ///
    /// | key | values | default |
    /// |---|---|---|
    /// | `ratelimit` | `list`, `dictionary`, `triple`, `off` | `list` |
    /// | `x_ratelimit` | `delta`, `epoch`, `off` | `delta` |
    /// | `retry_after` | `true`, `false` | `true` |
    /// | `body` | `problem`, `json` | `problem` |
    ///
    /// # Errors
    ///
    /// Returns an error if a key or a value is unknown.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let words: Words = serde_json::from_str(json)
            .map_err(|error| setting(format!("invalid header options: {error}")))?;
        let form = match words.ratelimit.as_str() {
            "list" => Some(Form::List),
            "dictionary" => Some(Form::Dictionary),
            "triple" => Some(Form::Triple),
            "off" => None,
            other => return Err(unknown("ratelimit", other, "list, dictionary, triple or off")),
        };
        let reset = match words.x_ratelimit.as_str() {
            "delta" => Some(Reset::Delta),
            "epoch" => Some(Reset::Epoch),
            "off" => None,
            other => return Err(unknown("x_ratelimit", other, "delta, epoch or off")),
        };
        let body = match words.body.as_str() {
            "problem" => Body::Problem,
            "json" => Body::Json,
            other => return Err(unknown("body", other, "problem or json")),
        };
        let fields = Fields::new().ratelimit(form).x_ratelimit(reset);
        Ok(Self { fields: fields.retry_after(words.retry_after), body })
    }
}

fn unknown(what: &str, word: &str, allowed: &str) -> Error {
    setting(format!("unknown {what} {word:?}: use {allowed}"))
}

fn setting(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}

/// The result of one gate for a request, with what is needed to describe it.
#[derive(Debug, Clone, Copy)]
pub struct HttpPart<'a> {
    /// The gate.
    pub gate: &'a Gate,
    /// The tier of the key.
    pub tier: Option<TierId>,
    /// What a unit is, for clients.
    pub unit: &'a QuotaUnit,
    /// The result.
    pub decided: &'a Decided,
}

/// The header fields of a response, and for a denial its status and body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpAnswer {
    /// Names in lower case, with values.
    pub headers: Vec<(String, String)>,
    /// The status, content type and body, if the request is denied.
    pub denial: Option<(u16, &'static str, String)>,
}

impl HttpAnswer {
    /// Describes the results of all gates of a request. Gates that are not enforced for their key
    /// are left out, as in the daemon: clients must not slow down for them. `now` is used only for
    /// resets in seconds since the epoch.
    pub fn new(
        parts: &[HttpPart<'_>],
        options: &HttpOptions,
        now: SystemTime,
        trace_id: Option<&str>,
    ) -> Self {
        let shown: Vec<PolicyDecision<'_>> = parts
            .iter()
            .filter(|part| part.decided.is_enforced)
            .map(|part| {
                PolicyDecision::new(part.gate.store().policy(), &part.decided.decision)
                    .quotas(part.gate.quotas(part.tier))
                    .unit(part.unit)
            })
            .collect();
        let pairs = options.fields.pairs(&shown, now);
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers = pairs.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
        let denial = Problem::of(&shown).map(|problem| {
            let problem = match trace_id {
                Some(id) => problem.trace_id(id),
                None => problem,
            };
            let content_type = match options.body {
                Body::Json => "application/json",
                _ => "application/problem+json",
            };
            (problem.status().as_u16(), content_type, problem.body(options.body))
        });
        Self { headers: headers.collect(), denial }
    }
}
