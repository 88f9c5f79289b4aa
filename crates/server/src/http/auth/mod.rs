//! Forward auth: a proxy asks whether a request that it received may go on.
//!
//! Header fields describe the original request. There are two families: nginx is configured to send
//! `X-Original-*`, Caddy and Traefik send `X-Forwarded-*`. A client can send either, and the proxy only
//! replaces those of its own family. A request with both is therefore refused, unless the proxy's
//! `?headers=`, which no client can change, says which family to trust.

mod key;
mod original;
mod path;
mod rule;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use slidegate_gate::{ASKS_MAX, Ask, Caller, check_all};
use slidegate_http::Problem;

pub(crate) use self::key::{KeySource, RuleKey};
use self::original::FieldFamily;
pub(crate) use self::original::OriginalRequest;
pub(crate) use self::rule::{Mismatch, matches, only};
use super::error::{ApiError, ApiErrorKind, shown};
use super::reply::{self, write_fields};
use super::request::parameters;
use super::{HttpState, Peer, Reply};
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
    let options = AuthOptions::read(request.uri().query().unwrap_or_default())?;
    let original = OriginalRequest::read(request.headers(), options.family)?;
    let (plan, caller) = (state.engine().plan(), Caller::http(request.headers()));
    let source = KeySource {
        address: client.key(address, request.headers()),
        original: &original,
        value_max: state.settings().key_max,
    };
    let rules = matching_rules(&plan, &source, request.headers())?;
    let asks: Vec<Ask<'_>> = rules.iter().map(|(ask, key)| Ask { key, ..*ask }).collect();
    let all = check_all(&asks, None, caller).await;

    let mut judged = Vec::with_capacity(all.len());
    for (ask, decided) in asks.iter().zip(&all) {
        if decided.is_enforced {
            judged.push(reply::judged(ask.gate, ask.tier, &decided.decision));
        }
    }
    if let Some(problem) = Problem::of(&judged) {
        let mut reply = reply::denied(problem, &judged, caller);
        if let Some(status) = options.denied {
            *reply.status_mut() = status;
        }
        return Ok(reply);
    }
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    write_fields(&judged, reply.headers_mut());
    Ok(reply)
}

/// The checks and keys of all rules that match.
pub(crate) fn matching_rules<'a>(
    plan: &'a Plan,
    source: &KeySource<'_>,
    headers: &HeaderMap,
) -> Result<Vec<(Ask<'a>, Vec<u8>)>, ApiError> {
    let mut found = Vec::new();
    for rule in plan.rules() {
        let Ok(matched) = matches(&rule.matches, source.original, headers) else { continue };
        let Some(gate) = plan.gate(&rule.policy) else {
            let detail = format!("rule {:?} names policy {:?}: add it", rule.name, rule.policy);
            return Err(ApiError::new(ApiErrorKind::Failed, detail));
        };
        let key = match source.key(rule, matched.pattern(), headers) {
            RuleKey::Key(key) | RuleKey::Instead(key, _) => key,
            RuleKey::Skip(_) => continue,
            RuleKey::Deny(_) => {
                let detail = format!("rule {:?} needs what the request does not have", rule.name);
                return Err(ApiError::new(ApiErrorKind::Forbidden, detail));
            }
        };
        let tier = rule.tier_header.as_deref().and_then(|name| only(headers, name));
        let tier = tier.and_then(|name| gate.tier(name));
        found.push((Ask { gate, key: &[], tier, cost: rule.cost }, key));
        // A configuration with more rules for one request is invalid.
        if found.len() == ASKS_MAX {
            break;
        }
    }
    Ok(found)
}

/// The query of the proxy's configuration.
struct AuthOptions {
    family: Option<FieldFamily>,
    /// Instead of 429, which nginx treats as a failure.
    denied: Option<StatusCode>,
}

impl AuthOptions {
    fn read(query: &str) -> Result<Self, ApiError> {
        let (mut family, mut denied) = (None, None);
        for (name, value) in parameters(query)? {
            let is_again = match (&*name, &*value) {
                ("headers", "original") => family.replace(FieldFamily::Original).is_some(),
                ("headers", "forwarded") => family.replace(FieldFamily::Forwarded).is_some(),
                ("status", "429") => denied.replace(StatusCode::TOO_MANY_REQUESTS).is_some(),
                ("status", "403") => denied.replace(StatusCode::FORBIDDEN).is_some(),
                _ => true,
            };
            if is_again {
                return Err(ApiError::malformed(format!(
                    "parameter {} is not known here, has another value, or comes twice: use \
                     headers=original|forwarded, status=403|429",
                    shown(&name)
                )));
            }
        }
        Ok(Self { family, denied })
    }
}
