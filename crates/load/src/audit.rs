//! Finds windows in which more or fewer requests passed than the limit allows.
//!
//! The tool does not know when the limiter decided, only that it was between sending and answer. So it reports
//! only what is wrong whatever these times were:
//!
//! * **over**: the allowed requests that were sent and answered within one window need more than the limit.
//! * **under**: a request was denied although all requests that could have counted at that time, with those
//!   that were never answered, leave room for it.
//!
//! Clocks of two machines do not run equally fast. A window is therefore taken as 0.05 % shorter in the first case,
//! and as longer by as much and by a tolerance in the second.

use std::collections::BTreeMap;

use serde::Serialize;
use slidegate::Quota;
use slidegate_sim::number::to_whole;
use slidegate_sim::{Bracket, over_windows};

/// The part of a window by which two clocks may differ while it passes: 500 ppm, the fastest that NTP adjusts a clock.
const CLOCK_PART: u64 = 2000;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was allowed.
    Allowed,
    /// It was denied.
    Denied,
    /// There was no decision. It may have been allowed, then or later.
    Unknown,
}

/// A request of one key, with times since the start.
#[derive(Debug, Clone, Copy)]
pub struct Checked {
    /// The number of the key.
    pub key: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// When it was sent.
    pub sent_ns: u64,
    /// When it was answered.
    pub answered_ns: u64,
}

/// What is wrong with a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// More passed than the limit.
    Over,
    /// Fewer passed than the limit, and a request was denied.
    Under,
}

/// A window with wrong decisions. Windows of one key and fault do not overlap.
#[derive(Debug, Clone, Serialize)]
pub struct WrongWindow {
    /// The number of the key.
    pub key: u32,
    /// What is wrong.
    pub fault: Fault,
    /// The beginning, in seconds since the start of the run. Before the start if negative.
    pub from: f64,
    /// The end, in seconds since the start of the run.
    pub until: f64,
    /// Units that passed: at least in a window over the limit, at most in one under it.
    pub units: u64,
    /// Units that may pass.
    pub limit: u64,
    /// Requests that were wrongly allowed or denied.
    pub requests: u64,
}

/// All wrong windows.
#[derive(Debug, Clone, Default)]
pub struct Audit {
    /// The windows, ordered by key.
    pub windows: Vec<WrongWindow>,
    /// Keys with requests.
    pub keys: u64,
}

impl Audit {
    /// Examines all requests of a run. Denials before `audited_from_ns` are not examined: a key that was used
    /// before the run has units that expire during its first window.
    pub fn new(
        requests: &[Checked],
        quotas: &[Quota],
        tolerance_ns: u64,
        audited_from_ns: u64,
    ) -> Self {
        let mut by_key: BTreeMap<u32, Vec<Checked>> = BTreeMap::new();
        for request in requests {
            by_key.entry(request.key).or_default().push(*request);
        }
        let mut windows = Vec::new();
        for (key, requests) in &by_key {
            for quota in quotas {
                over(*key, requests, *quota, &mut windows);
            }
            under(*key, requests, quotas, tolerance_ns, audited_from_ns, &mut windows);
        }
        Self { windows, keys: by_key.len() as u64 }
    }

    /// Returns the number of windows with a fault, and of requests wrongly decided in them.
    pub fn count(&self, fault: Fault) -> (u64, u64) {
        let mut counts = (0, 0);
        for window in self.windows.iter().filter(|window| window.fault == fault) {
            counts = (counts.0 + 1, counts.1 + window.requests);
        }
        counts
    }
}

