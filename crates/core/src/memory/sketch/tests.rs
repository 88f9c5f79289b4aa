//! Tests of `overflow`.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

proptest! {
    // An estimate that is too low would let a key exceed its limit.
    #[test]
    fn never_undercounts(
        steps in prop::collection::vec((0u64..40, 1u64..9, 0u64..30, any::<bool>()), 1..400),
        limit in prop::sample::select(vec![5u64, 100, 1 << 40]),
    ) {
        let mut sketch = Sketch::new(256, 100, quantum_for(limit), 1000);
        let mut taken: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
        let (window, mut now) = (100, 1000);
        for (key, units, pass, raise) in steps {
            now += pass;
            let key = key.wrapping_mul(0x0123_4567_89AB_CDEF);
            sketch.advance(now);
            let log = taken.entry(key).or_default();
            let used = |log: &[(u64, u64)]| -> u64 {
                log.iter().filter(|(at, _)| at + window > now).map(|(_, units)| units).sum()
            };
            let truth = used(log);
            prop_assert!(sketch.estimate(key) >= truth);
            if raise {
                sketch.raise(key, truth);
                prop_assert!(sketch.estimate(key) >= truth);
            } else {
                sketch.add(key, units);
                log.push((now, units));
                prop_assert!(sketch.estimate(key) >= used(log));
            }
        }
    }
}

proptest! {
    // Another memory limit or number of shards changes the size of sketches.
    #[test]
    fn a_sketch_of_another_size_never_undercounts(
        taken in prop::collection::vec((any::<u64>(), 1u64..50), 1..200),
        bytes in (64usize..2000, 64usize..2000),
        quanta in (1u64..9, 1u64..9),
    ) {
        let (mut from, mut to) = (Sketch::new(bytes.0, 60, quanta.0, 1000), Sketch::new(bytes.1, 60, quanta.1, 1000));
        for (key, units) in &taken {
            from.add(*key, *units);
        }
        to.absorb(&from);
        for (key, _) in &taken {
            prop_assert!(to.estimate(*key) >= from.estimate(*key));
        }
    }
}

#[test]
fn a_saturated_count_denies() {
    let mut sketch = Sketch::new(256, 60, 1, 0);
    sketch.add(7, u64::MAX);
    assert_eq!(sketch.estimate(7), u64::MAX);
}
