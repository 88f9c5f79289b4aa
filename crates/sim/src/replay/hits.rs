//! The keys that are denied most.

use serde::{Serialize, Serializer};

use crate::keys::{FingerprintMap, KeySlot};
use crate::read::format_time;

/// Keys that are followed. Beyond them, those with the fewest denials are dropped.
const FOLLOWED_MAX: usize = 8192;

/// Denials per key, of a bounded number of keys.
#[derive(Debug, Default)]
pub(super) struct Hits {
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
    /// The hash of the key.
    #[serde(skip)]
    pub fingerprint: u64,
}

impl Hits {
    pub(super) fn add(&mut self, slot: &KeySlot, at_ms: u64) {
        let missed_max = self.dropped;
        let hit = self.keys.entry(slot.fingerprint).or_insert_with(|| HitKey {
            key: slot.name.clone(),
            denied: 0,
            missed_max,
            first_ms: at_ms,
            last_ms: at_ms,
            fingerprint: slot.fingerprint,
        });
        hit.denied += 1;
        hit.last_ms = at_ms;
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

    /// The keys with the most denials, those first.
    pub(super) fn top(&self, count: usize) -> Vec<HitKey> {
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
}
