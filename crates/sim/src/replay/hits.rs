//! The keys that are denied most, and when.

use serde::{Serialize, Serializer};

use super::timeline::Timeline;
use crate::keys::{FingerprintMap, KeySlot};
use crate::read::format_time;

/// Keys that are followed. Beyond them, those with the fewest denials are dropped.
const FOLLOWED_MAX: usize = 8192;

/// Steps of time in which the denials of a key are counted.
const STEPS: usize = 48;

/// Denials per key, of a bounded number of keys.
#[derive(Debug, Default)]
pub struct Hits {
    keys: FingerprintMap<HitKey>,
    /// The most denials of a key that was dropped. A key that comes back may have had as many.
    dropped: u64,
}

/// A key that was denied.
#[derive(Debug, Clone, Serialize)]
pub struct HitKey {
    /// The key.
    pub key: Box<str>,
    /// Denials, at least.
    pub denied: u64,
    /// Denials that may have been missed, because too many keys were denied to follow all of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed_max: u64,
    /// The first denial, in milliseconds since the Unix epoch.
    #[serde(rename = "first", serialize_with = "as_time")]
    pub first_ms: u64,
    /// The last denial, in milliseconds since the Unix epoch.
    #[serde(rename = "last", serialize_with = "as_time")]
    pub last_ms: u64,
    /// The denials over time. As JSON, the periods.
    #[serde(rename = "when", serialize_with = "as_periods")]
    pub over_time: Timeline,
    /// The hash of the key.
    #[serde(skip)]
    pub fingerprint: u64,
}

/// A time in which a key was denied again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Period {
    /// The start, in milliseconds since the Unix epoch.
    #[serde(rename = "from", serialize_with = "as_time")]
    pub from_ms: u64,
    /// The end, in milliseconds since the Unix epoch.
    #[serde(rename = "until", serialize_with = "as_time")]
    pub until_ms: u64,
    /// Denials.
    pub denied: u64,
}

impl HitKey {
    /// Returns when the key was denied, in at most 24 periods, each as exact as the length of the whole allows.
    pub fn periods(&self) -> Vec<Period> {
        periods(&self.over_time)
    }
}

fn periods(timeline: &Timeline) -> Vec<Period> {
    let mut periods: Vec<Period> = Vec::new();
    let mut from_ms = timeline.start_ms();
    for denied in timeline.requests() {
        let until_ms = from_ms.saturating_add(timeline.step_ms());
        match periods.last_mut() {
            _ if denied == 0 => {}
            Some(last) if last.until_ms == from_ms => {
                last.until_ms = until_ms;
                last.denied += denied;
            }
            _ => periods.push(Period { from_ms, until_ms, denied }),
        }
        from_ms = until_ms;
    }
    periods
}

impl Hits {
    /// Counts a denial.
    pub fn add(&mut self, slot: &KeySlot, at_ms: u64) {
        self.add_named(slot.fingerprint, at_ms, || slot.name.clone());
    }

    /// Counts a denial of the key with a hash. `name` is called if the key is new.
    pub fn add_named(&mut self, fingerprint: u64, at_ms: u64, name: impl FnOnce() -> Box<str>) {
        let missed_max = self.dropped;
        let hit = self.keys.entry(fingerprint).or_insert_with(|| HitKey {
            key: name(),
            denied: 0,
            missed_max,
            first_ms: at_ms,
            last_ms: at_ms,
            over_time: Timeline::with_steps(0, STEPS),
            fingerprint,
        });
        hit.denied += 1;
        hit.last_ms = at_ms;
        let step = hit.over_time.step(at_ms);
        hit.over_time.add_request(step);
        if self.keys.len() > FOLLOWED_MAX {
            self.drop_least();
        }
    }

    /// Drops the half with the fewest denials.
    fn drop_least(&mut self) {
        let mut counts: Vec<u64> =
            self.keys.values().map(|hit| hit.denied + hit.missed_max).collect();
        let (_, median, _) = counts.select_nth_unstable(FOLLOWED_MAX / 2);
        let median = *median;
        self.dropped = self.dropped.max(median);
        self.keys.retain(|_, hit| hit.denied + hit.missed_max > median);
    }

    /// Returns the keys with the most denials, those first.
    pub fn top(&self, count: usize) -> Vec<HitKey> {
        let mut keys: Vec<&HitKey> = self.keys.values().collect();
        keys.sort_unstable_by(|one, other| (other.denied, &one.key).cmp(&(one.denied, &other.key)));
        keys.into_iter().take(count).cloned().collect()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn as_time<S: Serializer>(millis: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_time(*millis))
}

fn as_periods<S: Serializer>(timeline: &Timeline, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(periods(timeline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_denied_key_is_found_among_more_than_can_be_followed() {
        let mut hits = Hits::default();
        for number in 0..100_000_u64 {
            let slot = KeySlot { fingerprint: number, name: "other".into(), ..KeySlot::default() };
            hits.add(&slot, number);
            let slot = KeySlot { fingerprint: u64::MAX, name: "busy".into(), ..KeySlot::default() };
            hits.add(&slot, number);
        }
        let top = hits.top(2);
        assert_eq!((&*top[0].key, top[0].denied), ("busy", 100_000));
        assert_eq!((top[0].first_ms, top[0].last_ms, top[0].missed_max), (0, 99_999, 0));
        assert!(hits.keys.len() <= FOLLOWED_MAX);
        assert!(top[1].missed_max >= 1);
    }

    #[test]
    fn denials_are_grouped_into_periods() {
        let mut hits = Hits::default();
        let slot = KeySlot { fingerprint: 1, name: "alice".into(), ..KeySlot::default() };
        for at_ms in [1000, 1001, 1002, 61_000, 61_500] {
            hits.add(&slot, at_ms);
        }
        let periods = hits.top(1)[0].periods();
        let counts: Vec<u64> = periods.iter().map(|period| period.denied).collect();
        assert_eq!(counts, [3, 2]);
        assert_eq!(periods[0].from_ms, 1000);
        assert!(periods[1].from_ms <= 61_000 && periods[1].until_ms > 61_500);
    }
}
