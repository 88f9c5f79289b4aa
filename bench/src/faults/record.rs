//! What callers observed around a fault.

use core::time::Duration;

use tokio::time::Instant;

/// One check of the limited key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    pub(super) sent: Instant,
    pub(super) received: Instant,
    pub(super) is_allowed: bool,
    pub(super) is_degraded: bool,
}

/// The fault's begin and end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) began: Instant,
    pub(super) healed: Instant,
}

/// The results of one fault.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The longest time from sending a check to its decision.
    pub(super) slowest: Duration,
    /// Checks that were decided by the failure mode.
    pub(super) degraded: u64,
    pub(super) checks: u64,
    /// From the end of the fault to the last degraded decision.
    pub(super) recovery: Duration,
    /// The most units admitted in any interval of one window.
    pub(super) worst_window: u64,
    /// The fewest units admitted in any interval of one window that begins after recovery.
    pub(super) fewest_after: u64,
    /// Units that callers were granted by Redis and that Redis no longer has.
    pub(super) lost: u64,
    /// Units that Redis recorded without a caller that received them.
    pub(super) unclaimed: u64,
    /// Connections that were made, before and after the fault.
    pub(super) connections: u64,
}

/// Summarizes all observations except for the units of the ledger.
pub(super) fn summarize(observations: &[Observation], span: Span, window: Duration) -> Outcome {
    let during = observations.iter().filter(|one| one.received >= span.began);
    let slowest = during.clone().map(|one| one.received - one.sent).max().unwrap_or_default();
    let last_degraded = during.filter(|one| one.is_degraded).map(|one| one.received).max();
    let recovered = last_degraded.map_or(span.healed, |last| last.max(span.healed));
    let mut admitted: Vec<Observation> =
        observations.iter().copied().filter(|one| one.is_allowed).collect();
    admitted.sort_by_key(|one| one.received);
    Outcome {
        slowest,
        degraded: count(observations.iter().filter(|one| one.is_degraded)),
        checks: count(observations.iter()),
        recovery: recovered - span.healed,
        worst_window: worst_window(&admitted, window),
        fewest_after: fewest_after(observations, &admitted, recovered, window),
        ..Outcome::default()
    }
}

/// A check was decided between sending it and receiving the decision. Only checks that were both sent
/// and received within an interval are certainly part of it, so this is a lower bound.
pub(super) fn worst_window(admitted: &[Observation], window: Duration) -> u64 {
    let from = admitted.iter().map(|first| {
        let end = first.sent + window;
        let inside = |one: &&Observation| one.sent >= first.sent && one.received < end;
        count(admitted.iter().filter(inside))
    });
    from.max().unwrap_or(0)
}

/// Checks that may have been decided within an interval count, so this is an upper bound. Intervals
/// begin at steps of a quarter of a window.
fn fewest_after(
    observations: &[Observation],
    admitted: &[Observation],
    recovered: Instant,
    window: Duration,
) -> u64 {
    let Some(end) = observations.iter().map(|one| one.received).max() else { return 0 };
    let mut fewest = None;
    let mut begin = recovered;
    while begin + window <= end {
        let inside = |one: &&Observation| one.received >= begin && one.sent < begin + window;
        let inside = count(admitted.iter().filter(inside));
        fewest = Some(fewest.map_or(inside, |fewest: u64| fewest.min(inside)));
        begin += window / 4;
    }
    fewest.unwrap_or(0)
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.fold(0, |count, _| count + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(1);

    fn observation(at: Instant, millis: u64, is_allowed: bool, is_degraded: bool) -> Observation {
        let sent = at + Duration::from_millis(millis);
        let received = sent + Duration::from_millis(1);
        Observation { sent, received, is_allowed, is_degraded }
    }

    #[test]
    fn worst_window_counts_what_is_certainly_inside() {
        let start = Instant::now();
        let admitted: Vec<Observation> =
            [0, 500, 998, 1000].map(|millis| observation(start, millis, true, false)).into();
        // The check at 998 was received at 999, and the one at 1000 belongs to the next window.
        assert_eq!(worst_window(&admitted, WINDOW), 3);
    }

    #[test]
    fn recovery_ends_with_the_last_degraded_decision() {
        let start = Instant::now();
        let span = Span { began: start, healed: start + Duration::from_millis(100) };
        let observations =
            [50, 199, 300].map(|millis| observation(start, millis, true, millis < 300));
        let outcome = summarize(&observations, span, WINDOW);
        assert_eq!(outcome.recovery, Duration::from_millis(100));
        assert_eq!((outcome.degraded, outcome.checks), (2, 3));
    }
}
