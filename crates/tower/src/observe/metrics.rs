//! Counters for Prometheus.

use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::{Enforcement, Guarded, Happened, Judgement, Observer};

/// Counts what gates and guards do, and writes it as Prometheus reads it.
///
/// ```
/// use std::sync::Arc;
/// use slidegate::{Limiter, Policy, Quota};
/// use slidegate_tower::{Gate, Metrics, RateLimitLayer};
///
/// let metrics = Arc::new(Metrics::new());
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100)?)?)?;
/// let layer = RateLimitLayer::builder()
///     .gate(Gate::new(limiter))
///     .observer(Arc::clone(&metrics))
///     .build()?;
/// // In the handler of `/metrics`:
/// let _text: String = metrics.render();
/// # let _ = layer;
/// # Ok::<(), slidegate::Error>(())
/// ```
///
/// | metric | labels |
/// |---|---|
/// | `rate_limit_requests_total` | `policy`, `mode`, `outcome` |
/// | `rate_limit_rejected_total` | `policy`, `mode`, `outcome` |
/// | `rate_limit_degraded_total` | `policy`, `mode` |
/// | `rate_limit_waited_total` | `policy`, `mode` |
/// | `rate_limit_candidate_total` | `policy`, `mode`, `outcome`, `candidate`, `candidate_outcome` |
/// | `rate_limit_decision_seconds`, a histogram | `policy`, `mode` |
/// | `rate_limit_guarded_total`, `rate_limit_shed_total`, `rate_limit_queued_total` | `guard` |
///
/// All labels are names of the configuration: their number does not hang on what clients send.
#[derive(Debug, Default)]
pub struct Metrics {
    policies: RwLock<Vec<Arc<PolicyCounts>>>,
    guards: RwLock<Vec<Arc<GuardCounts>>>,
}

const OUTCOMES: usize = Happened::ALL.len();

/// Upper bounds of the histogram, in nanoseconds: a microsecond to a second.
const BOUNDS: [(u64, &str); 8] = [
    (1_000, "0.000001"),
    (10_000, "0.00001"),
    (100_000, "0.0001"),
    (1_000_000, "0.001"),
    (5_000_000, "0.005"),
    (25_000_000, "0.025"),
    (100_000_000, "0.1"),
    (1_000_000_000, "1"),
];

#[derive(Debug)]
struct PolicyCounts {
    policy: String,
    enforcement: Enforcement,
    /// Known with the first request that it judged.
    candidate: OnceLock<String>,
    happened: [AtomicU64; OUTCOMES],
    /// By what happened, and by what would have happened.
    candidates: [[AtomicU64; OUTCOMES]; OUTCOMES],
    degraded: AtomicU64,
    waited: AtomicU64,
    /// One more for all that took longer than the last bound.
    took: [AtomicU64; BOUNDS.len() + 1],
    took_nanos: AtomicU64,
}

#[derive(Debug, Default)]
struct GuardCounts {
    guard: String,
    passed: AtomicU64,
    shed: AtomicU64,
    queued: AtomicU64,
}

/// One of a guard's counts.
type Total = fn(&GuardCounts) -> u64;

/// The most policies and guards that are told apart. A configuration has fewer; who makes layers
/// without end must not make metrics without end.
const NAMES_MAX: usize = 1024;

