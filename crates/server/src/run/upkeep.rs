//! What is done for stores in the background: warnings, metrics of their servers, sweeps.

use core::time::Duration;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use slidegate_redis::SweepOptions;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::admin::ResultCounts;
use crate::engine::{Engine, Plan};
use crate::spec::StoreSpec;

/// How often stores fetch what they report about their servers.
const STORES_EVERY: Duration = Duration::from_secs(15);
/// How often a warning that is still true is logged again.
const WARNINGS_EVERY: Duration = Duration::from_secs(3600);

/// Logs what the stores report as problems, such as settings of Redis servers, and keeps what they
/// report in metrics up to date.
pub(super) async fn watch_stores(engine: &Engine) -> ! {
    let mut warned: HashMap<String, LoggedWarnings> = HashMap::new();
    loop {
        let plan = arc_swap::Guard::into_inner(engine.plan());
        warned.retain(|name, _| plan.distinct_stores().any(|(store, _)| store == name));
        for (name, store) in plan.distinct_stores() {
            let warnings = match store.warnings().await {
                Ok(warnings) => warnings,
                Err(error) => vec![format!("{error}; policies answer by their failure mode")],
            };
            let logged = warned.entry(name.to_owned()).or_default();
            for warning in logged.new_or_due(warnings, Instant::now()) {
                warn!("store {name}: {warning}");
            }
        }
        drop(plan);
        engine.refresh_stats().await;
        sleep(STORES_EVERY).await;
    }
}

/// The warnings of a store that were logged, with the time.
#[derive(Debug, Default)]
struct LoggedWarnings(Vec<(String, Instant)>);

impl LoggedWarnings {
    /// Returns the warnings to be logged now. One that is repeated is due after an hour, and one that
    /// comes back after it was gone is new.
    fn new_or_due(&mut self, warnings: Vec<String>, now: Instant) -> Vec<String> {
        self.0.retain(|(logged, at)| warnings.contains(logged) && now < *at + WARNINGS_EVERY);
        let is_logged = |warning: &String| self.0.iter().any(|(logged, _)| logged == warning);
        let due: Vec<String> = warnings.into_iter().filter(|warning| !is_logged(warning)).collect();
        self.0.extend(due.iter().map(|warning| (warning.clone(), now)));
        due
    }
}

/// Sweeps of Redis stores on a schedule.
#[derive(Debug)]
pub(super) struct RedisSweeps {
    counts: Arc<ResultCounts>,
}

/// How often schedules are examined.
const SCHEDULE_EVERY: Duration = Duration::from_secs(1);

impl RedisSweeps {
    pub(super) fn new() -> Self {
        let help = "Keys in Redis that scheduled sweeps examined and removed.";
        let results = ["examined", "removed", "without_ttl"];
        let counts = ResultCounts::new("slidegate_redis_swept_keys_total", help, &results);
        Self { counts: Arc::new(counts) }
    }

    pub(super) fn counts(&self) -> &Arc<ResultCounts> {
        &self.counts
    }

    /// Sweeps every store once per its `sweep_interval`.
    ///
    /// Policies that a reload removed stay known until the daemon restarts, so that one that comes back
    /// continues with its counts.
    pub(super) async fn run(&self, engine: &Engine) -> ! {
        let mut last: HashMap<String, Instant> = HashMap::new();
        let mut known: HashMap<String, BTreeSet<String>> = HashMap::new();
        let mut seen: Option<Arc<Plan>> = None;
        loop {
            let plan = arc_swap::Guard::into_inner(engine.plan());
            if !seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &plan)) {
                for store in engine.redis_stores() {
                    known.entry(store.name).or_default().extend(store.policies);
                }
                seen = Some(Arc::clone(&plan));
            }
            for store in &plan.spec().stores {
                let StoreSpec::Redis(name, redis) = store else { continue };
                let Some(every) = redis.sweep_every else { continue };
                let last = last.entry(name.clone()).or_insert_with(Instant::now);
                if last.elapsed() >= every {
                    let policies: Vec<String> =
                        known.get(name).into_iter().flatten().cloned().collect();
                    self.sweep(engine, name, &policies).await;
                    *last = Instant::now();
                }
            }
            drop(plan);
            sleep(SCHEDULE_EVERY).await;
        }
    }

    async fn sweep(&self, engine: &Engine, name: &str, policies: &[String]) {
        let Some(store) = engine.redis_stores().into_iter().find(|store| store.name == name) else {
            return;
        };
        let options = SweepOptions::default().remove(true);
        match store.redis.sweep_with(policies, options, |_| {}).await {
            Ok(report) => {
                let (keys, removed) = (report.keys, report.removed);
                info!("store {name}: swept {keys} keys, removed {removed} of unknown policies");
                self.counts.add("examined", keys);
                self.counts.add("removed", removed);
                self.counts.add("without_ttl", report.without_ttl);
            }
            Err(error) => warn!("store {name}: cannot sweep: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_repeated_every_hour_and_when_it_comes_back() {
        let (mut logged, start) = (LoggedWarnings::default(), Instant::now());
        let evicts = || vec!["evicts".to_owned()];
        let none: Vec<String> = Vec::new();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(logged.new_or_due(evicts(), start), evicts());
        assert_eq!(logged.new_or_due(evicts(), after(3599)), none);
        assert_eq!(logged.new_or_due(evicts(), after(3600)), evicts());
        let two = vec!["evicts".to_owned(), "clock".to_owned()];
        assert_eq!(logged.new_or_due(two, after(3615)), ["clock"]);
        assert_eq!(logged.new_or_due(none.clone(), after(3630)), none);
        assert_eq!(logged.new_or_due(evicts(), after(3645)), evicts());
    }
}
