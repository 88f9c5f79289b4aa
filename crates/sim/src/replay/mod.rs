//! Replays requests through limiters and an exact one, in simulated time.
//!
//! Each algorithm is compared with an exact limiter in two ways:
//!
//! * **wrongly decided**: the exact limiter is asked about the same request, with everything that *this
//!   algorithm* has admitted so far. A request is wrongly allowed if the last window then contains more than
//!   the limit, and wrongly denied if there was room. No mistake is counted twice because of its
//!   consequences.
//! * **unlike exact**: an exact limiter of its own decides the same stream from the start, with its own
//!   history. After a first difference the histories differ, so later decisions can differ without either
//!   being wrong.

mod hits;
mod sample;
mod tested_limiter;
mod timeline;

use slidegate::{Algorithm, Cost, Quota};

pub use self::hits::{HitKey, Hits, Period};
pub use self::sample::KeySample;
use self::tested_limiter::{ExactDecision, TestedLimiter};
pub use self::timeline::Timeline;
use crate::definition::TickQuota;
use crate::exact::ExactKey;
use crate::keys::Keys;
use crate::number::to_float;
use crate::read::Timed;

/// The most limiters of a replay.
pub const LIMITERS_MAX: usize = 64;

/// Requests that are replayed together.
pub const BATCH: usize = 4096;

/// Replays with at most this many requests keep each decision.
pub const SINGLE_MAX: usize = 500;

/// The memory is weighed once per this many batches.
const WEIGH_EVERY: u64 = 16;

/// A request of a replay.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The hash of the key.
    pub fingerprint: u64,
    /// The number of the key.
    pub slot: u32,
    /// Units.
    pub cost: Cost,
}

/// A policy whose limits are simulated, and the algorithms that take part.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// One to eight quotas.
    pub quotas: Vec<Quota>,
    /// The algorithms.
    pub algorithms: Vec<Algorithm>,
}

/// The algorithms that are compared by default.
pub const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::Log,
    Algorithm::Counter,
    Algorithm::Segments { count: 2 },
    Algorithm::Segments { count: 10 },
    Algorithm::Segments { count: 60 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

/// A replay in progress.
#[derive(Debug)]
pub struct Replay {
    keys: Keys,
    groups: Vec<Group>,
    limiters: usize,
    timeline: Timeline,
    sample: KeySample,
    /// The first requests.
    singles: Vec<SingleRequest>,
    longest_ms: u64,
    batch: Vec<Request>,
    batches: u64,
    requests: u64,
    first_ms: Option<u64>,
    last_ms: u64,
}

/// A request of a short replay, and the limiters that denied it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SingleRequest {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The hash of the key.
    pub fingerprint: u64,
    /// The limiters that denied it, one bit each.
    pub denied_by: u64,
}

/// An exact limiter, and the limiters that are compared with it.
#[derive(Debug)]
struct Group {
    quotas: Vec<Quota>,
    tick_quotas: Vec<TickQuota>,
    keys: Vec<ExactKey>,
    limiters: Vec<TestedLimiter>,
}

/// A key of a request, and its units.
#[derive(Debug, Clone, Copy)]
pub struct KeyedCost {
    /// The number that [`Keys`] gave to the key.
    pub slot: u32,
    /// Units.
    pub cost: Cost,
}

impl Replay {
    /// Starts a replay.
    ///
    /// # Errors
    ///
    /// Returns what is out of range: quotas, the parameter of an algorithm, or the number of limiters.
    pub fn new(scenarios: &[Scenario]) -> Result<Self, String> {
        let mut groups = Vec::new();
        for Scenario { quotas, algorithms } in scenarios {
            let tested = |algorithm: &Algorithm| {
                TestedLimiter::new(*algorithm, quotas).map_err(|error| error.to_string())
            };
            groups.push(Group {
                tick_quotas: quotas.iter().map(tick_quota).collect(),
                quotas: quotas.clone(),
                keys: Vec::new(),
                limiters: algorithms.iter().map(tested).collect::<Result<_, _>>()?,
            });
        }
        let windows = groups.iter().flat_map(|group| &group.tick_quotas).map(|quota| quota.window);
        let longest_ms = windows.max().unwrap_or(0);
        let limiters = groups.iter().map(|group| group.limiters.len()).sum::<usize>();
        if limiters > LIMITERS_MAX {
            return Err(format!(
                "{limiters} combinations of quotas and algorithms are too many: use at most {LIMITERS_MAX}"
            ));
        }
        Ok(Self {
            keys: Keys::default(),
            groups,
            limiters,
            timeline: Timeline::new(limiters),
            sample: KeySample::default(),
            singles: Vec::new(),
            longest_ms,
            batch: Vec::new(),
            batches: 0,
            requests: 0,
            first_ms: None,
            last_ms: 0,
        })
    }