impl Metrics {
    /// All zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything, in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        family(&mut text, "rate_limit_requests_total", "counter", "Requests judged.");
        for counts in &*policies {
            counts.render_outcomes(&mut text, "rate_limit_requests_total", |_| true);
        }
        family(&mut text, "rate_limit_rejected_total", "counter", "Requests turned away.");
        for counts in &*policies {
            counts.render_outcomes(&mut text, "rate_limit_rejected_total", Happened::is_rejected);
        }
        family(&mut text, "rate_limit_degraded_total", "counter", "Answers by the failure mode.");
        for counts in &*policies {
            let total = load(&counts.degraded);
            line(&mut text, "rate_limit_degraded_total", &counts.labels(), total);
        }
        family(&mut text, "rate_limit_waited_total", "counter", "Requests that waited for units.");
        for counts in &*policies {
            let total = load(&counts.waited);
            line(&mut text, "rate_limit_waited_total", &counts.labels(), total);
        }
        family(&mut text, "rate_limit_candidate_total", "counter", "Live and candidate policies.");
        for counts in &*policies {
            counts.render_candidates(&mut text);
        }
        family(&mut text, "rate_limit_decision_seconds", "histogram", "Time to decide.");
        for counts in &*policies {
            counts.render_took(&mut text);
        }
        self.render_guards(&mut text);
        text
    }

    fn render_guards(&self, text: &mut String) {
        let guards = self.guards.read().unwrap_or_else(PoisonError::into_inner);
        let families: [(&str, &str, Total); 3] = [
            ("rate_limit_guarded_total", "Requests that came to a guard.", |counts| {
                load(&counts.passed) + load(&counts.shed)
            }),
            ("rate_limit_shed_total", "Requests sent away.", |counts| load(&counts.shed)),
            ("rate_limit_queued_total", "Requests queued first.", |counts| load(&counts.queued)),
        ];
        for (name, help, total) in families {
            family(text, name, "counter", help);
            for counts in &*guards {
                line(text, name, &[("guard", &counts.guard)], total(counts));
            }
        }
    }

    fn policy(&self, judgement: &Judgement<'_>) -> Option<Arc<PolicyCounts>> {
        let same = |counts: &&Arc<PolicyCounts>| {
            counts.policy == judgement.policy && counts.enforcement == judgement.enforcement
        };
        find_or_add(&self.policies, same, || PolicyCounts::new(judgement))
    }

    fn guard(&self, guard: &str) -> Option<Arc<GuardCounts>> {
        let same = |counts: &&Arc<GuardCounts>| counts.guard == guard;
        let new = || GuardCounts { guard: guard.to_owned(), ..GuardCounts::default() };
        find_or_add(&self.guards, same, new)
    }
}

fn find_or_add<T>(
    all: &RwLock<Vec<Arc<T>>>,
    same: impl Fn(&&Arc<T>) -> bool,
    new: impl FnOnce() -> T,
) -> Option<Arc<T>> {
    let known = all.read().unwrap_or_else(PoisonError::into_inner).iter().find(&same).cloned();
    if known.is_some() {
        return known;
    }
    let mut all = all.write().unwrap_or_else(PoisonError::into_inner);
    // Somebody may have been quicker.
    if let Some(known) = all.iter().find(&same) {
        return Some(Arc::clone(known));
    }
    (all.len() < NAMES_MAX).then(|| {
        let new = Arc::new(new());
        all.push(Arc::clone(&new));
        new
    })
}

impl Observer for Metrics {
    fn judged(&self, judgement: &Judgement<'_>) {
        let Some(counts) = self.policy(judgement) else { return };
        let at = place(judgement.happened);
        add(&counts.happened[at], 1);
        if let Some((name, happened)) = judgement.candidate {
            counts.candidate.get_or_init(|| name.to_owned());
            add(&counts.candidates[at][place(happened)], 1);
        }
        add(&counts.degraded, judgement.degraded.into());
        add(&counts.waited, judgement.waited.into());
        let nanos = nanos(judgement.took);
        let bucket = BOUNDS.iter().position(|(bound, _)| nanos <= *bound);
        add(&counts.took[bucket.unwrap_or(BOUNDS.len())], 1);
        add(&counts.took_nanos, nanos);
    }

    fn guarded(&self, guarded: &Guarded<'_>) {
        let Some(counts) = self.guard(guarded.guard) else { return };
        add(if guarded.shed { &counts.shed } else { &counts.passed }, 1);
        add(&counts.queued, (!guarded.queued.is_zero()).into());
    }
}

impl PolicyCounts {
    fn new(judgement: &Judgement<'_>) -> Self {
        Self {
            policy: judgement.policy.to_owned(),
            enforcement: judgement.enforcement,
            candidate: OnceLock::new(),
            happened: Default::default(),
            candidates: Default::default(),
            degraded: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            took: Default::default(),
            took_nanos: AtomicU64::new(0),
        }
    }

    fn render_outcomes(&self, text: &mut String, name: &str, wanted: fn(Happened) -> bool) {
        for happened in Happened::ALL.into_iter().filter(|happened| wanted(*happened)) {
            let [policy, mode] = self.labels();
            let labels = [policy, mode, ("outcome", happened.as_str())];
            line(text, name, &labels, load(&self.happened[place(happened)]));
        }
    }

