//! What the counters showed during the last 15 minutes, second by second.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use slidegate_gate::{BOUNDS, Counters, GateOutcome, Metrics};

/// Seconds that are kept.
pub(super) const SECONDS: usize = 15 * 60;
/// The maximum number of policies with a history: the first that receive requests.
const POLICIES_MAX: usize = 64;
/// The latency of the last seconds is shown.
const LATENCY_SECONDS: usize = 10;
/// Rates are those of the last seconds.
const RATE_SECONDS: usize = 3;

/// Requests by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Requests {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) would_be_denied: u64,
}

/// Cumulative counts of decisions by time, as in `rate_limit_decision_seconds`.
type Times = [u64; BOUNDS.len() + 1];

/// The percentiles that are shown.
pub(super) const PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A time for each of [`PERCENTILES`], in nanoseconds; `None` if nothing was decided.
pub(super) type Percentiles = [Option<u64>; 4];

/// The last 15 minutes.
#[derive(Debug, Default)]
pub(super) struct History {
    /// In milliseconds since the Unix epoch.
    at: VecDeque<u64>,
    all: Rates,
    policies: HashMap<(Arc<str>, &'static str), Rates>,
    /// The counts of the last seconds, oldest first, before and after each.
    times: VecDeque<Times>,
    /// The same of policies whose keys are in a shared store.
    shared_times: VecDeque<Times>,
    latency: VecDeque<Percentiles>,
}

/// The rates of one policy, or of all.
#[derive(Debug, Default, Clone)]
pub(super) struct Rates {
    last: Option<Requests>,
    /// Per second.
    seconds: VecDeque<[u32; 3]>,
}

impl Requests {
    /// Reads the counters that `/metrics` shows.
    pub(super) fn of(counters: &Counters) -> Self {
        let mut requests = Self::default();
        for outcome in GateOutcome::ALL {
            let count = counters.outcome(outcome);
            match outcome {
                GateOutcome::Allowed => requests.allowed += count,
                GateOutcome::ShadowDenied => requests.would_be_denied += count,
                outcome if outcome.is_rejected() => requests.denied += count,
                _ => {}
            }
        }
        requests
    }

    pub(super) fn sum(self) -> u64 {
        self.allowed + self.denied + self.would_be_denied
    }

    pub(super) fn add(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.would_be_denied += other.would_be_denied;
    }
}

impl Rates {
    fn push(&mut self, now: Requests, seconds: f64) {
        let last = self.last.replace(now).unwrap_or(now);
        let rate = |now: u64, last: u64| {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate; casting to an integer saturates"
            )]
            let rate = (now.saturating_sub(last) as f64 / seconds).round() as u32;
            rate
        };
        push(
            &mut self.seconds,
            [
                rate(now.allowed, last.allowed),
                rate(now.denied, last.denied),
                rate(now.would_be_denied, last.would_be_denied),
            ],
        );
    }

    /// Returns the requests per second of the last few seconds.
    pub(super) fn current(&self) -> [f64; 3] {
        let count = self.seconds.len().clamp(1, RATE_SECONDS);
        let last = self.seconds.iter().rev().take(count);
        let sum = last.fold([0.0; 3], |sum, second| {
            core::array::from_fn(|index| sum[index] + f64::from(second[index]))
        });
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let count = count as f64;
        sum.map(|sum| sum / count)
    }

    /// Returns the seconds, oldest first.
    pub(super) fn seconds(&self) -> impl ExactSizeIterator<Item = &[u32; 3]> {
        self.seconds.iter()
    }

    /// Returns `parts` averages over equal parts of the 15 minutes, oldest first: not denied, and
    /// denied.
    pub(super) fn parts(&self, parts: usize) -> Vec<[u32; 2]> {
        let width = SECONDS.div_ceil(parts.max(1));
        let missing = SECONDS.saturating_sub(self.seconds.len());
        (0..parts)
            .map(|part| {
                let range = (part * width)..((part + 1) * width);
                let seconds = range.filter_map(|at| self.seconds.get(at.checked_sub(missing)?));
                let (mut sum, mut count) = ([0_u64; 2], 0);
                for second in seconds {
                    sum[0] += u64::from(second[0]) + u64::from(second[2]);
                    sum[1] += u64::from(second[1]);
                    count += 1;
                }
                sum.map(|sum| u32::try_from(sum.div_ceil(count.max(1))).unwrap_or(u32::MAX))
            })
            .collect()
    }
}