    /// Returns the keys, to intern those of further requests.
    pub fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Replays requests, which are in the order of time.
    pub fn play(&mut self, requests: &[Timed<KeyedCost>]) {
        for part in requests.chunks(BATCH) {
            let mut batch = core::mem::take(&mut self.batch);
            batch.clear();
            for Timed { at_ms, item } in part {
                let slot = self.keys.replay(item.slot, *at_ms);
                slot.requests += 1;
                let fingerprint = slot.fingerprint;
                let KeyedCost { slot, cost } = *item;
                batch.push(Request { at_ms: *at_ms, fingerprint, slot, cost });
            }
            self.play_batch(&batch);
            self.batch = batch;
        }
    }

    /// Returns the requests that were replayed last.
    pub fn last_batch(&self) -> &[Request] {
        &self.batch
    }

    fn play_batch(&mut self, batch: &[Request]) {
        let Some(last) = batch.last() else { return };
        let slots = self.keys.capacity();
        for group in &mut self.groups {
            group.keys.resize_with(slots.max(group.keys.len()), ExactKey::default);
            for tested in &mut group.limiters {
                tested.decide(batch, slots);
            }
        }
        for (place, request) in batch.iter().enumerate() {
            let step = self.timeline.step(request.at_ms);
            self.timeline.add_request(step);
            let (mut number, mut denied_by) = (0, 0_u64);
            for group in &mut self.groups {
                let key = &mut group.keys[request.slot as usize];
                let allowed = key.fits(&group.tick_quotas, request.at_ms, request.cost.get());
                for tested in &mut group.limiters {
                    let slot = self.keys.get_mut(request.slot);
                    let exact = ExactDecision { allowed, key };
                    if tested.compare(place, request, exact, &group.tick_quotas, slot) {
                        slot.denied_by |= 1 << number;
                        denied_by |= 1 << number;
                        self.timeline.add_denial(step, number);
                    }
                    number += 1;
                }
                if allowed {
                    key.record(request.at_ms, request.cost.get());
                }
            }
            if self.singles.len() < SINGLE_MAX {
                let Request { at_ms, fingerprint, .. } = *request;
                self.singles.push(SingleRequest { at_ms, fingerprint, denied_by });
            }
        }
        self.first_ms.get_or_insert(batch[0].at_ms);
        self.last_ms = last.at_ms;
        self.requests += batch.len() as u64;
        self.batches += 1;
        if self.batches % WEIGH_EVERY == 1 {
            self.weigh();
        }
        self.forget_idle();
    }

    fn weigh(&mut self) {
        for tested in self.groups.iter_mut().flat_map(|group| &mut group.limiters) {
            tested.weigh();
        }
    }

    /// Forgets keys of which no unit counts any more, some of them at a time.
    fn forget_idle(&mut self) {
        let before_ms = self.last_ms.saturating_sub(self.longest_ms);
        let (groups, sample) = (&mut self.groups, &mut self.sample);
        self.keys.sweep(before_ms, 2 * BATCH, |place, slot| {
            sample.add(slot);
            for group in &mut *groups {
                if let Some(key) = group.keys.get_mut(place as usize) {
                    *key = ExactKey::default();
                }
                for tested in &mut group.limiters {
                    tested.forget(place);
                }
            }
        });
    }

    /// Ends the replay.
    pub fn finish(mut self) -> Outcome {
        self.weigh();
        let sample = &mut self.sample;
        let slots = self.keys.capacity();
        self.keys.sweep(u64::MAX, slots, |_, slot| sample.add(slot));
        let mut limiters = Vec::new();
        for group in &self.groups {
            for tested in &group.limiters {
                let keys_denied = self.sample.denied(limiters.len());
                limiters.push(LimiterOutcome::new(
                    tested,
                    &group.quotas,
                    self.requests,
                    keys_denied,
                ));
            }
        }
        Outcome {
            requests: self.requests,
            keys: self.sample.keys(),
            keys_are_exact: self.sample.is_exact(),
            first_ms: self.first_ms.unwrap_or(0),
            last_ms: self.last_ms,
            timeline: self.timeline,
            singles: if self.requests > SINGLE_MAX as u64 { Vec::new() } else { self.singles },
            limiters,
        }
    }

