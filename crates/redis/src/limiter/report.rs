//! Charges Redis with the units that the local fallback admitted while Redis was unavailable.
//!
//! A key is reported when it is checked, and otherwise by a background task. Both first make a call
//! without effect. Its reply shows that the server is back, so that no charge is sent into an
//! outage. Late replies to earlier calls on the same connection have arrived by then.

use core::time::Duration;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::Inner;
use crate::local::LocalFallback;
use crate::report::ReportOutcome;
use crate::script::{KeyOp, Op, ScriptLimits};
use crate::servers::Failure;

/// The number of keys that the background task reports before it pauses.
const KEYS_PER_PASS: usize = 1024;

/// The maximum number of reports of the background task in flight.
const REPORTS_IN_FLIGHT: usize = 8;

/// The pause of the background task, doubled each time that nothing could be reported.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);

impl Inner {
    /// Starts to report a key in the background, if its server may be called and no other report of
    /// the key is in flight.
    pub(super) fn start_report(self: &Arc<Self>, local: &LocalFallback, key: u64) {
        let Some((name, turn)) = local.reports.turn(key) else {
            return;
        };
        if self.redis.shared.servers.may_call(&name)
            && let Ok(turn) = turn.try_lock_owned()
        {
            self.spawn_report(key, name, turn);
        }
    }

    /// Waits for the report of a key until `until`. Returns `true` if Redis alone decides the key
    /// now.
    pub(super) async fn wait_for_report(self: &Arc<Self>, key: u64, until: Instant) -> bool {
        let Some(local) = &self.local else {
            return true;
        };
        if Handle::try_current().is_err() {
            return false;
        }
        if let Some((name, turn)) = local.reports.turn(key) {
            let servers = &self.redis.shared.servers;
            // Waits for a report in flight.
            let Ok(turn) = timeout_at(until, turn.lock_owned()).await else {
                return false;
            };
            if local.reports.is_unreported(key, Instant::now()) && servers.may_call(&name) {
                // The task continues if the time is over.
                if let Some(report) = self.spawn_report(key, name, turn) {
                    let _ = timeout_at(until, report).await;
                }
            }
        }
        !local.reports.is_unreported(key, Instant::now())
    }

    /// Reports on a separate task, so that a dropped caller does not leave a charge without its
    /// result. Returns `None` outside of a runtime.
    fn spawn_report(
        self: &Arc<Self>,
        key: u64,
        name: Box<[u8]>,
        turn: OwnedMutexGuard<()>,
    ) -> Option<JoinHandle<()>> {
        let (inner, runtime) = (Arc::clone(self), Handle::try_current().ok()?);
        Some(runtime.spawn(async move {
            inner.report(key, &name).await;
            drop(turn);
        }))
    }

    /// Reports a key. The caller holds its turn. Returns `true` if Redis has recorded units.
    async fn report(&self, key: u64, name: &[u8]) -> bool {
        let Some(local) = &self.local else {
            return false;
        };
        let Some(limits) = local.reports.limits(key) else {
            return false;
        };
        let (limits, names) = (self.keeping(&limits), [name.to_vec()]);
        if self.probe(&names, &limits).await.is_err() {
            return false;
        }
        let Some(report) = local.reports.start(key, Instant::now()) else {
            return false;
        };
        let charge = KeyOp { limits: &limits, op: Op::Charge { charges: &report.charges } };
        let until = self.redis.deadline(Instant::now());
        let outcome = match self.redis.run_ops(&names, &[charge], until).await {
            Ok(_) => ReportOutcome::Recorded,
            Err(failure) if failure.is_unknown() => ReportOutcome::Unknown(failure.late_reply),
            Err(_) => ReportOutcome::Refused,
        };
        let is_recorded = outcome == ReportOutcome::Recorded;
        local.reports.finish(key, &report, outcome, Instant::now());
        is_recorded
    }

    /// Makes a call that changes nothing.
    async fn probe(&self, names: &[Vec<u8>], limits: &ScriptLimits) -> Result<(), Failure> {
        let peek = KeyOp { limits, op: Op::Peek { cost: 1 } };
        self.redis.run_ops(names, &[peek], self.redis.deadline(Instant::now())).await?;
        Ok(())
    }

    /// Returns how long both decide a key after its report, if the breaker was open. By then the
    /// breakers of other processes have closed, and their background tasks have reported.
    pub(super) fn grace(&self) -> Duration {
        self.redis.shared.servers.timing.breaker.open_max + PAUSE_MAX
    }

    /// Starts the background task unless it runs.
    pub(super) fn ensure_reporter(self: &Arc<Self>) {
        // Without a runtime, the next check of the key in a runtime starts it.
        let _ = self.reporter.ensure(|| report_in_background(Arc::downgrade(self)));
    }

    /// Reports some keys. Returns `true` if Redis has recorded units.
    async fn report_some(self: &Arc<Self>, local: &LocalFallback) -> bool {
        let (mut reports, mut is_any_recorded) = (JoinSet::new(), false);
        for key in local.reports.next_keys(KEYS_PER_PASS) {
            if !local.reports.is_unreported(key, Instant::now()) {
                continue;
            }
            let Some((name, turn)) = local.reports.turn(key) else {
                continue;
            };
            if !self.redis.shared.servers.may_call(&name) {
                continue;
            }
            let Ok(turn) = turn.try_lock_owned() else {
                continue;
            };
            if reports.len() >= REPORTS_IN_FLIGHT
                && let Some(Ok(is_recorded)) = reports.join_next().await
            {
                is_any_recorded |= is_recorded;
            }
            let inner = Arc::clone(self);
            reports.spawn(async move {
                let is_recorded = inner.report(key, &name).await;
                drop(turn);
                is_recorded
            });
        }
        while let Some(report) = reports.join_next().await {
            is_any_recorded |= report.unwrap_or(false);
        }
        is_any_recorded
    }
}

/// Reports all keys until none is left or the limiter is dropped.
async fn report_in_background(limiter: Weak<Inner>) {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = limiter.upgrade() else {
            return;
        };
        let Some(local) = &inner.local else {
            return;
        };
        let is_any_recorded = inner.report_some(local).await;
        if inner.reporter.end_if(|| !local.reports.is_any_unreported()) {
            return;
        }
        pause = if is_any_recorded { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
    }
}
