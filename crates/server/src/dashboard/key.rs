//! One key: its window, and its reset.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use slidegate::{Cost, Decision, ErrorKind, Event, Usage};
use slidegate_gate::{Gate, TierId};

use super::document::{millis, quotas, shown_key};
use super::{Dashboard, charts};
use crate::http::error::{ApiError, ApiErrorKind};
use crate::wall_clock::wall_clock;

/// The maximum number of requests in the reply, the latest ones.
const EVENTS_MAX: usize = 2000;

/// Names a key: by the id in the state document, or by policy and text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyName<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    policy: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tier: Option<Cow<'a, str>>,
    /// The width of the chart in pixels.
    #[serde(default)]
    width: Option<u32>,
    /// The time zone of the chart, in minutes east of UTC.
    #[serde(default)]
    zone: i32,
}

/// A key that was found.
struct Found {
    gate: Arc<Gate>,
    tier: Option<TierId>,
    key: Vec<u8>,
    id: u64,
    is_secret: bool,
}

impl KeyName<'_> {
    fn find(&self, dashboard: &Dashboard) -> Result<Found, ApiError> {
        let plan = dashboard.engine.plan();
        let gate = |name: &str| {
            let found = plan.gates().iter().find(|gate| gate.name() == name);
            found.map(Arc::clone).ok_or_else(|| {
                let known = plan.gates().iter().map(|gate| gate.name());
                ApiError::unknown(ApiErrorKind::UnknownPolicy, &"policy", name, known)
            })
        };
        if let Some(id) = &self.id {
            let found = u64::from_str_radix(id, 16).ok().and_then(|id| dashboard.hot_keys.find(id));
            let state =
                found.filter(|found| !found.state.is_cut).map(|found| (found.id, found.state));
            let Some((id, state)) = state else {
                let detail = "this key is not among the most frequent ones any more: look it up by its policy and its text";
                return Err(ApiError::new(ApiErrorKind::UnknownPath, detail));
            };
            let gate = gate(&state.policy)?;
            let tier = state.tier.as_deref().and_then(|tier| gate.tier(tier));
            return Ok(Found { gate, tier, key: state.key, id, is_secret: state.is_secret });
        }
        let (Some(policy), Some(key)) = (&self.policy, &self.key) else {
            return Err(ApiError::malformed("name the key: send `id`, or `policy` and `key`"));
        };
        let gate = gate(policy)?;
        let tier = self.tier.as_deref().filter(|tier| !tier.is_empty());
        let tier = match tier {
            None => None,
            Some(name) => Some(gate.tier(name).ok_or_else(|| {
                ApiError::unknown(ApiErrorKind::UnknownTier, &"tier", name, gate.tier_names())
            })?),
        };
        let (key, is_secret) = (key.as_bytes().to_vec(), gate.has_secret_keys());
        let id = dashboard.hot_keys.id(policy, &key);
        Ok(Found { gate, tier, key, id, is_secret })
    }
}

/// Describes the window of a key.
pub(super) async fn show(dashboard: &Dashboard, name: &KeyName<'_>) -> Result<Value, ApiError> {
    let Found { gate, tier, key, id, is_secret } = name.find(dashboard)?;
    let usage = gate.usage(&key, tier).await?;
    let decision = gate.peek(&key, tier, Cost::ONE).await?;
    let events = match gate.history(&key, tier).await {
        Ok(events) => Some(events),
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        Err(error) => return Err(error.into()),
    };
    let shown = Shown {
        usage,
        decision,
        events,
        width: name.width.unwrap_or(640),
        zone: charts::Zone::new(name.zone),
    };
    let describe = move || shown.describe(&Found { gate, tier, key, id, is_secret });
    // A long history takes so long that requests would wait for it.
    let described = tokio::task::spawn_blocking(describe).await;
    described.map_err(|_| ApiError::new(ApiErrorKind::Failed, "describing the key panicked"))
}

/// What the store knows about a key, and how it is shown.
struct Shown {
    usage: Usage,
    decision: Decision,
    /// `None` if the algorithm keeps none.
    events: Option<Vec<Event>>,
    width: u32,
    zone: charts::Zone,
}

impl Shown {
    fn describe(&self, found: &Found) -> Value {
        let Self { usage, decision, events, width, zone } = self;
        let Found { gate, tier, key, id, is_secret } = found;
        let now = millis(wall_clock());
        let rows = gate.quotas(*tier).iter().zip(decision.quotas()).enumerate();
        let rows: Vec<Value> = rows
            .map(|(index, (quota, state))| {
                json!({
                    "limit": quota.limit(),
                    "window": quota.window().as_secs_f64(),
                    "text": quota.to_string(),
                    "used": usage.units(index),
                    "remaining": state.remaining(),
                    "retry_after": state.retry_after().duration().map(|time| time.as_secs_f64()),
                    "reset_after": state.reset_after().as_secs_f64(),
                    "chart": events.as_ref().map(|events| {
                        charts::window(quota, events, charts::millis(now), *width, *zone)
                    }),
                })
            })
            .collect();
        let left_out = events.as_ref().map_or(0, |events| events.len().saturating_sub(EVENTS_MAX));
        let events = events.as_ref().map(|events| {
            let latest = events.iter().skip(left_out);
            latest
                .map(|event| json!([event.at.as_secs_f64() * 1000.0, event.units]))
                .collect::<Vec<_>>()
        });
        json!({
            "id": format!("{id:016x}"),
            "policy": gate.name(),
            "mode": gate.mode(),
            "tier": tier.and_then(|tier| gate.tier_name(tier)),
            "key": shown_key(key, *id, *is_secret),
            "is_digest": is_secret,
            "now": now,
            "is_allowed": decision.is_allowed() && !decision.is_shadow_denied(),
            "is_enforced": gate.is_enforced(key),
            "is_blocked": decision.is_blocked(),
            "remaining": decision.remaining(),
            "retry_after": decision.retry_after().duration().map(|time| time.as_secs_f64()),
            "reset_after": decision.reset_after().as_secs_f64(),
            "quotas": rows,
            "policy_quotas": quotas(gate.quotas(*tier)),
            "events": events,
            "left_out": left_out,
        })
    }
}

/// Removes what counts against a key.
pub(super) async fn reset(dashboard: &Dashboard, name: &KeyName<'_>) -> Result<Value, ApiError> {
    let Found { gate, key, id, is_secret, .. } = name.find(dashboard)?;
    let existed = gate.reset(&key).await?;
    let shown = shown_key(&key, id, is_secret);
    tracing::info!(policy = gate.name(), key = shown, existed, "reset a key from the dashboard");
    Ok(json!({"policy": gate.name(), "key": shown, "reset": existed}))
}
