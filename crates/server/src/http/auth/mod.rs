//! Forward auth: a proxy asks about a request that it has received.
//!
//! What the request was is told in header fields, of which there are two families: nginx is configured
//! to send `X-Original-*`, Caddy and Traefik send `X-Forwarded-*`. A client can write either. The
//! proxy replaces those of its own family, so a request with both is refused unless the address that
//! the proxy asks at (`?headers=`), which no client can change, says which one to believe.

mod key;
mod original;
mod path;
mod rule;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use slidegate_http::Problem;

use self::key::Missing;
use self::original::{Family, Original};
use super::answer::{self, write_fields};
use super::problem::{Refusal, RefusalKind, shown};
use super::{HttpState, Peer, Reply, query};
use crate::engine::{ASKS_MAX, Ask, Caller, Plan, check_all};

/// Judges a request by all rules that it matches, all or nothing.
pub(super) async fn judge(
    state: &HttpState,
    request: &Request<Incoming>,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let client = &state.settings().client;
    let address = peer.address.ip();
    if client.has_trusted_proxies() && !client.is_trusted(address) {
        let detail = "this address is not a trusted proxy: add it to `trusted_proxies`";
        return Err(Refusal::new(RefusalKind::Forbidden, detail));
    }
    let options = Options::read(request.uri().query().unwrap_or_default())?;
    let original = Original::read(request.headers(), options.family)?;
    let (plan, caller) = (state.engine().plan(), Caller::http(request.headers()));
    let who = key::Who { address: client.key(address, request.headers()), original: &original };
    let asked = asked(&plan, &who, request.headers())?;
    let asks: Vec<Ask<'_>> = asked.iter().map(Asked::as_ask).collect();
    let answers = check_all(&asks, caller).await;

    let mut judged = Vec::with_capacity(answers.len());
    for (ask, answer) in asks.iter().zip(&answers) {
        if ask.limit.is_enforced(ask.key) {
            judged.push(answer::judged(ask.limit, ask.tier, &answer.decision));
        }
    }
    if let Some(problem) = Problem::of(&judged) {
        let mut reply = answer::denied(problem, &judged, caller);
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

/// A question that a rule leads to.
struct Asked<'a> {
    ask: Ask<'a>,
    key: Vec<u8>,
}

impl Asked<'_> {
    fn as_ask(&self) -> Ask<'_> {
        Ask { key: &self.key, ..self.ask }
    }
}

/// The questions of all rules that match, before any of them is asked.
fn asked<'a>(
    plan: &'a Plan,
    who: &key::Who<'_>,
    headers: &HeaderMap,
) -> Result<Vec<Asked<'a>>, Refusal> {
    let mut asked = Vec::new();
    for rule in plan.rules() {
        let Some(path) = rule::matches(&rule.matches, who.original, headers) else { continue };
        let Some(limit) = plan.limit(&rule.policy) else {
            let detail = format!("rule {:?} names policy {:?}: add it", rule.name, rule.policy);
            return Err(Refusal::new(RefusalKind::Failed, detail));
        };
        let key = match who.key(rule, path, headers) {
            Ok(key) => key,
            Err(Missing::Skip) => continue,
            Err(Missing::Deny) => {
                let detail = format!("rule {:?} needs what the request does not have", rule.name);
                return Err(Refusal::new(RefusalKind::Forbidden, detail));
            }
        };
        let tier = rule.tier_header.as_deref().and_then(|name| rule::only(headers, name));
        let tier = tier.and_then(|name| limit.tier(name));
        asked.push(Asked { ask: Ask { limit, key: &[], tier, cost: rule.cost }, key });
        // No more are asked together. Configurations with more rules for one request are refused.
        if asked.len() == ASKS_MAX {
            break;
        }
    }
    Ok(asked)
}

/// The key by which a rule counts a request, and none if it does not: what `config explain` says is
/// held against it.
#[cfg(test)]
pub(crate) fn counted_by(
    rule: &crate::spec::RuleSpec,
    [method, host, path]: [&str; 3],
    address: slidegate_http::AddressKey,
    headers: &HeaderMap,
) -> Option<Vec<u8>> {
    let original =
        Original { method: method.to_owned(), host: host.to_owned(), path: path.to_owned() };
    let pattern = rule::matches(&rule.matches, &original, headers)?;
    key::Who { address, original: &original }.key(rule, pattern, headers).ok()
}

/// What the proxy's configuration says, in the address it asks at.
struct Options {
    family: Option<Family>,
    /// In place of 429: nginx takes that for a failure.
    denied: Option<StatusCode>,
}

impl Options {
    fn read(query: &str) -> Result<Self, Refusal> {
        let (mut family, mut denied) = (None, None);
        for pair in query::pairs(query) {
            let (name, value) = pair?;
            let is_again = match (&*name, &*value) {
                ("headers", "original") => family.replace(Family::Original).is_some(),
                ("headers", "forwarded") => family.replace(Family::Forwarded).is_some(),
                ("status", "429") => denied.replace(StatusCode::TOO_MANY_REQUESTS).is_some(),
                ("status", "403") => denied.replace(StatusCode::FORBIDDEN).is_some(),
                _ => true,
            };
            if is_again {
                return Err(Refusal::malformed(format!(
                    "parameter {}={} is not known here, or comes twice: use \
                     headers=original|forwarded, status=403|429",
                    shown(&name),
                    shown(&value)
                )));
            }
        }
        Ok(Self { family, denied })
    }
}
