//! Tests of `fingerprint`.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

// A key that loses a byte, or whose bytes meet those of another length, would share a bucket.
#[test]
fn keys_that_differ_a_little_are_apart() {
    let hash = Fingerprint::new(1, 2);
    let mut seen = HashSet::new();
    let mut count = 0;
    for length in 0..=300 {
        let zero = vec![0; length];
        for at in 0..=length {
            for byte in [1, 0x80] {
                let mut key = zero.clone();
                if let Some(place) = key.get_mut(at) {
                    *place = byte;
                } else if byte == 1 {
                    continue;
                }
                seen.insert(hash.of(&key));
                count += 1;
            }
        }
    }
    assert_eq!(seen.len(), count);
}

// Shards are chosen by the lower bits, places by the upper ones: all must be even.
#[test]
fn bits_are_even() {
    let hash = Fingerprint::new(3, 4);
    let mut ones = [0u32; 64];
    for number in 0..20_000u32 {
        let fingerprint = hash.of(format!("user:{number:07}").as_bytes());
        for (bit, ones) in ones.iter_mut().enumerate() {
            *ones += u32::from(fingerprint >> bit & 1 == 1);
        }
    }
    for ones in ones {
        assert!((9_500..10_500).contains(&ones), "{ones} of 20000");
    }
}

proptest! {
    #[test]
    fn secrets_matter(bytes in prop::collection::vec(any::<u8>(), 0..400), a: u64, b: u64) {
        prop_assume!(a != b);
        prop_assert_ne!(Fingerprint::new(a, 5).of(&bytes), Fingerprint::new(b, 5).of(&bytes));
    }
}