fn over(key: u32, requests: &[Checked], quota: Quota, windows: &mut Vec<WrongWindow>) {
    let allowed = requests.iter().filter(|request| request.outcome == Outcome::Allowed);
    let brackets: Vec<Bracket> = allowed
        .map(|request| Bracket {
            from_ns: request.sent_ns,
            until_ns: request.answered_ns,
            units: 1,
        })
        .collect();
    let window_ns = nanos(quota);
    let mut last: Option<(i128, WrongWindow)> = None;
    over_windows(&brackets, quota.limit(), window_ns - window_ns / CLOCK_PART, |found| {
        let units = u64::try_from(found.units).unwrap_or(u64::MAX);
        if let Some((end, window)) = &mut last
            && found.after_ns < *end
        {
            window.requests += 1;
            // The fullest of windows that overlap is shown.
            if units > window.units {
                (window.units, window.until) = (units, seconds(i128::from(found.until_ns)));
                window.from = seconds(found.after_ns);
            }
            return;
        }
        windows.extend(last.take().map(|(_, window)| window));
        let window = WrongWindow {
            key,
            fault: Fault::Over,
            from: seconds(found.after_ns),
            until: seconds(i128::from(found.until_ns)),
            units,
            limit: found.limit,
            requests: 1,
        };
        last = Some((i128::from(found.until_ns), window));
    });
    windows.extend(last.map(|(_, window)| window));
}

/// Finds denials at a time when every quota had room, however the times that are not known are chosen.
fn under(
    key: u32,
    requests: &[Checked],
    quotas: &[Quota],
    tolerance_ns: u64,
    audited_from_ns: u64,
    windows: &mut Vec<WrongWindow>,
) {
    // Times at which units may begin to count, and at which they surely ended to count under each quota.
    let passed = || requests.iter().filter(|request| request.outcome != Outcome::Denied);
    let mut starts: Vec<u64> = passed().map(|request| request.sent_ns).collect();
    starts.sort_unstable();
    let ends: Vec<(Quota, u64, Vec<u64>)> = quotas
        .iter()
        .map(|quota| {
            let window_ns = nanos(*quota);
            let counts_ns =
                window_ns.saturating_add(window_ns / CLOCK_PART).saturating_add(tolerance_ns);
            let allowed = passed().filter(|request| request.outcome == Outcome::Allowed);
            let mut ends: Vec<u64> =
                allowed.map(|request| request.answered_ns.saturating_add(counts_ns)).collect();
            ends.sort_unstable();
            (*quota, counts_ns, ends)
        })
        .collect();
    let mut denied: Vec<&Checked> = requests
        .iter()
        .filter(|request| request.outcome == Outcome::Denied && request.sent_ns >= audited_from_ns)
        .collect();
    denied.sort_unstable_by_key(|request| request.sent_ns);
    let mut last: Option<WrongWindow> = None;
    for request in denied {
        let started = starts.partition_point(|at| *at <= request.answered_ns);
        // The quota that was the nearest to its limit.
        let room = |(quota, counts_ns, ends): &(Quota, u64, Vec<u64>)| {
            let ended = ends.partition_point(|at| *at <= request.sent_ns);
            let units = started.saturating_sub(ended) as u64;
            (quota.limit().saturating_sub(units), units, quota.limit(), *counts_ns)
        };
        let Some((room, units, limit, counts_ns)) = ends.iter().map(room).min() else { continue };
        if room == 0 {
            continue;
        }
        let (from, until) = (
            seconds(i128::from(request.sent_ns) - i128::from(counts_ns)),
            seconds(i128::from(request.answered_ns)),
        );
        match &mut last {
            Some(window) if from < window.until => {
                window.requests += 1;
                window.units = window.units.min(units);
            }
            _ => {
                let window = WrongWindow {
                    key,
                    fault: Fault::Under,
                    from,
                    until,
                    units,
                    limit,
                    requests: 1,
                };
                windows.extend(last.replace(window));
            }
        }
    }
    windows.extend(last);
}

fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.window().as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "times of a report need no more than 53 bits")]
fn seconds(nanos: i128) -> f64 {
    // To the microsecond: the times are not known any better.
    (nanos / 1000) as f64 / 1e6
}

/// Returns a duration in nanoseconds, as used here.
pub(crate) fn whole_nanos(time: core::time::Duration) -> u64 {
    to_whole(time.as_secs_f64() * 1e9)
}

#[cfg(test)]
mod tests;
