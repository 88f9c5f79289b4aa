//! The state document: every number that the page and `slidegate top` show.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use slidegate::{Quota, Stat, StatValue, Store};
use slidegate_gate::{Counters, Gate, GateOutcome, StoreLabels};

use super::charts::Zone;
use super::config_view::ConfigState;
use super::history::{PERCENTILES, Percentiles, Rates, Requests};
use super::hot_keys::HotKey;
use super::{Dashboard, charts};
use crate::engine::Plan;
use crate::http::Connections;
use crate::spec::PolicySpec;
use crate::wall_clock::wall_clock;

/// The maximum number of policies in the document, those with the most requests first.
const POLICIES_MAX: usize = 200;
/// The maximum number of keys in each list.
const KEYS_MAX: usize = 50;
/// Points of the small chart of a policy.
const SPARK_PARTS: usize = 60;

/// What a client wants to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The widths of the two charts in pixels; `None` for no charts.
    pub(super) charts: Option<[u32; 2]>,
    /// The policy that the chart of requests shows; `None` for all.
    pub(super) policy: Option<String>,
    /// The version of the configuration that the client has.
    pub(super) config: Option<u64>,
    /// The time zone of the charts.
    pub(super) zone: Zone,
}

impl View {
    /// Reads `charts=760,420&policy=api&config=1700000000000&zone=120`. Unknown names are ignored.
    pub(super) fn parse(query: Option<&str>) -> Self {
        let mut view = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "charts" => {
                    let (first, second) = value.split_once(',').unwrap_or((&value, &value));
                    let widths = first.parse().ok().zip(second.parse().ok());
                    view.charts = widths.map(|(first, second)| [first, second]);
                }
                "policy" if !value.is_empty() => view.policy = Some(value.into_owned()),
                "config" => view.config = value.parse().ok(),
                "zone" => view.zone = value.parse().map(Zone::new).unwrap_or_default(),
                _ => {}
            }
        }
        view
    }
}

/// A state document as JSON.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) json: String,
    /// The version of the configuration that it describes.
    pub(super) config: Option<u64>,
}

/// Writes the document. With thousands of policies this takes milliseconds.
pub(super) fn write(
    dashboard: &Dashboard,
    listeners: &[Arc<Connections>],
    view: &View,
) -> Document {
    let plan = arc_swap::Guard::into_inner(dashboard.engine.plan());
    let config = dashboard.config.as_ref().map(|config| config.state());
    let known = KnownPolicies::new(&plan);
    let (found, totals) = busiest(dashboard, &known);
    let mut document = history_json(dashboard, &known, &found, totals, config.as_deref(), view);
    let stores = dashboard.engine.metrics().stores();
    let reloads = &dashboard.reloads;
    let rest = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now": millis(wall_clock()),
        "uptime": dashboard.started.elapsed().as_secs(),
        "policies_in_all": plan.gates().len(),
        "memory": memory(&stores, plan.spec().memory().limit),
        "stores": stores_json(&stores, &plan),
        "listeners": listeners.iter().map(|listener| listener_json(listener)).collect::<Vec<_>>(),
        "keys": keys(dashboard),
        "reloads": {"ok": reloads.get("ok"), "failed": reloads.get("failed")},
        "config": config.as_ref().map(|config| config_json(config, view)),
    });
    if let Value::Object(rest) = rest {
        document.extend(rest);
    }
    let config = config.map(|config| millis(config.loaded_at));
    Document { json: Value::Object(document).to_string(), config }
}

