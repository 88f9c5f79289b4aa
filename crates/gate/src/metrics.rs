//! The metrics of all gates: one schema, in the text format of Prometheus.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use slidegate::{Stat, StatValue, Store};

use crate::counters::{BOUNDS, Count, Counters};
use crate::exposition::{Kind, Page};
use crate::gate::Gate;
use crate::observe::{GateOutcome, GuardEvent, Observer};

/// Counts the decisions of gates and overload guards for Prometheus.
///
/// ```
/// use std::sync::Arc;
/// use slidegate::{Limiter, Policy, Quota};
/// use slidegate_gate::{Gate, Metrics};
///
/// let metrics = Arc::new(Metrics::new());
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100))?)?;
/// let gate = Gate::builder(limiter).metrics(&metrics).build()?;
/// // In the handler of `/metrics`:
/// assert!(metrics.render().contains(r#"rate_limit_requests_total{policy="api""#));
/// # drop(gate);
/// # Ok::<(), slidegate::Error>(())
/// ```
///
/// | metric | labels |
/// |---|---|
/// | `rate_limit_requests_total` | `policy`, `mode`, `outcome` |
/// | `rate_limit_rejected_total` | `policy`, `mode`, `outcome` |
/// | `rate_limit_degraded_total`, `rate_limit_waited_total` | `policy`, `mode` |
/// | `rate_limit_candidate_total` | `policy`, `mode`, `outcome`, `candidate`, `candidate_outcome` |
/// | `rate_limit_decision_seconds`, a histogram | `policy`, `mode` |
/// | `rate_limit_guarded_total`, `rate_limit_shed_total`, `rate_limit_queued_total` | `guard` |
/// | the store's own, such as `rate_limit_keys` | `store`, `policy`, `algorithm` |
/// | the store's own, of the server that policies share | `store` |
///
/// All label values are names from the configuration, so clients cannot add series. Counters
/// outlive their gates: a gate that is replaced by one of the same policy and mode continues them.
#[derive(Debug, Default)]
pub struct Metrics {
    gates: Mutex<BTreeMap<(Arc<str>, &'static str), Registered>>,
    /// Keyed by address, so that a store is found in constant time.
    stores: Mutex<HashMap<usize, RegisteredStore>>,
    guards: Mutex<BTreeMap<Box<str>, Arc<GuardCounters>>>,
}

#[derive(Debug, Clone)]
struct Registered {
    counters: Arc<Counters>,
    candidate: Option<Box<str>>,
}

type RegisteredStore = (StoreLabels, Weak<dyn Store>);

/// The labels of a store's metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreLabels {
    /// The name of the store.
    pub store: Box<str>,
    /// The name of the policy whose state it holds.
    pub policy: Box<str>,
    /// The algorithm.
    pub algorithm: String,
}

#[derive(Debug, Default)]
struct GuardCounters {
    admitted: Count,
    shed: Count,
    queued: Count,
}

/// The maximum number of gates whose counters are kept, so that a program that keeps creating gates
/// does not create metrics without bound.
const GATES_MAX: usize = 65_536;

/// The maximum number of overload guards whose counters are kept.
const GUARDS_MAX: usize = 1024;

impl Metrics {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the counters for a gate, and includes its stores in the exposition. A store that was
    /// not registered by name is called `memory` or, if it is not in this process, `shared`.
    pub(crate) fn register(&self, gate: &Gate) -> Arc<Counters> {
        let candidate = gate.candidate.as_ref().map(|candidate| &candidate.store);
        for store in core::iter::once(&gate.store).chain(candidate) {
            let known = lock(&self.stores).get(&address(store)).cloned();
            // The address may be that of a store that was dropped.
            if known.is_none_or(|(_, known)| known.strong_count() == 0) {
                let name = if store.in_process().is_some() { "memory" } else { "shared" };
                self.register_store(name, store);
            }
        }
        let mut gates = lock(&self.gates);
        if gates.len() >= GATES_MAX {
            gates.retain(|_, registered| Arc::strong_count(&registered.counters) > 1);
        }
        let id = (Arc::clone(&gate.name), gate.mode());
        if gates.len() >= GATES_MAX && !gates.contains_key(&id) {
            // Counted, but not shown.
            return Arc::default();
        }
        let entry = gates
            .entry(id)
            .or_insert_with(|| Registered { counters: Arc::default(), candidate: None });
        if let Some(candidate) = &gate.candidate {
            entry.candidate = Some(candidate.store.policy().name().into());
        }
        Arc::clone(&entry.counters)
    }

