//! The keys that a replay has in hand.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use slidegate::{Key, Secret};

/// Gives each active key a small number, and forgets keys that have been idle for long.
///
/// What a replay stores per key lies in lists that are indexed by this number.
#[derive(Debug)]
pub struct Keys {
    secret: Secret,
    places: FingerprintMap<u32>,
    slots: Vec<KeySlot>,
    free: Vec<u32>,
    /// The slot at which the next sweep begins.
    hand: usize,
}

/// A key in use.
#[derive(Debug, Clone, Default)]
pub struct KeySlot {
    /// The hash of the key.
    pub fingerprint: u64,
    /// The time of the last request that was replayed.
    pub last_ms: u64,
    /// Requests that were read and not yet replayed. They hold the number of the key.
    pub(crate) waiting: u32,
    /// Requests since the key was last forgotten.
    pub requests: u64,
    /// The limiters that denied a request, one bit each.
    pub denied_by: u64,
    /// The key as text.
    pub name: Box<str>,
    pub(crate) is_used: bool,
}

/// A map by fingerprint, which is a hash already.
pub(crate) type FingerprintMap<V> = HashMap<u64, V, BuildHasherDefault<Identity>>;

impl Default for Keys {
    fn default() -> Self {
        Self {
            secret: Secret::random(),
            places: FingerprintMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
        }
    }
}

impl Keys {
    /// Returns the number of a key that made a request. It stays the same until the request is [replayed](Keys::replay).
    pub fn intern(&mut self, name: &str) -> u32 {
        self.place(name.fingerprint(&self.secret), || name.into())
    }

    /// Returns the number of a key that is a number itself. `name` is called if the key is new.
    pub fn intern_number(&mut self, number: u64, name: impl FnOnce() -> Box<str>) -> u32 {
        self.place(number.to_le_bytes().fingerprint(&self.secret), name)
    }

    /// Returns the number of the key with this fingerprint.
    fn place(&mut self, fingerprint: u64, name: impl FnOnce() -> Box<str>) -> u32 {
        let (slots, free) = (&mut self.slots, &mut self.free);
        let place = *self.places.entry(fingerprint).or_insert_with(|| {
            let slot = KeySlot { fingerprint, name: name(), is_used: true, ..KeySlot::default() };
            if let Some(place) = free.pop() {
                slots[place as usize] = slot;
                return place;
            }
            slots.push(slot);
            // 2^32 slots would take 240 GB.
            u32::try_from(slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[place as usize].waiting += 1;
        place
    }

    /// Returns the key of a request that is replayed now.
    ///
    /// `at_ms` is the time of the replay. A log can give a late request an earlier time, but its units count from now on.
    pub fn replay(&mut self, place: u32, at_ms: u64) -> &mut KeySlot {
        let slot = &mut self.slots[place as usize];
        slot.waiting = slot.waiting.saturating_sub(1);
        slot.last_ms = at_ms;
        slot
    }

    /// Returns a key by its number.
    pub fn get_mut(&mut self, place: u32) -> &mut KeySlot {
        &mut self.slots[place as usize]
    }

    /// Returns the number of slots, used and free.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Forgets keys without a request since `before_ms`, unless one waits to be replayed. Looks at up to `slots_max` slots, and continues
    /// where the last call stopped. `forget` is called with each key and its number.
    pub fn sweep(
        &mut self,
        before_ms: u64,
        slots_max: usize,
        mut forget: impl FnMut(u32, &KeySlot),
    ) {
        for _ in 0..slots_max.min(self.slots.len()) {
            self.hand = if self.hand + 1 >= self.slots.len() { 0 } else { self.hand + 1 };
            let slot = &mut self.slots[self.hand];
            if slot.is_used && slot.waiting == 0 && slot.last_ms < before_ms {
                let place = u32::try_from(self.hand).unwrap_or(u32::MAX);
                forget(place, slot);
                self.places.remove(&slot.fingerprint);
                *slot = KeySlot::default();
                self.free.push(place);
            }
        }
    }
}

/// Hashes a fingerprint to itself.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_keys_are_forgotten_and_their_slots_used_again() {
        let mut keys = Keys::default();
        let mut request = |name: &str, at_ms: u64| {
            let place = keys.intern(name);
            keys.replay(place, at_ms);
            place
        };
        let (alice, bob) = (request("alice", 10), request("bob", 20));
        assert_eq!(request("alice", 15), alice);
        let mut forgotten = Vec::new();
        keys.sweep(20, 100, |place, slot| forgotten.push((place, slot.name.clone())));
        assert_eq!(forgotten, [(alice, "alice".into())]);
        assert_eq!(keys.intern("carol"), alice);
        assert_eq!(keys.intern("bob"), bob);
        assert_eq!(keys.capacity(), 2);
    }

    #[test]
    fn the_key_of_a_request_that_waits_is_kept() {
        let mut keys = Keys::default();
        let alice = keys.intern("alice");
        keys.replay(alice, 10);
        assert_eq!(keys.intern("alice"), alice);
        keys.sweep(1000, 100, |_, slot| panic!("{} is forgotten", slot.name));
        keys.replay(alice, 1000);
        let mut forgotten = 0;
        keys.sweep(1001, 100, |_, _| forgotten += 1);
        assert_eq!(forgotten, 1);
    }
}
