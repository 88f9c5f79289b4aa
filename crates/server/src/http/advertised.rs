//! Decisions as rate limit fields and denials.

use hmac::{Hmac, Mac};
use http::HeaderMap;
use http::header::RETRY_AFTER;
use http_body_util::Full;
use sha2::Sha256;
use slidegate::Decision;
use slidegate_gate::{Ask, Caller, GateDecision, Rollout};
use slidegate_http::{Fields, PolicyDecision, Problem};

use super::Reply;
use super::reply::traced;
use crate::config::{HeaderSettings, PartitionSecret};
use crate::engine::Plan;
use crate::wall_clock::wall_clock;

/// A decision that rate limit fields are written from.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdvertisedDecision<'a> {
    ask: Ask<'a>,
    decision: &'a Decision,
    is_enforced: bool,
    /// The hash of the key that clients see.
    partition_key: Option<[u8; PARTITION_KEY]>,
}

/// The length of a partition key, in bytes.
const PARTITION_KEY: usize = 16;

impl<'a> AdvertisedDecision<'a> {
    /// Returns `None` if the decision is not shown to clients. Those that slow down for a limit that is
    /// not enforced would distort what shadow mode observes.
    pub(super) fn new(
        settings: &HeaderSettings,
        ask: &Ask<'a>,
        decision: &'a Decision,
        is_enforced: bool,
    ) -> Option<Self> {
        let is_shown = is_enforced || settings.shadow && ask.gate.rollout() != Rollout::Off;
        is_shown.then(|| {
            let secret = settings.partition_secret.as_ref();
            let partition_key = secret.and_then(|secret| partition_key(secret, ask.key));
            Self { ask: *ask, decision, is_enforced, partition_key }
        })
    }

    fn policy_decision(&self, plan: &'a Plan) -> PolicyDecision<'_> {
        let Ask { gate, tier, .. } = self.ask;
        let mut decision =
            PolicyDecision::new(gate.store().policy(), self.decision).quotas(gate.quotas(tier));
        if let Some(unit) = plan.quota_unit(gate.name()) {
            decision = decision.unit(unit);
        }
        match &self.partition_key {
            Some(key) => decision.partition_key(key),
            None => decision,
        }
    }
}

/// Returns what clients see of several decisions.
pub(super) fn advertise_all<'a>(
    settings: &HeaderSettings,
    asks: &[Ask<'a>],
    all: &'a [GateDecision],
) -> Vec<AdvertisedDecision<'a>> {
    let advertised = |(ask, decided): (&Ask<'a>, &'a GateDecision)| {
        AdvertisedDecision::new(settings, ask, &decided.decision, decided.is_enforced)
    };
    asks.iter().zip(all).filter_map(advertised).collect()
}

/// Returns the problem of a request that one of the decisions denies.
pub(super) fn problem(advertised: &[AdvertisedDecision<'_>], plan: &Plan) -> Option<Problem> {
    let enforced = advertised.iter().filter(|one| one.is_enforced);
    Problem::of(&enforced.map(|one| one.policy_decision(plan)).collect::<Vec<_>>())
}

/// Adds the fields of a reply that allows the request.
pub(super) fn write_fields(
    settings: &HeaderSettings,
    advertised: &[AdvertisedDecision<'_>],
    plan: &Plan,
    headers: &mut HeaderMap,
) {
    write(settings.fields(), advertised, plan, headers);
}

/// A denial as an error.
#[cold]
pub(super) fn denied(
    settings: &HeaderSettings,
    problem: Problem,
    advertised: &[AdvertisedDecision<'_>],
    plan: &Plan,
    caller: Caller<'_>,
) -> Reply {
    let mut reply = traced(problem, caller).response(settings.body()).map(Full::from);
    if !settings.retry_after {
        reply.headers_mut().remove(RETRY_AFTER);
    }
    // The problem has its own `Retry-After`, which ignores policies in shadow mode.
    write(settings.fields().retry_after(false), advertised, plan, reply.headers_mut());
    reply
}

fn write(
    fields: Fields,
    advertised: &[AdvertisedDecision<'_>],
    plan: &Plan,
    headers: &mut HeaderMap,
) {
    if !advertised.is_empty() {
        let decisions: Vec<_> = advertised.iter().map(|one| one.policy_decision(plan)).collect();
        fields.write(&decisions, wall_clock(), headers);
    }
}

fn partition_key(secret: &PartitionSecret, key: &[u8]) -> Option<[u8; PARTITION_KEY]> {
    // A secret of any length is accepted.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).ok()?;
    mac.update(key);
    mac.finalize().into_bytes().first_chunk().copied()
}