/// Describes what the history contributes to. Its lock is held only here: the sampling waits for it.
fn history_json(
    dashboard: &Dashboard,
    known: &KnownPolicies<'_>,
    found: &[(PolicyId, Arc<Counters>)],
    totals: Requests,
    config: Option<&ConfigState>,
    view: &View,
) -> Map<String, Value> {
    let history = dashboard.history.lock();
    let rows = found.iter().map(|(id, counters)| {
        let rates = history.policy(&id.0, id.1);
        (id.clone(), policy_json(id, counters, known, rates, config))
    });
    let rows: Vec<(PolicyId, Value)> = rows.collect();
    let shown = view.policy.as_ref().map(|wanted| row_of(&rows, wanted));
    let charts = view.charts.map(|[requests, latency]| {
        let rates = match shown {
            None => Some(history.all()),
            Some(id) => id.and_then(|(policy, mode)| history.policy(policy, mode)),
        };
        json!({
            "requests": rates.map(|rates| charts::requests(&history, rates, requests, view.zone)),
            "latency": charts::latency(&history, latency, view.zone),
        })
    });
    let mut document = Map::new();
    let rows = rows.into_iter().map(|(_, row)| row);
    document.insert("policies".to_owned(), rows.collect());
    document.insert("totals".to_owned(), totals_json(totals, history.all()));
    document.insert("latency".to_owned(), percentiles(history.latency()));
    document.insert("shared_latency".to_owned(), percentiles(history.shared_latency()));
    document.insert("charts".to_owned(), charts.into());
    document
}

type PolicyId = (Arc<str>, &'static str);

/// What the current plan knows about its policies, for a lookup per row instead of a search.
struct KnownPolicies<'a> {
    /// By name and mode.
    gates: HashMap<(&'a str, &'static str), &'a Arc<Gate>>,
    specs: HashMap<&'a str, &'a PolicySpec>,
    /// The names of stores, by address.
    stores: HashMap<*const (), &'a str>,
}

impl<'a> KnownPolicies<'a> {
    fn new(plan: &'a Plan) -> Self {
        let gates = plan.gates().iter().map(|gate| ((gate.name(), gate.mode()), gate));
        let specs = plan.spec().policies.iter().map(|policy| (&*policy.name, policy));
        let stores = plan.stores().iter().map(|(id, store)| (address(store), &*id.store));
        Self { gates: gates.collect(), specs: specs.collect(), stores: stores.collect() }
    }
}

fn address(store: &Arc<dyn Store>) -> *const () {
    Arc::as_ptr(store).cast()
}

/// Returns the policies and modes with the most requests, the busiest first, and the sum of all.
fn busiest(
    dashboard: &Dashboard,
    known: &KnownPolicies<'_>,
) -> (Vec<(PolicyId, Arc<Counters>)>, Requests) {
    let mut totals = Requests::default();
    let mut found: Vec<(PolicyId, Arc<Counters>)> = Vec::new();
    dashboard.engine.metrics().for_each_gate(|policy, mode, counters| {
        totals.add(Requests::of(counters));
        found.push(((Arc::clone(policy), mode), Arc::clone(counters)));
    });
    // A policy of an earlier configuration, or with another mode then, is shown if it had requests.
    found.retain(|((policy, mode), counters)| {
        known.gates.contains_key(&(&**policy, *mode)) || Requests::of(counters).sum() > 0
    });
    found.sort_by_cached_key(|((policy, _), counters)| {
        (core::cmp::Reverse(Requests::of(counters).sum()), Arc::clone(policy))
    });
    found.truncate(POLICIES_MAX);
    (found, totals)
}

/// Returns the row of a policy. If its mode has changed, it has one for each, and the one in use is
/// returned.
fn row_of<'a>(rows: &'a [(PolicyId, Value)], policy: &str) -> Option<&'a PolicyId> {
    let rows = || rows.iter().filter(|(_, row)| row["name"] == policy);
    let in_use = rows().find(|(_, row)| row["is_active"] == true);
    in_use.or_else(|| rows().next()).map(|(id, _)| id)
}