impl History {
    /// Reads all counters. `at` is in milliseconds since the Unix epoch, `seconds` the time since the
    /// last call. `is_shared` returns `true` for policies whose keys are in a shared store.
    pub(super) fn sample(
        &mut self,
        metrics: &Metrics,
        is_shared: impl Fn(&str) -> bool,
        at: u64,
        seconds: f64,
    ) {
        let seconds = seconds.max(0.001);
        let mut all = Requests::default();
        let mut times: Times = [0; BOUNDS.len() + 1];
        let mut shared_times = times;
        metrics.for_each_gate(|policy, mode, counters| {
            let requests = Requests::of(counters);
            all.add(requests);
            let cumulative = counters.time.cumulative();
            add(&mut times, &cumulative);
            if is_shared(policy) {
                add(&mut shared_times, &cumulative);
            }
            let id = (Arc::clone(policy), mode);
            if let Some(rates) = self.policies.get_mut(&id) {
                rates.push(requests, seconds);
            } else if self.policies.len() < POLICIES_MAX && requests.sum() > 0 {
                // It had no requests before, except those from before the process was restored.
                let mut rates = Rates { last: Some(Requests::default()), ..Rates::default() };
                rates.push(requests, seconds);
                self.policies.insert(id, rates);
            }
        });
        self.all.push(all, seconds);
        push(&mut self.at, at);
        for (all, new) in [(&mut self.times, times), (&mut self.shared_times, shared_times)] {
            all.push_back(new);
            while all.len() > LATENCY_SECONDS + 1 {
                all.pop_front();
            }
        }
        let latency = self.latency();
        push(&mut self.latency, latency);
    }

    /// Returns the percentiles of the last seconds, in nanoseconds.
    pub(super) fn latency(&self) -> Percentiles {
        percentiles(&self.times)
    }

    /// Returns the same for policies whose keys are in a shared store.
    pub(super) fn shared_latency(&self) -> Percentiles {
        percentiles(&self.shared_times)
    }

    pub(super) fn all(&self) -> &Rates {
        &self.all
    }

    pub(super) fn policy(&self, policy: &Arc<str>, mode: &'static str) -> Option<&Rates> {
        self.policies.get(&(Arc::clone(policy), mode))
    }

    /// Returns the times of the seconds, in milliseconds since the Unix epoch.
    pub(super) fn times(&self) -> impl ExactSizeIterator<Item = u64> {
        self.at.iter().copied()
    }

    pub(super) fn latencies(&self) -> impl Iterator<Item = &Percentiles> {
        self.latency.iter()
    }
}

fn push<T>(seconds: &mut VecDeque<T>, value: T) {
    if seconds.len() >= SECONDS {
        seconds.pop_front();
    }
    seconds.push_back(value);
}

fn add(sum: &mut Times, more: &Times) {
    for (sum, count) in sum.iter_mut().zip(more) {
        *sum += count;
    }
}

fn percentiles(times: &VecDeque<Times>) -> Percentiles {
    let (Some(first), Some(last)) = (times.front(), times.back()) else {
        return Percentiles::default();
    };
    let times = core::array::from_fn(|bucket| last[bucket].saturating_sub(first[bucket]));
    PERCENTILES.map(|(_, share)| percentile(&times, share))
}

/// Returns a percentile of cumulative counts, interpolated within its bucket, in nanoseconds.
pub(super) fn percentile(times: &Times, share: f64) -> Option<u64> {
    let all = times.last().copied().filter(|all| *all > 0)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate from buckets that double"
    )]
    let wanted = ((all as f64 * share).ceil() as u64).max(1);
    let bucket = times.iter().position(|count| *count >= wanted)?;
    let upper = *BOUNDS.get(bucket).or(BOUNDS.last())?;
    let (lower, before) = match bucket.checked_sub(1) {
        Some(below) => (BOUNDS[below], times[below]),
        None => (0, 0),
    };
    let inside = times[bucket].saturating_sub(before).max(1);
    let part =
        u128::from(upper - lower.min(upper)) * u128::from(wanted - before) / u128::from(inside);
    Some(lower.min(upper) + u64::try_from(part).unwrap_or(0))
}

#[cfg(test)]
mod tests;