    /// Includes the metrics of a store under a name from the configuration.
    pub fn register_store(&self, name: &str, store: &Arc<dyn Store>) {
        let entry = (StoreLabels::new(name, &**store), Arc::downgrade(store));
        lock(&self.stores).insert(address(store), entry);
    }

    /// Returns all metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut page = Page::new();
        self.write(&mut page);
        page.finish()
    }

    /// Adds all metrics to a page.
    pub fn write(&self, page: &mut Page) {
        self.write_gates(page);
        self.write_stores(page);
        self.write_guards(page);
    }

    fn write_gates(&self, page: &mut Page) {
        let gates = lock(&self.gates).clone();
        let gates: Vec<([(&str, &str); 2], &Registered)> = gates
            .iter()
            .map(|((policy, mode), entry)| ([("policy", &**policy), ("mode", *mode)], entry))
            .collect();
        for (name, help, shown) in [
            (
                "rate_limit_requests_total",
                "Requests decided.",
                (|_| true) as fn(GateOutcome) -> bool,
            ),
            ("rate_limit_rejected_total", "Requests rejected.", GateOutcome::is_rejected),
        ] {
            page.family(name, Kind::Counter, help);
            for ([policy, mode], Registered { counters, .. }) in &gates {
                for outcome in GateOutcome::ALL.into_iter().filter(|outcome| shown(*outcome)) {
                    let labels = [*policy, *mode, ("outcome", outcome.name())];
                    page.sample(&labels, counters.outcome(outcome));
                }
            }
        }
        for (name, help, count) in [
            (
                "rate_limit_degraded_total",
                "Decisions by the failure mode.",
                (|counters| &counters.degraded) as fn(&Counters) -> &Count,
            ),
            ("rate_limit_waited_total", "Requests that waited for units.", |counters| {
                &counters.waited
            }),
        ] {
            page.family(name, Kind::Counter, help);
            for (labels, Registered { counters, .. }) in &gates {
                page.sample(labels, count(counters).get());
            }
        }
        write_candidates(page, &gates);
        page.family("rate_limit_decision_seconds", Kind::Histogram, "Time to decide.");
        for (labels, Registered { counters, .. }) in &gates {
            let time = &counters.time;
            page.histogram(labels, &BOUNDS, &time.cumulative(), time.sum());
        }
    }

    /// Calls `visit` for every policy and mode, in order, with the counters that the page shows.
    ///
    /// `visit` must be fast: no gate can be created meanwhile.
    pub fn for_each_gate(&self, mut visit: impl FnMut(&Arc<str>, &'static str, &Arc<Counters>)) {
        for ((policy, mode), entry) in lock(&self.gates).iter() {
            visit(policy, mode, &entry.counters);
        }
    }

    /// Returns the statistics of all stores, ordered by store and policy, as the page shows them.
    pub fn stores(&self) -> Vec<(StoreLabels, Vec<Stat>)> {
        let alive = {
            let mut stores = lock(&self.stores);
            stores.retain(|_, (_, store)| store.strong_count() > 0);
            stores.values().cloned().collect::<Vec<_>>()
        };
        let mut stores: Vec<(StoreLabels, Vec<Stat>)> = alive
            .into_iter()
            .filter_map(|(labels, store)| Some((labels, store.upgrade()?.stats())))
            .collect();
        stores.sort_by(|(one, _), (other, _)| one.cmp(other));
        // Two stores with the same labels, as with two failure modes or during a reload, would be a
        // duplicate series.
        stores.dedup_by(|(labels, stats), (kept_labels, kept)| {
            let is_same = labels == kept_labels;
            if is_same {
                add(kept, stats);
            }
            is_same
        });
        stores
    }

    fn write_stores(&self, page: &mut Page) {
        let stores = self.stores();
        let mut names: Vec<&Stat> = stores.iter().flat_map(|(_, stats)| stats).collect();
        let mut seen = HashSet::new();
        names.retain(|stat| seen.insert(stat.name));
        for Stat { name, help, value, is_shared, .. } in names {
            page.family(name, kind(value), help);
            let mut last_store = None;
            for (StoreLabels { store, policy, algorithm }, stats) in &stores {
                let labels = [("store", &**store), ("policy", policy), ("algorithm", algorithm)];
                // All policies of a server report the same value, so the first is enough.
                let labels = match is_shared {
                    true if last_store.replace(store) == Some(store) => continue,
                    true => &labels[..1],
                    false => &labels[..],
                };
                for stat in stats.iter().filter(|stat| stat.name == *name) {
                    let labels: Vec<_> = labels.iter().copied().chain(stat.label).collect();
                    write_value(page, &labels, stat.value);
                }
            }
        }
    }

    fn write_guards(&self, page: &mut Page) {
        let guards = lock(&self.guards).clone();
        for (name, help, count) in [
            (
                "rate_limit_guarded_total",
                "Requests that arrived at an overload guard.",
                (|guard| guard.admitted.get() + guard.shed.get()) as fn(&GuardCounters) -> u64,
            ),
            ("rate_limit_shed_total", "Requests rejected by an overload guard.", |guard| {
                guard.shed.get()
            }),
            ("rate_limit_queued_total", "Requests queued by an overload guard.", |guard| {
                guard.queued.get()
            }),
        ] {
            page.family(name, Kind::Counter, help);
            for (guard, counters) in &guards {
                page.sample(&[("guard", guard)], count(counters));
            }
        }
    }

    fn guard(&self, name: &str) -> Option<Arc<GuardCounters>> {
        let mut guards = lock(&self.guards);
        if let Some(known) = guards.get(name) {
            return Some(Arc::clone(known));
        }
        (guards.len() < GUARDS_MAX).then(|| Arc::clone(guards.entry(name.into()).or_default()))
    }
}