fn policy_json(
    (name, mode): &PolicyId,
    counters: &Counters,
    known: &KnownPolicies<'_>,
    rates: Option<&Rates>,
    config: Option<&ConfigState>,
) -> Value {
    let outcomes = GateOutcome::ALL
        .into_iter()
        .map(|outcome| (outcome.name().to_owned(), json!(counters.outcome(outcome))));
    let gate = known.gates.get(&(&**name, *mode));
    let spec = known.specs.get(&**name);
    let origin = config.and_then(|config| config.origins.get(&**name));
    let empty = Rates::default();
    let rates = rates.unwrap_or(&empty);
    let mut row = json!({
        "name": &**name,
        "mode": mode,
        "requests": requests_json(Requests::of(counters)),
        "per_second": rates_json(rates),
        "outcomes": outcomes.collect::<Map<_, _>>(),
        "degraded": counters.degraded.get(),
        "waited": counters.waited.get(),
        "parts": rates.parts(SPARK_PARTS),
        "is_active": gate.is_some(),
        "origin": origin,
    });
    if let Some(gate) = gate {
        row["quotas"] = quotas(gate.quotas(None));
        row["algorithm"] = json!(gate.store().policy().algorithm().to_string());
        row["percent"] = json!(spec.map_or(100, |spec| spec.enforce_percent));
        row["tiers"] = json!(gate.tier_names().collect::<Vec<_>>());
        row["store"] = json!(known.stores.get(&address(gate.store())));
        row["is_available"] = json!(gate.store().is_available());
        row["secret_keys"] = json!(gate.has_secret_keys());
    }
    // A row of a mode that is no longer in use has no candidate.
    if gate.is_some()
        && let Some(candidate) = spec.and_then(|spec| spec.candidate.as_ref())
    {
        let denied = |would_deny: bool, is_denied: bool| {
            let outcomes = GateOutcome::ALL.into_iter();
            let wanted = outcomes.filter(|outcome| {
                (outcome.is_rejected() || *outcome == GateOutcome::ShadowDenied) == is_denied
            });
            wanted.map(|outcome| counters.candidate(outcome, would_deny)).sum::<u64>()
        };
        row["candidate"] = json!({
            "quotas": quotas(&candidate.quotas),
            "algorithm": candidate.algorithm.to_string(),
            "would_deny": counters.candidate_denied(),
            "newly_denied": denied(true, false),
            "newly_allowed": denied(false, true),
        });
    }
    row
}

fn requests_json(requests: Requests) -> Value {
    let Requests { allowed, denied, would_be_denied } = requests;
    json!({"allowed": allowed, "denied": denied, "would_be_denied": would_be_denied})
}

fn rates_json(rates: &Rates) -> Value {
    let [allowed, denied, would_be_denied] = rates.current();
    json!({"allowed": allowed, "denied": denied, "would_be_denied": would_be_denied})
}

fn totals_json(requests: Requests, rates: &Rates) -> Value {
    json!({"requests": requests_json(requests), "per_second": rates_json(rates)})
}

fn percentiles(latency: Percentiles) -> Value {
    let named = PERCENTILES.into_iter().zip(latency);
    let seconds = |nanos: Option<u64>| nanos.map(|nanos| Duration::from_nanos(nanos).as_secs_f64());
    named
        .map(|((name, _), nanos)| (name.to_owned(), json!(seconds(nanos))))
        .collect::<Map<_, _>>()
        .into()
}

pub(super) fn quotas(quotas: &[Quota]) -> Value {
    let quota = |quota: &Quota| json!({"limit": quota.limit(), "window": quota.window().as_secs_f64(), "text": quota.to_string()});
    quotas.iter().map(quota).collect()
}

/// Sums what all stores in memory report.
fn memory(stores: &[(StoreLabels, Vec<Stat>)], budget: usize) -> Value {
    let sum = |name: &str| -> u64 {
        let stats = stores.iter().flat_map(|(_, stats)| stats).filter(|stat| stat.name == name);
        stats.map(|stat| whole(stat.value)).sum()
    };
    json!({
        "keys": sum("rate_limit_keys"),
        "bytes": sum("rate_limit_memory_bytes"),
        "budget": budget,
        "evictions": sum("rate_limit_evictions_total"),
        "overflowed": sum("rate_limit_overflowed_total"),
        "expired": sum("rate_limit_swept_total"),
        "blocked": sum("rate_limit_blocked_keys"),
        "waiters": sum("rate_limit_waiters"),
    })
}

