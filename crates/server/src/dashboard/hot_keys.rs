//! The keys with the most requests, and those closest to their limits.
//!
//! Gates report to [`HotKeys`] only while a dashboard or `slidegate top` is open. Then every request is
//! recorded up to a rate, and one of several above it, so that the cost of a request hardly changes.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Key, Secret};
use slidegate_gate::{GateOutcome, Observation, Observer};

use super::sketch::{Counter, Sketch};

/// The maximum number of keys that are counted.
const KEYS_MAX: usize = 1024;
/// Longer keys are counted, but shown and looked up by their digest only.
const KEY_BYTES_MAX: usize = 1024;
/// Requests per second up to which every request is recorded.
const EVERY_REQUEST_MAX: f64 = 32.0;
/// The least share of requests that is recorded: one of this number.
const STRIDE_MAX: u32 = 4096;
/// Seconds after which a request counts half.
const HALF_LIFE: u64 = 60;
/// The weight of the last second in the rate of a key.
const NEW_WEIGHT: f64 = 0.3;

/// Counts keys as an observer of gates.
#[derive(Debug)]
pub(super) struct HotKeys {
    sketch: Mutex<Sketch<KeyState>>,
    secret: Secret,
    /// One of this number of requests is recorded.
    stride: AtomicU32,
    ticks: Mutex<u64>,
}

/// What the last requests of a key have shown.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyState {
    pub(super) policy: String,
    pub(super) tier: Option<String>,
    /// The bytes of the key.
    pub(super) key: Vec<u8>,
    pub(super) is_secret: bool,
    /// Whether the key is too long to be kept.
    pub(super) is_cut: bool,
    /// Of the quota with the least left: the limit, and the units that were left.
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) is_over: bool,
    /// Requests per second, smoothed, and those that were or would have been denied.
    pub(super) rate: f64,
    pub(super) denied_rate: f64,
    new: u32,
    new_denied: u32,
}

/// A key with its id, as the dashboard shows it.
#[derive(Debug, Clone)]
pub(super) struct HotKey {
    pub(super) id: u64,
    pub(super) count: u64,
    pub(super) error: u64,
    pub(super) state: KeyState,
}

thread_local! {
    /// Requests of this thread until the next one is recorded.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// The last random number of this thread.
    static RANDOM: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// Returns how many requests to skip: `stride - 1` on average, and random, so that clients that take
/// turns are all seen.
fn gap(stride: u32) -> u32 {
    let mut random = RANDOM.get();
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    RANDOM.set(random);
    random % (2 * stride - 1)
}

impl HotKeys {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            sketch: Mutex::new(Sketch::new(KEYS_MAX)),
            secret: Secret::random(),
            stride: AtomicU32::new(1),
            ticks: Mutex::default(),
        })
    }

    /// Returns the id of a key, which is a keyed hash: it says nothing about the key.
    pub(super) fn id(&self, policy: &str, key: &[u8]) -> u64 {
        // FNV-1a is enough for names of the configuration.
        let of_policy = policy.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        key.fingerprint(&self.secret) ^ of_policy
    }

    /// Ends a second in which there were `requests`.
    pub(super) fn tick(&self, requests: f64) {
        let stride = f64::from(self.stride());
        let wanted = (requests / EVERY_REQUEST_MAX).ceil().clamp(1.0, f64::from(STRIDE_MAX));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is clamped"
        )]
        let wanted = (wanted as u32).next_power_of_two();
        let mut sketch = self.sketch.lock();
        for state in sketch.values_mut() {
            let new = f64::from(core::mem::take(&mut state.new)) * stride;
            let denied = f64::from(core::mem::take(&mut state.new_denied)) * stride;
            state.rate += NEW_WEIGHT * (new - state.rate);
            state.denied_rate += NEW_WEIGHT * (denied - state.denied_rate);
        }
        let mut ticks = self.ticks.lock();
        *ticks += 1;
        if ticks.is_multiple_of(HALF_LIFE) {
            sketch.halve();
        }
        self.stride.store(wanted, Ordering::Relaxed);
    }

    /// Returns the number of requests of which one is recorded.
    pub(super) fn stride(&self) -> u32 {
        self.stride.load(Ordering::Relaxed)
    }

    /// Forgets all keys.
    pub(super) fn clear(&self) {
        self.sketch.lock().clear();
        self.stride.store(1, Ordering::Relaxed);
    }

    /// Returns the keys with the most requests, the highest rate first.
    pub(super) fn hottest(&self, most: usize) -> Vec<HotKey> {
        let sketch = self.sketch.lock();
        let mut keys: Vec<_> = sketch.counters().iter().collect();
        keys.sort_unstable_by(|one, other| {
            other.value.rate.total_cmp(&one.value.rate).then(one.id.cmp(&other.id))
        });
        keys.into_iter().take(most).map(hot_key).collect()
    }

    /// Returns the keys with the smallest share of a limit left, those over it first.
    pub(super) fn closest(&self, most: usize) -> Vec<HotKey> {
        let sketch = self.sketch.lock();
        let is_current =
            |state: &KeyState| state.limit > 0 && state.rate + state.denied_rate > 0.005;
        let counters = sketch.counters().iter();
        let mut keys: Vec<_> = counters.filter(|counter| is_current(&counter.value)).collect();
        keys.sort_by(|one, other| {
            let (one, other) = (&one.value, &other.value);
            let by_denials = other.denied_rate.total_cmp(&one.denied_rate);
            let by_share = other.used_share().total_cmp(&one.used_share());
            other.is_over.cmp(&one.is_over).then(by_denials).then(by_share)
        });
        keys.into_iter().take(most).map(hot_key).collect()
    }

    /// Returns the key with this id.
    pub(super) fn find(&self, id: u64) -> Option<HotKey> {
        self.sketch.lock().get(id).map(hot_key)
    }

    #[cold]
    fn record(&self, observation: &Observation<'_>, weight: u64) {
        let Some(decision) = observation.decision else { return };
        if observation.key.is_empty() || observation.outcome == GateOutcome::Off {
            return;
        }
        let policy = observation.gate.name();
        let id = self.id(policy, observation.key);
        // A request never waits for the page.
        let Some(mut sketch) = self.sketch.try_lock() else { return };
        let fresh = |old: Option<KeyState>| {
            let mut state = old.unwrap_or_default();
            state.renew(observation);
            state
        };
        sketch.add(id, weight, fresh, |state| {
            let is_over = observation.outcome.is_rejected()
                || observation.outcome == GateOutcome::ShadowDenied;
            state.new = state.new.saturating_add(1);
            state.new_denied = state.new_denied.saturating_add(u32::from(is_over));
            state.is_over = is_over;
            if let Some(quota) = decision.tightest() {
                (state.limit, state.remaining) = (quota.limit(), quota.remaining());
            }
        });
    }
}