/// Counts the events of overload guards. Gates count their own decisions: see
/// [`GateBuilder::metrics`].
///
/// [`GateBuilder::metrics`]: crate::GateBuilder::metrics
impl Observer for Metrics {
    fn decided(&self, _: &crate::Observation<'_>) {}

    fn guarded(&self, event: &GuardEvent<'_>) {
        let Some(counters) = self.guard(event.guard) else { return };
        if event.is_shed { &counters.shed } else { &counters.admitted }.add(1);
        counters.queued.add(u64::from(!event.queued.is_zero()));
    }
}

fn write_candidates(page: &mut Page, gates: &[([(&str, &str); 2], &Registered)]) {
    let help = "Requests by the outcome of the policy and of its candidate.";
    page.family("rate_limit_candidate_total", Kind::Counter, help);
    for ([policy, mode], Registered { counters, candidate }) in gates {
        let Some(candidate) = candidate else { continue };
        for outcome in GateOutcome::ALL {
            for (would_deny, candidate_outcome) in [(false, "allowed"), (true, "denied")] {
                let count = counters.candidate(outcome, would_deny);
                if count > 0 {
                    let labels = [
                        *policy,
                        *mode,
                        ("outcome", outcome.name()),
                        ("candidate", &**candidate),
                        ("candidate_outcome", candidate_outcome),
                    ];
                    page.sample(&labels, count);
                }
            }
        }
    }
}

/// Adds the values of a store to those of another one with the same labels. Both report the same
/// about servers that they share.
fn add(kept: &mut [Stat], more: &[Stat]) {
    for (kept, more) in kept.iter_mut().zip(more).filter(|(kept, _)| !kept.is_shared) {
        kept.value = match (kept.value, more.value) {
            (StatValue::Count(one), StatValue::Count(other)) => StatValue::Count(one + other),
            (StatValue::Gauge(one), StatValue::Gauge(other)) => StatValue::Gauge(one + other),
            (StatValue::Time(one), StatValue::Time(other)) => StatValue::Time(one.max(other)),
            (kept, _) => kept,
        };
    }
}

impl StoreLabels {
    fn new(name: &str, store: &dyn Store) -> Self {
        let policy = store.policy();
        let algorithm = policy.algorithm().to_string();
        Self { store: name.into(), policy: policy.name().into(), algorithm }
    }
}

fn kind(value: &StatValue) -> Kind {
    match value {
        StatValue::Count(_) => Kind::Counter,
        _ => Kind::Gauge,
    }
}

fn write_value(page: &mut Page, labels: &[(&str, &str)], value: StatValue) {
    match value {
        StatValue::Count(value) | StatValue::Gauge(value) => page.sample(labels, value),
        StatValue::Time(value) => page.seconds(labels, value),
        StatValue::Ratio(part, whole) => page.ratio(labels, part, whole),
    }
}

fn address(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).addr()
}

/// Locks a mutex, also after a panic: entries are added in one step, so the map stays consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