    /// Returns the number of limiters.
    pub fn limiters(&self) -> usize {
        self.limiters
    }
}

/// A quota in milliseconds, the tick of the simulated limiters.
pub(crate) fn tick_quota(quota: &Quota) -> TickQuota {
    let window = quota.window().as_nanos().div_ceil(1_000_000);
    TickQuota { limit: quota.limit(), window: u64::try_from(window).unwrap_or(u64::MAX) }
}

/// What came of a replay.
#[derive(Debug)]
pub struct Outcome {
    /// Requests that were replayed.
    pub requests: u64,
    /// Different keys.
    pub keys: u64,
    /// Whether numbers of keys are exact. Beyond a million keys, they are estimates from a sample.
    pub keys_are_exact: bool,
    /// The time of the first request, in milliseconds since the Unix epoch.
    pub first_ms: u64,
    /// The time of the last request.
    pub last_ms: u64,
    /// Requests and denials over time.
    pub timeline: Timeline,
    /// Each request, if there are at most [`SINGLE_MAX`].
    pub singles: Vec<SingleRequest>,
    /// Each algorithm under each policy.
    pub limiters: Vec<LimiterOutcome>,
}

/// What came of one algorithm under one policy.
#[derive(Debug, Clone)]
pub struct LimiterOutcome {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The quotas.
    pub quotas: Vec<Quota>,
    /// Requests that it allowed.
    pub allowed: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Keys that it denied at least once.
    pub keys_denied: u64,
    /// Requests that it allowed although its last window then contained more than the limit.
    pub wrongly_allowed: u64,
    /// Requests that it denied although its last window had room.
    pub wrongly_denied: u64,
    /// Requests that it allowed and an exact limiter with its own history denied.
    pub allowed_unlike_exact: u64,
    /// Requests that it denied and an exact limiter with its own history allowed.
    pub denied_unlike_exact: u64,
    /// The most units by which a window exceeded its limit.
    pub worst_excess: u64,
    /// The key of that window, and the time of its end in milliseconds since the Unix epoch.
    pub worst_window: Option<(Box<str>, u64)>,
    /// The hash of that key.
    pub worst_fingerprint: Option<u64>,
    /// Times and units of the latest admissions in that window.
    pub worst_admitted: Vec<(u64, u64)>,
    /// Mean over all requests of the difference between the units that the algorithm counted and those that
    /// it had admitted in the last window, as a share of the latter.
    pub mean_rate_error: f64,
    /// The most bytes that the limiter took.
    pub bytes: usize,
    /// Bytes per key at that time, without the empty table.
    pub bytes_per_key: f64,
    /// Requests of new keys that did not fit into memory, and were decided by an estimate.
    pub overflowed: u64,
    /// Nanoseconds of processor time per decision.
    pub nanos_per_decision: f64,
    /// The keys with the most denials.
    pub hits: Vec<HitKey>,
}

/// Keys with the most denials that are reported.
const HITS: usize = 100;

impl LimiterOutcome {
    fn new(tested: &TestedLimiter, quotas: &[Quota], requests: u64, keys_denied: u64) -> Self {
        let tally = &tested.tally;
        let worst = tally.worst.as_ref();
        let per_request = 1.0 / to_float(requests.max(1));
        let nanos = u64::try_from(tally.nanos).unwrap_or(u64::MAX);
        Self {
            algorithm: tested.algorithm,
            quotas: quotas.to_vec(),
            allowed: tally.allowed,
            denied: tally.denied,
            keys_denied,
            wrongly_allowed: tally.wrongly_allowed,
            wrongly_denied: tally.wrongly_denied,
            allowed_unlike_exact: tally.allowed_unlike_exact,
            denied_unlike_exact: tally.denied_unlike_exact,
            worst_excess: worst.map_or(0, |worst| worst.excess),
            worst_window: worst.map(|worst| (worst.key.clone(), worst.at_ms)),
            worst_fingerprint: worst.map(|worst| worst.fingerprint),
            worst_admitted: worst.map(|worst| worst.admitted.clone()).unwrap_or_default(),
            mean_rate_error: tally.rate_error * per_request,
            bytes: tally.bytes,
            bytes_per_key: tally.bytes_per_key,
            overflowed: tally.overflowed,
            nanos_per_decision: to_float(nanos) * per_request,
            hits: tested.hits.top(HITS),
        }
    }
}
