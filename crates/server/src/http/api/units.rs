//! What became of units: given back, settled, looked at, forgotten.

use crate::http::ask::{RefundBody, ResetBody, SettleBody, WhoBody, find, parse, receipt};
use crate::http::json::Json;
use crate::http::problem::Refusal;
use crate::http::{HttpState, Reply, answer};

/// Gives back.
pub(super) async fn refund(state: &HttpState, body: &[u8]) -> Result<Reply, Refusal> {
    let ask: RefundBody<'_> = parse(body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let (limit, tier, key) = find(&plan, &ask.policy, &ask.key, ask.tier.as_ref(), key_max)?;
    let word = receipt(&ask.receipt)?;
    let receipt = limit.receipt(key, word.units, word.tick, word.epoch);
    let refunded = limit.refund(key, tier, receipt).await?;
    Ok(counted(limit.name(), "refunded", refunded))
}

/// Corrects an estimate.
pub(super) async fn settle(state: &HttpState, body: &[u8]) -> Result<Reply, Refusal> {
    let ask: SettleBody<'_> = parse(body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let (limit, tier, key) = find(&plan, &ask.policy, &ask.key, ask.tier.as_ref(), key_max)?;
    let (word, actual) = (receipt(&ask.receipt)?, ask.actual.actual()?);
    let receipt = limit.receipt(key, word.units, word.tick, word.epoch);
    let charged = limit.settle(key, tier, receipt, actual).await?;
    Ok(counted(limit.name(), "charged", charged))
}

fn counted(policy: &str, name: &'static str, units: u64) -> Reply {
    let mut json = Json::with_capacity(128);
    json.open(b'{');
    json.name("policy");
    json.text(policy);
    json.name(name);
    json.number(units);
    json.close(b'}');
    answer::plain(json)
}

/// Tells what counts.
pub(super) async fn usage(state: &HttpState, body: &[u8]) -> Result<Reply, Refusal> {
    let ask: WhoBody<'_> = parse(body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let (limit, tier, key) = find(&plan, &ask.policy, &ask.key, ask.tier.as_ref(), key_max)?;
    let usage = limit.usage(key, tier).await?;
    let mut json = Json::with_capacity(256);
    json.open(b'{');
    json.name("policy");
    json.text(limit.name());
    json.name("quotas");
    json.open(b'[');
    for (index, quota) in limit.quotas(tier).iter().enumerate() {
        json.open(b'{');
        json.name("limit");
        json.number(quota.limit());
        json.name("window");
        json.seconds(quota.window());
        json.name("used");
        json.number(usage.units(index));
        json.close(b'}');
    }
    json.close(b']');
    json.close(b'}');
    Ok(answer::plain(json))
}

/// Lists what counts, oldest first.
pub(super) async fn history(state: &HttpState, body: &[u8]) -> Result<Reply, Refusal> {
    let ask: WhoBody<'_> = parse(body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let (limit, tier, key) = find(&plan, &ask.policy, &ask.key, ask.tier.as_ref(), key_max)?;
    let events = limit.history(key, tier).await?;
    let left_out = events.len().saturating_sub(state.settings().history_max);
    let told = &events[left_out..];
    let mut json = Json::with_capacity(64 + 48 * told.len());
    json.open(b'{');
    json.name("policy");
    json.text(limit.name());
    json.name("events");
    json.open(b'[');
    for event in told {
        json.open(b'{');
        json.name("at");
        json.seconds(event.at);
        json.name("units");
        json.number(event.units);
        json.close(b'}');
    }
    json.close(b']');
    json.name("left_out");
    json.number(left_out as u64);
    json.close(b'}');
    Ok(answer::plain(json))
}

/// Forgets.
pub(super) async fn reset(state: &HttpState, body: &[u8]) -> Result<Reply, Refusal> {
    let ask: ResetBody<'_> = parse(body)?;
    let plan = state.engine().plan();
    let key_max = state.settings().key_max;
    let (limit, _, key) = find(&plan, &ask.policy, &ask.key, None, key_max)?;
    let was_there = limit.reset(key).await?;
    let mut json = Json::with_capacity(128);
    json.open(b'{');
    json.name("policy");
    json.text(limit.name());
    json.name("reset");
    json.bool(was_there);
    json.close(b'}');
    Ok(answer::plain(json))
}