    fn render_candidates(&self, text: &mut String) {
        let Some(candidate) = self.candidate.get() else { return };
        for live in Happened::ALL {
            for other in Happened::ALL {
                let total = load(&self.candidates[place(live)][place(other)]);
                if total == 0 {
                    continue;
                }
                let [policy, mode] = self.labels();
                let labels = [
                    policy,
                    mode,
                    ("outcome", live.as_str()),
                    ("candidate", candidate),
                    ("candidate_outcome", other.as_str()),
                ];
                line(text, "rate_limit_candidate_total", &labels, total);
            }
        }
    }

    fn render_took(&self, text: &mut String) {
        let mut total = 0;
        let bounds = BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        for (count, bound) in self.took.iter().zip(bounds) {
            total += load(count);
            let [policy, mode] = self.labels();
            let labels = [policy, mode, ("le", bound)];
            line(text, "rate_limit_decision_seconds_bucket", &labels, total);
        }
        let nanos = load(&self.took_nanos);
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "rate_limit_decision_seconds_sum{{policy=\"{}\",mode=\"{}\"}} {seconds}.{rest:09}",
            self.policy,
            self.enforcement.as_str(),
        );
        line(text, "rate_limit_decision_seconds_count", &self.labels(), total);
    }

    fn labels(&self) -> [(&'static str, &str); 2] {
        [("policy", &self.policy), ("mode", self.enforcement.as_str())]
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Names of policies and guards need no escapes: see `Policy::builder`.
fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: u64) {
    let labels: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
}

fn place(happened: Happened) -> usize {
    Happened::ALL.iter().position(|one| *one == happened).unwrap_or(0)
}

// Counters that nothing is decided by: no order is needed.

fn add(counter: &AtomicU64, by: u64) {
    if by > 0 {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(policy: &str, happened: Happened) -> Judgement<'_> {
        Judgement {
            policy,
            happened,
            enforcement: Enforcement::Enforce,
            degraded: false,
            waited: false,
            candidate: None,
            took: Duration::from_micros(7),
        }
    }

    #[test]
    fn what_was_told_is_written() {
        let metrics = Metrics::new();
        for _ in 0..3 {
            metrics.judged(&judgement("api", Happened::Allowed));
        }
        metrics.judged(&judgement("api", Happened::Denied));
        let with_candidate = Judgement {
            candidate: Some(("next", Happened::Denied)),
            ..judgement("api", Happened::Allowed)
        };
        metrics.judged(&with_candidate);
        metrics.guarded(&Guarded { guard: "front", shed: true, queued: Duration::from_millis(5) });
        let text = metrics.render();
        for line in [
            r#"rate_limit_requests_total{policy="api",mode="enforce",outcome="allowed"} 4"#,
            r#"rate_limit_rejected_total{policy="api",mode="enforce",outcome="denied"} 1"#,
            r#"rate_limit_decision_seconds_bucket{policy="api",mode="enforce",le="0.000001"} 0"#,
            r#"rate_limit_decision_seconds_bucket{policy="api",mode="enforce",le="+Inf"} 5"#,
            r#"rate_limit_decision_seconds_sum{policy="api",mode="enforce"} 0.000035000"#,
            r#"rate_limit_candidate_total{policy="api",mode="enforce",outcome="allowed",candidate="next",candidate_outcome="denied"} 1"#,
            r#"rate_limit_shed_total{guard="front"} 1"#,
            r#"rate_limit_queued_total{guard="front"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"rejected_total{policy="api",mode="enforce",outcome="allowed""#));
        // Prometheus refuses a page on which a series comes twice.
        let mut series: Vec<&str> = text
            .lines()
            .filter_map(|line| line.rsplit_once(' ').map(|(series, _)| series))
            .collect();
        let lines = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), lines);
    }

    #[test]
    fn names_are_bounded() {
        let metrics = Metrics::new();
        for number in 0..NAMES_MAX + 5 {
            metrics.judged(&judgement(&format!("p{number}"), Happened::Allowed));
        }
        assert_eq!(metrics.policies.read().unwrap().len(), NAMES_MAX);
    }
}
