//! Tests of `slots`.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::window::{Limits, Log};

fn fingerprint(number: u64) -> u64 {
    (number + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xd6e8_feb8_6659_fd93)
}

// A batch with wrong guesses would be correct, but no faster than single checks.
#[test]
fn most_guesses_are_right() {
    let mut slots = Slots::<Log>::new();
    assert_eq!((slots.guess(7), slots.touch_tag(7)), (None, 0));
    slots.grow(1120);
    for number in 0..1000 {
        slots.insert(fingerprint(number), Log::default());
    }
    let right = |number: &u64| {
        let fingerprint = fingerprint(*number);
        slots.guess(fingerprint).is_some_and(|at| slots.holds(at, fingerprint))
    };
    assert!((0..1000).filter(right).count() > 950);
    assert_eq!((1000..2000).filter(right).count(), 0);
    assert!((0..1000).all(|number| slots.find(fingerprint(number)).is_some()));
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    /// Removes the key nearest to the fingerprint.
    Remove(u64),
    /// Replaces one of the keys nearest to the fingerprint by a key with that fingerprint.
    Replace(u64, usize),
    Grow,
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    // Many keys belong to the last slots, so that runs of keys wrap around the end of the table.
    let fingerprint = || {
        prop_oneof![
            any::<u64>(),
            (0u64..1 << 12).prop_map(|number| u64::MAX - (number << 48)),
            (0u64..1 << 12).prop_map(|number| number << 48),
        ]
    };
    prop_oneof![
        8 => fingerprint().prop_map(Step::Insert),
        3 => fingerprint().prop_map(Step::Remove),
        3 => (fingerprint(), 0usize..8).prop_map(|(key, number)| Step::Replace(key, number)),
        1 => Just(Step::Grow),
        1 => Just(Step::Shrink),
    ]
}

/// A table and its expected content: the epoch of each key.
#[derive(Debug)]
struct Compared {
    slots: Slots<Log>,
    keys: HashMap<u64, u16>,
    next_epoch: u16,
}

impl Compared {
    fn new() -> Self {
        Self { slots: Slots::new(), keys: HashMap::new(), next_epoch: 0 }
    }

    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Insert(key) if !self.keys.contains_key(&key) => {
                if self.slots.is_full() {
                    self.slots.grow(self.slots.least_next_capacity());
                }
                let window = self.window(key);
                let at = self.slots.insert(key, window);
                prop_assert_eq!(Some(at), self.slots.find(key));
            }
            Step::Remove(near) => {
                let Some(at) = self.slots.near(near).next() else { return Ok(()) };
                let (key, _) = self.slots.get(at).unwrap();
                let before = self.places();
                let (window, moved_round_end) = self.slots.remove(at);
                prop_assert_eq!(self.keys.remove(&key), Some(window.epoch()));
                let moved = self.places().iter().any(|(key, place)| *place > before[key]);
                prop_assert_eq!(moved_round_end, moved);
            }
            Step::Replace(key, number) if !self.keys.contains_key(&key) => {
                let Some(at) = self.slots.near(key).nth(number) else { return Ok(()) };
                let (replaced, _) = self.slots.get(at).unwrap();
                self.keys.remove(&replaced);
                let window = self.window(key);
                let before = self.places();
                let (at, moved_round_end) = self.slots.replace(at, key, window);
                prop_assert_eq!(Some(at), self.slots.find(key));
                let moved =
                    |(other, place): (&u64, &usize)| *other != key && *place > before[other];
                prop_assert_eq!(moved_round_end, self.places().iter().any(moved));
            }
            Step::Grow => self.slots.grow(self.slots.next_capacity()),
            Step::Shrink => {
                let capacity = self.slots.fitting_capacity().min(self.slots.capacity());
                self.slots.shrink(capacity);
            }
            Step::Insert(_) | Step::Replace(..) => {}
        }
        Ok(())
    }

    fn window(&mut self, key: u64) -> Log {
        self.next_epoch += 1;
        self.keys.insert(key, self.next_epoch);
        Log::new(&Limits::of(&[(1, 1)]), self.next_epoch)
    }

    fn places(&self) -> HashMap<u64, usize> {
        self.keys.keys().map(|key| (*key, self.slots.find(*key).unwrap_or(usize::MAX))).collect()
    }

    fn assert_equal(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.slots.len(), self.keys.len());
        prop_assert_eq!(self.slots.near(1 << 63).count(), self.keys.len());
        for (key, epoch) in &self.keys {
            let at = self.slots.find(*key);
            prop_assert!(at.is_some(), "{key} is lost");
            prop_assert_eq!(self.slots.window(at.unwrap()).epoch(), *epoch);
            prop_assert!(self.keys.contains_key(&!key) || self.slots.find(!key).is_none());
        }
        let mut seen = HashMap::new();
        self.slots.between(0, u64::MAX, |key, window| {
            seen.insert(key, window.epoch());
        });
        prop_assert_eq!(&seen, &self.keys);
        Ok(())
    }
}

proptest! {
    // What could go wrong: a search misses a key, because growth or a removal left an empty slot
    // between its home and its slot.
    #[test]
    fn the_table_matches_a_hash_map(
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut compared = Compared::new();
        for step in &steps {
            compared.run(step)?;
            compared.assert_equal()?;
        }
    }
}
