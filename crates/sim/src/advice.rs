//! The smallest limit that denies at most a share of the requests or of the keys.
//!
//! A key is denied at least once exactly if one of its windows has more units than the limit, so one pass over the
//! requests finds the answer for keys. For requests, further passes try eight limits each, between one that denies too much and
//! one that does not, until the two are neighbors.

use core::fmt;
use core::str::FromStr;

use serde::Serialize;
use slidegate::Quota;

use crate::Source;
use crate::definition::TickQuota;
use crate::exact::ExactKey;
use crate::keys::Keys;
use crate::number::{share, to_float};
use crate::read::Timed;
use crate::replay::{BATCH, KeySample, KeyedCost, tick_quota};

/// Limits that are tried in one pass.
const TRIALS: u64 = 8;

/// What a limit may deny.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// At most this share of the requests.
    Requests(f64),
    /// At most this share of the keys, at least once.
    Keys(f64),
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "advice {text:?} is not usable: use requests=0.1% for the share of requests that may be denied, or \
                 keys=1% for the share of keys"
            )
        };
        let (what, share) = text.split_once('=').ok_or_else(wrong)?;
        let (number, unit) = match share.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (share.trim(), 1.0),
        };
        let share = number.parse::<f64>().map_err(|_| wrong())? / unit;
        if !(0.0..=1.0).contains(&share) {
            return Err(wrong());
        }
        match what.trim() {
            "requests" => Ok(Self::Requests(share)),
            "keys" => Ok(Self::Keys(share)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, because 0.1 % is not a finite binary number.
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        match self {
            Self::Requests(share) => write!(f, "at most {} % of requests denied", percent(*share)),
            Self::Keys(share) => write!(f, "at most {} % of keys denied", percent(*share)),
        }
    }
}

/// The smallest limit that reaches a goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The goal in words.
    pub goal: String,
    /// The quota with the smallest limit.
    pub quota: String,
    /// What it denies.
    #[serde(flatten)]
    pub effect: Effect,
    /// What the next smaller limit denies, which is more than the goal allows.
    pub one_less: Effect,
    /// A configuration of the daemon with this limit.
    pub yaml: String,
}

/// What a limit denies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The limit.
    pub limit: u64,
    /// Denied requests.
    pub denied: u64,
    /// Denied requests as a share of all.
    pub denied_share: f64,
    /// Keys that are denied at least once.
    pub keys_denied: u64,
    /// These keys as a share of all.
    pub keys_denied_share: f64,
}

/// Finds the smallest limit per `quota.window()` for each goal. `open` starts the same requests again, and `progress` is called
/// between batches. The texts in `yaml` are left empty.
///
/// # Errors
///
/// Returns the error of `open`, or that there are no requests.
pub fn advise(
    quota: Quota,
    goals: &[Goal],
    mut open: impl FnMut() -> Result<Source, String>,
    mut progress: impl FnMut(&Source),
) -> Result<Vec<Advice>, String> {
    let window = tick_quota(&quota).window;
    let mut pass = |limits: &[u64]| {
        let mut trial = Trial::new(limits, window);
        trial.run(open()?, &mut progress);
        Ok::<Trial, String>(trial)
    };
    let peaks = pass(&[])?;
    if peaks.requests == 0 {
        return Err("there is no request to give advice on".to_owned());
    }
    let mut advice = Vec::new();
    for goal in goals {
        let limit = match goal {
            Goal::Keys(share) => smallest_for_keys(&peaks, *share),
            Goal::Requests(share) => {
                let allowed = |denied: u64| crate::number::share(denied, peaks.requests) <= *share;
                // No key has more units in a window, so this limit denies nothing.
                let (mut low, mut high) = (0, peaks.greatest.max(1));
                while high - low > 1 {
                    let limits = between(low, high);
                    let trial = pass(&limits)?;
                    for (limit, denied) in limits.iter().zip(&trial.denied) {
                        if allowed(*denied) {
                            high = *limit;
                            break;
                        }
                        low = *limit;
                    }
                }
                high
            }
        };
        let last = pass(&[limit - 1, limit])?;
        let effect = |limit: u64, denied: u64| Effect {
            limit,
            denied,
            denied_share: share(denied, peaks.requests),
            keys_denied: peaks.keys_over(limit),
            keys_denied_share: share(peaks.keys_over(limit), peaks.peaks.keys()),
        };
        let best = Quota::new(limit, quota.window()).map_err(|error| error.to_string())?;
        advice.push(Advice {
            goal: goal.to_string(),
            quota: best.to_string(),
            effect: effect(limit, last.denied[1]),
            one_less: effect(limit - 1, last.denied[0]),
            yaml: String::new(),
        });
    }
    Ok(advice)
}

/// Up to [`TRIALS`] limits at equal distances between two, which are not among them.
fn between(low: u64, high: u64) -> Vec<u64> {
    let count = (high - low - 1).min(TRIALS);
    let place = |number: u64| {
        let part = u128::from(high - low) * u128::from(number) / u128::from(count + 1);
        low + u64::try_from(part).unwrap_or(0)
    };
    let mut limits: Vec<u64> = (1..=count).map(place).filter(|limit| *limit > low).collect();
    limits.dedup();
    limits
}

