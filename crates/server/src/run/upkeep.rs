//! What is done for stores in the background: warnings, metrics of their servers, sweeps.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use slidegate_redis::SweepReport;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::admin::ResultCounts;
use crate::engine::Engine;
use crate::spec::StoreSpec;

/// How often stores fetch what they report about their servers.
const STORES_EVERY: Duration = Duration::from_secs(15);
/// How often a warning that is still true is logged again.
const WARNINGS_EVERY: Duration = Duration::from_secs(3600);

/// What is logged of a store that does not reply.
const UNAVAILABLE: &str = "unavailable, policies decide by their failure mode";

/// Logs what the stores report as problems, such as settings of Redis servers, and keeps what they
/// report in metrics up to date.
pub(super) async fn watch_stores(engine: &Engine) -> ! {
    let mut warned: HashMap<String, LoggedWarnings> = HashMap::new();
    loop {
        let plan = arc_swap::Guard::into_inner(engine.plan());
        warned.retain(|name, _| plan.distinct_stores().any(|(store, _)| store == name));
        for (name, store) in plan.distinct_stores() {
            let logged = warned.entry(name.to_owned()).or_default();
            match store.warnings().await {
                Ok(warnings) => {
                    for warning in logged.new_or_due(warnings, Instant::now()) {
                        warn!("store {name}: {warning}");
                    }
                }
                // Its text may have another time each time.
                Err(error) => {
                    if !logged.new_or_due(vec![UNAVAILABLE.to_owned()], Instant::now()).is_empty() {
                        warn!("store {name}: {UNAVAILABLE}: {error}");
                    }
                }
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
const SWEEP_KEYS_PER_SECOND: u32 = 10_000;

impl RedisSweeps {
    pub(super) fn new() -> Self {
        let help = "Keys in Redis that scheduled sweeps examined, by result.";
        let results = ["examined", "unknown", "repaired", "removed", "foreign"];
        let counts = ResultCounts::new("slidegate_redis_swept_keys_total", help, &results);
        Self { counts: Arc::new(counts) }
    }

    pub(super) fn counts(&self) -> &Arc<ResultCounts> {
        &self.counts
    }

    /// Sweeps every store once per its `sweep_interval`.
    pub(super) async fn run(&self, engine: &Engine) -> ! {
        let mut last: HashMap<String, Instant> = HashMap::new();
        loop {
            let plan = arc_swap::Guard::into_inner(engine.plan());
            for store in &plan.spec().stores {
                let StoreSpec::Redis(name, redis) = store else { continue };
                let Some(every) = redis.sweep_every else { continue };
                let last = last.entry(name.clone()).or_insert_with(Instant::now);
                if last.elapsed() >= every {
                    self.sweep(engine, name).await;
                    *last = Instant::now();
                }
            }
            drop(plan);
            sleep(SCHEDULE_EVERY).await;
        }
    }

    async fn sweep(&self, engine: &Engine, name: &str) {
        let Some(store) = engine.redis_stores().into_iter().find(|store| store.name == name) else {
            return;
        };
        match store.redis.sweep(&store.policies, SWEEP_KEYS_PER_SECOND, |_| {}).await {
            Ok(report) => {
                let SweepReport { keys, unknown, repaired, removed, foreign, .. } = report;
                info!(unknown, repaired, removed, foreign, "store {name}: swept {keys} keys");
                self.counts.add("examined", keys);
                self.counts.add("unknown", unknown);
                self.counts.add("repaired", repaired);
                self.counts.add("removed", removed);
                self.counts.add("foreign", foreign);
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