impl KeyState {
    /// Describes another key, in the same allocations.
    fn renew(&mut self, observation: &Observation<'_>) {
        let gate = observation.gate;
        self.policy.clear();
        self.policy.push_str(gate.name());
        self.key.clear();
        self.key.extend_from_slice(observation.key.get(..KEY_BYTES_MAX).unwrap_or(observation.key));
        self.tier = observation.tier.and_then(|tier| gate.tier_name(tier)).map(str::to_owned);
        self.is_secret = gate.has_secret_keys();
        self.is_cut = observation.key.len() > KEY_BYTES_MAX;
        (self.rate, self.denied_rate, self.new, self.new_denied) = (0.0, 0.0, 0, 0);
    }

    /// Returns the share of the limit that is used, from 0 to 1.
    pub(super) fn used_share(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
        let share =
            |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        share(self.limit.saturating_sub(self.remaining), self.limit)
    }
}

fn hot_key(counter: &Counter<KeyState>) -> HotKey {
    let Counter { id, count, error, value, .. } = counter;
    HotKey { id: *id, count: *count, error: *error, state: value.clone() }
}

impl Observer for HotKeys {
    #[inline]
    fn decided(&self, observation: &Observation<'_>) {
        let (left, stride) = (LEFT.get(), self.stride());
        // A gap from heavier traffic ends here: after it, a thread could skip keys for minutes.
        if left > 0 && left < 2 * stride {
            LEFT.set(left - 1);
            return;
        }
        LEFT.set(gap(stride));
        self.record(observation, u64::from(stride));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slidegate::{Cost, Limiter, Policy, Quota};
    use slidegate_gate::{Caller, Gate};

    #[test]
    fn keys_are_recorded_at_once_after_heavy_traffic() {
        let hot_keys = HotKeys::new();
        let limiter = Limiter::new(Policy::new("api", Quota::per_hour(10)).unwrap()).unwrap();
        let gate = Gate::builder(limiter).observer(hot_keys.clone()).build().unwrap();
        let ask = |key: &[u8]| gate.check_in_process(key, None, Cost::ONE, Caller::IN_PROCESS);
        hot_keys.tick(f64::MAX);
        for _ in 0..10 * STRIDE_MAX {
            ask(b"flood");
        }
        assert!(LEFT.get() > 0, "the last request was recorded by chance");
        hot_keys.clear();
        ask(b"next");
        ask(b"next");
        let keys = hot_keys.hottest(10);
        assert!(keys.iter().any(|key| key.state.key == b"next"), "{keys:?}");
    }
}