/// The smallest limit of at least 1 that denies at most a share of the keys.
fn smallest_for_keys(peaks: &Trial, share: f64) -> u64 {
    let allowed = to_float(peaks.peaks.keys()) * share;
    let (mut low, mut high) = (0, peaks.greatest.max(1));
    // The sample can miss the few keys that a limit may not deny here.
    if allowed < 1.0 {
        return high;
    }
    let is_enough = |limit: u64| to_float(peaks.keys_over(limit)) <= allowed;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// A pass over the requests, with exact limiters of some limits and one without.
#[derive(Debug)]
struct Trial {
    keys: Keys,
    /// A quota that is never used up, then the limits.
    quotas: Vec<[TickQuota; 1]>,
    /// The exact state of each quota, per key.
    states: Vec<Vec<ExactKey>>,
    /// The most units of each key in a window, beyond a million keys of a sample.
    peaks: KeySample,
    /// The most units of any key in a window.
    greatest: u64,
    requests: u64,
    /// Denied requests per limit.
    denied: Vec<u64>,
    window: u64,
}

impl Trial {
    fn new(limits: &[u64], window: u64) -> Self {
        let quota = |limit: u64| [TickQuota { limit, window }];
        // The peaks are found in the first pass, which has no limits.
        let unlimited = limits.is_empty().then_some(u64::MAX);
        let quotas: Vec<_> =
            unlimited.into_iter().chain(limits.iter().copied()).map(quota).collect();
        Self {
            keys: Keys::default(),
            states: quotas.iter().map(|_| Vec::new()).collect(),
            quotas,
            peaks: KeySample::default(),
            greatest: 0,
            requests: 0,
            denied: vec![0; limits.len()],
            window,
        }
    }

    fn run(&mut self, mut source: Source, progress: &mut impl FnMut(&Source)) {
        let mut batch = Vec::new();
        loop {
            source.fill(&mut batch, BATCH, &mut self.keys);
            let Some(last) = batch.last() else { break };
            let before_ms = last.at_ms.saturating_sub(self.window);
            self.play(&batch);
            let states = &mut self.states;
            self.keys.sweep(before_ms, 2 * BATCH, |place, _| {
                for keys in &mut *states {
                    if let Some(key) = keys.get_mut(place as usize) {
                        *key = ExactKey::default();
                    }
                }
            });
            progress(&source);
        }
    }

    fn play(&mut self, batch: &[Timed<KeyedCost>]) {
        for Timed { at_ms, item } in batch {
            self.keys.replay(item.slot, *at_ms);
        }
        let slots = self.keys.capacity();
        for (place, (quotas, keys)) in self.quotas.iter().zip(&mut self.states).enumerate() {
            keys.resize_with(slots.max(keys.len()), ExactKey::default);
            let is_unlimited = quotas[0].limit == u64::MAX;
            for Timed { at_ms, item } in batch {
                let key = &mut keys[item.slot as usize];
                let cost = item.cost.get();
                if key.fits(quotas, *at_ms, cost) {
                    key.record(*at_ms, cost);
                } else if let Some(denied) = self.denied.get_mut(place) {
                    *denied += 1;
                }
                if is_unlimited {
                    let fingerprint = self.keys.get_mut(item.slot).fingerprint;
                    self.greatest = self.greatest.max(key.units());
                    self.peaks.merge(fingerprint, |peak| *peak = key.units().max(*peak));
                }
            }
        }
        self.requests += batch.len() as u64;
    }

    /// The number of keys that have more units than `limit` in some window.
    fn keys_over(&self, limit: u64) -> u64 {
        self.peaks.count(|peak| peak > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_shares() {
        assert_eq!("requests=0.1%".parse(), Ok(Goal::Requests(0.001)));
        assert_eq!("keys = 0.05".parse(), Ok(Goal::Keys(0.05)));
        assert_eq!(Goal::Requests(0.001).to_string(), "at most 0.1 % of requests denied");
        for text in ["requests", "users=1%", "keys=x", "keys=101%", "requests=-1", "keys=NaN"] {
            assert!(text.parse::<Goal>().unwrap_err().contains("requests=0.1%"), "{text}");
        }
    }

    #[test]
    fn a_busy_key_among_millions_is_not_missed() {
        use crate::traffic::TrafficSpec;
        let quota = Quota::per_second(10);
        let spec = TrafficSpec::parse("brute-force:requests=1500000,keys=99000000", quota).unwrap();
        // Without the busy key, whose hash is random, a limit of 1 would be enough.
        let mut trial = Trial::new(&[], tick_quota(&quota).window);
        trial.run(Source::traffic(spec.start(quota)), &mut |_| {});
        assert!(!trial.peaks.is_exact());
        assert!(trial.greatest > 1000, "{}", trial.greatest);
        assert_eq!(smallest_for_keys(&trial, 0.0), trial.greatest);
    }

    #[test]
    fn limits_between_two_narrow_down() {
        assert_eq!(between(0, 2), [1]);
        assert_eq!(between(3, 7), [4, 5, 6]);
        let limits = between(0, u64::MAX);
        assert_eq!(limits.len(), 8);
        assert!(limits.is_sorted());
    }
}
