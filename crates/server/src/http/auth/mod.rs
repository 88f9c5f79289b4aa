//! Forward auth: a proxy checks whether a request may be forwarded.
//!
//! Header fields describe the original request. There are two families: nginx is configured to send
//! `X-Original-*`, Caddy and Traefik send `X-Forwarded-*`. A client can send either, and the proxy
//! replaces only those of its own family. A request with both is therefore rejected, unless the
//! proxy's `?headers=`, which no client can change, selects the family to trust.

mod key;
mod original;
mod rule;

use core::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use slidegate::Cost;
use slidegate_gate::{Ask, Caller, Gate, TierId, check_all};
use slidegate_http::Problem;

pub(crate) use self::key::{KeySource, NoPart, RuleKey, tier_name};
use self::original::FieldFamily;
pub(crate) use self::original::OriginalRequest;
pub(crate) use self::rule::{Mismatch, matches};
use super::advertised::{self, advertise_all};
use super::error::{ApiError, ApiErrorKind, shown};
use super::reply::traced;
use super::request::{parameters, parse_wait};
use super::{HttpState, Peer, Reply, waiting};
use crate::config::HeaderSettings;
use crate::engine::Plan;

/// `GET /auth`: checks all rules that match, all or nothing.
pub(super) async fn authorize(
    state: &HttpState,
    request: &Request<Incoming>,
    peer: &Peer,
) -> Result<Reply, ApiError> {
    let client = &state.settings().client;
    let address = peer.address.ip();
    if client.has_trusted_proxies() && !client.is_trusted(address) {
        let detail = "this address is not a trusted proxy: add it to `trusted_proxies`";
        return Err(ApiError::new(ApiErrorKind::Forbidden, detail));
    }
    let options =
        AuthOptions::read(request.uri().query().unwrap_or_default(), state.settings().wait_max)?;
    let original = OriginalRequest::read(request.headers(), options.family)?;
    let (plan, caller) = (state.engine().plan(), Caller::http(request.headers()));
    let source = KeySource {
        address: client.key(address, request.headers()),
        original: &original,
        value_max: state.settings().key_max,
    };
    let rules = matching_rules(&plan, &source, request.headers(), caller)?;
    let asks: Vec<Ask<'_>> = rules.iter().map(MatchedRule::ask).collect();
    let waiting = waiting(state, options.wait, request.extensions().get());
    let all = check_all(&asks, waiting.as_ref(), caller).await;
    let all = all.map_err(|error| ApiError::new(ApiErrorKind::Failed, error.to_string()))?;

    let headers = &state.settings().headers;
    let advertised = advertise_all(headers, &asks, &all);
    if let Some(problem) = advertised::problem(&advertised, &plan) {
        let field = options.problem_field.then(|| problem_field(&problem, headers, caller));
        let mut reply = advertised::denied(headers, problem, &advertised, &plan, caller);
        if let Some(value) = field.flatten() {
            reply.headers_mut().insert(PROBLEM_FIELD, value);
        }
        if let Some(status) = options.denied {
            *reply.status_mut() = status;
        }
        return Ok(reply);
    }
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    advertised::write_fields(headers, &advertised, &plan, reply.headers_mut());
    Ok(reply)
}

/// The body of a denial as a field, for proxies that do not read bodies.
const PROBLEM_FIELD: HeaderName = HeaderName::from_static("x-ratelimit-problem");

/// The longest body that is sent as a field: proxies bound the head of a reply, often to 4 KiB.
const PROBLEM_FIELD_MAX: usize = 2048;

fn problem_field(
    problem: &Problem,
    settings: &HeaderSettings,
    caller: Caller<'_>,
) -> Option<HeaderValue> {
    let body = traced(problem.clone(), caller).body(settings.body());
    HeaderValue::try_from(body).ok().filter(|value| value.len() <= PROBLEM_FIELD_MAX)
}

/// A rule that applies to a request.
#[derive(Debug)]
pub(crate) struct MatchedRule<'a> {
    /// The number of the rule in the configuration.
    pub(crate) place: usize,
    pub(crate) gate: &'a Gate,
    pub(crate) key: Vec<u8>,
    tier: Option<TierId>,
    cost: Cost,
}

impl MatchedRule<'_> {
    /// Returns the check of the request.
    pub(crate) fn ask(&self) -> Ask<'_> {
        Ask { gate: self.gate, key: &self.key, tier: self.tier, cost: self.cost }
    }
}

/// Returns the checks and keys of all rules that match.
pub(crate) fn matching_rules<'a>(
    plan: &'a Plan,
    source: &KeySource<'_>,
    headers: &HeaderMap,
    caller: Caller<'_>,
) -> Result<Vec<MatchedRule<'a>>, ApiError> {
    let mut found = Vec::new();
    for (place, rule) in plan.rules().iter().enumerate() {
        let Ok(matched) = matches(&rule.matches, source.original, headers) else { continue };
        let Some(gate) = plan.gate(&rule.policy) else {
            let detail =
                format!("rule {:?} uses the unknown policy {:?}: add it", rule.name, rule.policy);
            return Err(ApiError::new(ApiErrorKind::Failed, detail));
        };
        let key = match source.key(rule, matched.pattern(), headers) {
            RuleKey::Key(key) | RuleKey::Instead(key, _) => key,
            RuleKey::Skip(_) => continue,
            RuleKey::Deny(why) => {
                if !gate.deny_without_key(caller) {
                    continue;
                }
                let detail = format!("no key for rule {:?}: {why}", rule.name);
                return Err(ApiError::new(ApiErrorKind::Forbidden, detail));
            }
        };
        let tier = tier_name(rule, headers).ok().flatten().and_then(|name| gate.tier(&name));
        found.push(MatchedRule { place, gate, key, tier, cost: rule.cost });
    }
    Ok(found)
}

/// The query of the proxy's configuration.
struct AuthOptions {
    family: Option<FieldFamily>,
    /// The status instead of 429, which nginx treats as a failure.
    denied: Option<StatusCode>,
    /// How long to wait for units.
    wait: Duration,
    /// Whether denials carry their body as a field too.
    problem_field: bool,
}

impl AuthOptions {
    fn read(query: &str, wait_max: Duration) -> Result<Self, ApiError> {
        let (mut family, mut denied, mut wait, mut problem) = (None, None, None, None);
        for (name, value) in parameters(query)? {
            let is_again = match (&*name, &*value) {
                ("headers", "original") => family.replace(FieldFamily::Original).is_some(),
                ("headers", "forwarded") => family.replace(FieldFamily::Forwarded).is_some(),
                ("status", "429") => denied.replace(StatusCode::TOO_MANY_REQUESTS).is_some(),
                ("status", "403") => denied.replace(StatusCode::FORBIDDEN).is_some(),
                ("problem", "header") => problem.replace(true).is_some(),
                ("wait", value) => wait.replace(parse_wait(value, wait_max)?).is_some(),
                _ => true,
            };
            if is_again {
                return Err(ApiError::malformed(format!(
                    "parameter {} is not known here, has another value, or comes twice: use \
                     headers=original|forwarded, status=403|429, problem=header, \
                     wait=SECONDS",
                    shown(&name)
                )));
            }
        }
        let (wait, problem_field) = (wait.unwrap_or_default(), problem.is_some());
        Ok(Self { family, denied, wait, problem_field })
    }
}
