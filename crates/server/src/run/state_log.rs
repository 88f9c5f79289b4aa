//! Logs changes of state while the daemon runs: memory that fills up, audit lines that are lost.
//!
//! The state is examined once per second, so a flood of requests is not a flood of lines. Stores that fail
//! and return are reported by `slidegate-redis`.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use slidegate::Limiter;
use tracing::{error, warn};

use crate::admin::ResultCounts;
use crate::engine::{Engine, Plan};
use crate::gates::StateId;
use crate::net::{LogInterval, Stop};

/// The time between two examinations.
const INTERVAL: Duration = Duration::from_secs(1);
/// Memory is examined every fifth time, because that takes the lock of every shard.
const MEMORY_EVERY: u32 = 5;
/// The maximum number of lines about memory per examination.
const LINES_MAX: usize = 10;

/// What was logged last.
#[derive(Debug, Default)]
pub(super) struct StateLog {
    audit: Option<Arc<ResultCounts>>,
    audit_lost: u64,
    audit_interval: LogInterval,
    memory: MemoryLog,
}

/// What was logged about the tables.
#[derive(Debug, Default)]
struct MemoryLog(HashMap<StateId, MemoryNotes>);

/// What was logged about one table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct MemoryNotes {
    is_nearly_full: bool,
    has_overflowed: bool,
}

impl StateLog {
    pub(super) fn new(audit: Option<Arc<ResultCounts>>) -> Self {
        Self { audit, ..Self::default() }
    }

    /// Examines the state until shutdown.
    pub(super) async fn run(mut self, engine: Arc<Engine>, stop: Stop) {
        let mut looks = 0u32;
        while !stop.is_over() {
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = stop.clone().wait() => {}
            }
            self.look_at_audit();
            if looks.is_multiple_of(MEMORY_EVERY) {
                let mut memory = core::mem::take(&mut self.memory);
                let plan = arc_swap::Guard::into_inner(engine.plan());
                // With thousands of policies this takes so long that requests would wait for it.
                let looked = tokio::task::spawn_blocking(move || {
                    memory.look(&plan);
                    memory
                });
                self.memory = looked.await.unwrap_or_default();
            }
            looks = looks.wrapping_add(1);
        }
    }

    fn look_at_audit(&mut self) {
        let Some(counts) = &self.audit else { return };
        let (dropped, failed) = (counts.get("dropped"), counts.get("failed"));
        let more = (dropped + failed).saturating_sub(self.audit_lost);
        if more > 0 && self.audit_interval.has_passed() {
            self.audit_lost = dropped + failed;
            error!(dropped, failed, "audit log: {more} lines are lost");
        }
    }
}

impl MemoryLog {
    fn look(&mut self, plan: &Plan) {
        let mut before = core::mem::take(&mut self.0);
        let mut lines = Vec::new();
        for (id, store) in plan.stores() {
            let Some(limiter) = store.in_process() else { continue };
            let mut notes = before.remove(id).unwrap_or_default();
            lines.extend(notes.look(&id.name, limiter));
            self.0.insert(id.clone(), notes);
        }
        let more = lines.len().saturating_sub(LINES_MAX);
        for line in lines.iter().take(LINES_MAX) {
            warn!("{line}");
        }
        if more > 0 {
            warn!("{more} more policies are short of memory: see rate_limit_memory_used_ratio");
        }
    }
}

impl MemoryNotes {
    /// Returns what is new about a table.
    fn look(&mut self, name: &str, limiter: &Limiter) -> Option<String> {
        let stats = limiter.stats();
        let percent = stats.table_bytes.saturating_mul(100) / stats.table_limit.max(1);
        let was = *self;
        self.has_overflowed |= stats.overflowed > 0 || stats.evictions > 0;
        // Once it was nearly full, a little less is no news.
        self.is_nearly_full = percent >= if was.is_nearly_full { 80 } else { 90 };
        let (keys, limit) = (stats.keys, stats.memory_limit >> 10);
        if self.has_overflowed && !was.has_overflowed {
            return Some(format!(
                "policy {name}: the first key did not fit into its {limit} KiB of memory ({keys} keys); \
                 `memory.on_full` applies: raise `memory.limit_mb`"
            ));
        }
        (self.is_nearly_full && !was.is_nearly_full).then(|| {
            format!(
                "policy {name}: {percent} % of its memory for keys is used ({keys} keys, {limit} KiB in \
                 all): raise `memory.limit_mb`"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::NoRestore;
    use crate::spec::{PolicySpec, Spec};
    use slidegate::{Policy, Quota};

    #[test]
    fn tables_that_a_reload_removed_are_forgotten_and_others_are_kept() {
        let spec = |names: &[&str]| {
            let policy = |name: &&str| PolicySpec::new(name, vec![Quota::per_hour(10)]);
            Spec { policies: names.iter().map(policy).collect(), ..Spec::default() }
        };
        let engine = Engine::new(&spec(&["a", "b"]), &mut NoRestore).unwrap();
        let mut log = MemoryLog::default();
        log.look(&engine.plan());
        let names = |log: &MemoryLog| {
            let mut names: Vec<String> = log.0.keys().map(|id| id.name.clone()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&log), ["a", "b"]);
        log.0.values_mut().for_each(|notes| notes.has_overflowed = true);
        engine.swap(&spec(&["b", "c"])).unwrap();
        log.look(&engine.plan());
        assert_eq!(names(&log), ["b", "c"]);
        let kept =
            |name: &str| log.0.iter().any(|(id, notes)| id.name == name && notes.has_overflowed);
        assert!(kept("b") && !kept("c"));
    }

    #[test]
    fn memory_is_reported_when_it_is_nearly_full_and_when_the_first_key_does_not_fit() {
        let policy = Policy::new("api", Quota::per_hour(10)).unwrap();
        let limiter = Limiter::builder(policy).memory_limit(64 << 10).build().unwrap();
        let mut notes = MemoryNotes::default();
        assert_eq!(notes.look("api", &limiter), None);
        let mut lines = Vec::new();
        for key in 0..3000_u64 {
            let _ = limiter.check(&key);
            lines.extend(notes.look("api", &limiter));
        }
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains(" % of its memory for keys is used"), "{lines:?}");
        assert!(lines[1].contains("the first key did not fit"), "{lines:?}");
    }
}
