//! The sketch against exact counts.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn add(sketch: &mut Sketch<()>, id: u64) {
    sketch.add(id, 1, |_| (), |()| {});
}

fn is_heap(sketch: &Sketch<()>) -> bool {
    let at_place = |(place, entry): (usize, &Entry)| {
        let counter = &sketch.slots[entry.slot];
        counter.place == place
            && counter.count == entry.count
            && sketch.slot_of.get(&counter.id) == Some(&entry.slot)
            && entry.count >= sketch.heap[place.saturating_sub(1) / 2].count
    };
    sketch.heap.iter().enumerate().all(at_place)
        && sketch.slot_of.len() == sketch.heap.len()
        && sketch.slots.len() == sketch.heap.len()
}

#[test]
fn keys_that_fit_are_counted_exactly() {
    let mut sketch = Sketch::new(4);
    for id in [1, 2, 1, 3, 1, 2] {
        add(&mut sketch, id);
    }
    let count = |id| sketch.get(id).map(|counter| (counter.count, counter.error));
    assert_eq!(
        [count(1), count(2), count(3), count(4)],
        [Some((3, 0)), Some((2, 0)), Some((1, 0)), None]
    );
}

#[test]
fn a_hot_key_stays_among_a_million_keys_that_come_once() {
    let mut sketch = Sketch::new(16);
    for id in 1..=100_000 {
        add(&mut sketch, id);
        if id % 5 == 0 {
            add(&mut sketch, u64::MAX);
        }
    }
    let hot = sketch.get(u64::MAX).expect("it has a fifth of all requests");
    assert!(hot.count >= 20_000 && hot.count - hot.error <= 20_000, "{hot:?}");
    assert_eq!(sketch.counters().len(), 16);
}

proptest! {
    #[test]
    fn counts_are_never_too_low_and_at_most_their_error_too_high(
        ids in prop::collection::vec(0_u64..40, 1..600),
        counters in 1_usize..20,
    ) {
        let mut sketch = Sketch::new(counters);
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for id in &ids {
            add(&mut sketch, *id);
            *exact.entry(*id).or_default() += 1;
            prop_assert!(is_heap(&sketch));
        }
        for counter in sketch.counters() {
            let exact = exact[&counter.id];
            prop_assert!(counter.count >= exact && counter.count - counter.error <= exact);
        }
        for (id, exact) in exact {
            let is_frequent = exact * counters as u64 > ids.len() as u64;
            prop_assert!(!is_frequent || sketch.get(id).is_some());
        }
    }
}
