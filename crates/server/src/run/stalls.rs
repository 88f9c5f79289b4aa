//! Stalls of the runtime: how late a timer fires.
//!
//! A task that computes for milliseconds without yielding, or a machine without a free core, delays every
//! request. The decision latency does not show it, because it is measured inside of the decision.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slidegate_gate::Kind::Counter;
use slidegate_gate::{Count, Page};
use tokio::time::{Instant, sleep_until};

use crate::net::Stop;

/// How often the timer fires. Twenty times per second costs an idle daemon nothing noticeable.
const EVERY: Duration = Duration::from_millis(50);
/// A timer that fires later than this counts as a stall. Tokio's timers have a resolution of 1 ms.
const STALL: Duration = Duration::from_millis(5);

/// Counts stalls.
#[derive(Debug, Default)]
pub(super) struct StallCounts {
    stalls: Count,
    nanos: AtomicU64,
}

impl StallCounts {
    /// Measures until the daemon stops.
    pub(super) async fn measure(self: Arc<Self>, stop: Stop) {
        while !stop.is_over() {
            let due = Instant::now() + EVERY;
            tokio::select! {
                () = sleep_until(due) => {}
                () = stop.clone().wait() => return,
            }
            self.note(Instant::now().saturating_duration_since(due));
        }
    }

    fn note(&self, late: Duration) {
        if late > STALL {
            self.stalls.add(1);
            let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
            self.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    pub(super) fn write(&self, page: &mut Page) {
        page.family(
            "slidegate_event_loop_stalls_total",
            Counter,
            "Timers of the runtime that fired more than 5 ms late.",
        );
        page.sample(&[], self.stalls.get());
        page.family(
            "slidegate_event_loop_stall_seconds_total",
            Counter,
            "Total delay of the timers that fired more than 5 ms late.",
        );
        page.seconds(&[], Duration::from_nanos(self.nanos.load(Ordering::Relaxed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Stopper;

    #[test]
    fn only_delays_above_five_milliseconds_count() {
        let counts = StallCounts::default();
        counts.note(STALL);
        counts.note(Duration::from_millis(20));
        let mut page = Page::new();
        counts.write(&mut page);
        let page = page.finish();
        assert!(page.contains("slidegate_event_loop_stalls_total 1\n"), "{page}");
        assert!(page.contains("slidegate_event_loop_stall_seconds_total 0.02"), "{page}");
    }

    #[tokio::test]
    async fn a_blocked_runtime_is_a_stall() {
        let counts = Arc::new(StallCounts::default());
        let stopper = Stopper::default();
        let probe = tokio::spawn(Arc::clone(&counts).measure(stopper.stop()));
        // The runtime of this test has one thread. A deadline of ten seconds bounds the loop.
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            // Longer than the timer's interval, so that it always fires late.
            block_for(2 * EVERY);
            if counts.stalls.get() > 0 {
                probe.abort();
                return;
            }
        }
        panic!("no stall was counted");
    }

    #[expect(clippy::disallowed_methods, reason = "blocks the runtime on purpose")]
    fn block_for(time: Duration) {
        std::thread::sleep(time);
    }
}