/// Writes what each store reports, under the names of `/metrics`: the sum over its policies.
fn stores_json(stores: &[(StoreLabels, Vec<Stat>)], plan: &Plan) -> Value {
    let mut all: BTreeMap<&str, (Map<String, Value>, usize)> = BTreeMap::new();
    for (labels, stats) in stores {
        let (sums, policies) = all.entry(&labels.store).or_default();
        *policies += 1;
        for stat in stats {
            let name = match stat.label {
                Some((_, label)) => format!("{}.{label}", stat.name),
                None => stat.name.to_owned(),
            };
            let before = if stat.is_shared {
                0.0
            } else {
                sums.get(&name).and_then(Value::as_f64).unwrap_or(0.0)
            };
            let value = match stat.value {
                StatValue::Time(time) => json!(before.max(time.as_secs_f64())),
                StatValue::Count(_) | StatValue::Gauge(_) => {
                    let before =
                        sums.get(&name).filter(|_| !stat.is_shared).and_then(Value::as_u64);
                    json!(before.unwrap_or(0).saturating_add(whole(stat.value)))
                }
                // The sum of shares has no meaning.
                StatValue::Ratio(..) => continue,
            };
            sums.insert(name, value);
        }
    }
    let available = |name: &str| {
        let mut of_store = plan.stores().iter().filter(|(id, _)| id.store == name);
        of_store.all(|(_, store)| store.is_available())
    };
    let is_memory = |name: &str| {
        plan.stores().iter().any(|(id, store)| id.store == name && store.in_process().is_some())
    };
    let store = |(name, (stats, policies)): (&str, (Map<String, Value>, usize))| {
        json!({
            "name": name, "policies": policies, "stats": stats,
            "is_memory": is_memory(name), "is_available": available(name),
        })
    };
    all.into_iter().map(store).collect()
}

fn whole(value: StatValue) -> u64 {
    match value {
        StatValue::Count(value) | StatValue::Gauge(value) => value,
        _ => 0,
    }
}

fn listener_json(listener: &Connections) -> Value {
    json!({
        "name": listener.name(),
        "open": listener.open(),
        "max": listener.max(),
        "accepted": listener.accepted.get(),
        "refused": listener.refused.get(),
        "failed": listener.failed.get(),
        "cut": listener.cut.get(),
        "panics": listener.panics.get(),
    })
}

fn keys(dashboard: &Dashboard) -> Value {
    let keys = |keys: Vec<HotKey>| keys.iter().map(key_json).collect::<Vec<_>>();
    json!({
        "recorded_one_in": dashboard.hot_keys.stride(),
        "hottest": keys(dashboard.hot_keys.hottest(KEYS_MAX)),
        "closest": keys(dashboard.hot_keys.closest(KEYS_MAX)),
    })
}

fn key_json(key: &HotKey) -> Value {
    let HotKey { id, count, error, state } = key;
    json!({
        "id": format!("{id:016x}"),
        "policy": state.policy,
        "tier": state.tier,
        "key": shown_key(&state.key, *id, state.is_secret || state.is_cut),
        "is_digest": state.is_secret || state.is_cut,
        "requests": count,
        "error": error,
        "per_second": state.rate,
        "denied_per_second": state.denied_rate,
        "limit": state.limit,
        "remaining": state.remaining,
        "is_over": state.is_over,
    })
}

/// Returns the text of a key. Bytes that are not text are written as `\x00`.
pub(super) fn shown_key(key: &[u8], id: u64, is_hidden: bool) -> String {
    if is_hidden {
        return format!("hash:{id:016x}");
    }
    let mut text = String::with_capacity(key.len());
    for chunk in key.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() {
                text.extend(letter.escape_default());
            } else {
                text.push(letter);
            }
        }
        for byte in chunk.invalid() {
            text.extend(core::ascii::escape_default(*byte).map(char::from));
        }
    }
    text
}

fn config_json(config: &ConfigState, view: &View) -> Value {
    let version = millis(config.loaded_at);
    let last = config.last.as_ref().map(|last| {
        let (is_ok, message) = match &last.result {
            Ok(message) => (true, message),
            Err(error) => (false, error),
        };
        json!({"at": millis(last.at), "ok": is_ok, "message": message})
    });
    // It rarely changes and may be long.
    let text = (view.config != Some(version)).then_some(&config.text);
    json!({
        "version": version, "files": config.files, "warnings": config.warnings, "last_reload": last,
        "text": text,
    })
}

pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_in_use_is_drawn() {
        let row = |mode, is_active| {
            ((Arc::from("api"), mode), json!({"name": "api", "is_active": is_active}))
        };
        let rows = [row("shadow", false), row("enforce", true)];
        assert_eq!(row_of(&rows, "api"), Some(&(Arc::from("api"), "enforce")));
        assert_eq!(row_of(&rows[..1], "api"), Some(&(Arc::from("api"), "shadow")));
        assert_eq!(row_of(&rows, "login"), None);
    }
}
