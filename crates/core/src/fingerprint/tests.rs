//! Tests of `fingerprint`.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

// A key that loses a byte, or collides with a key of another length, would share a count.
#[test]
fn similar_keys_have_different_fingerprints() {
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

// The lower bits select shards and the upper ones positions, so all must be unbiased.
#[test]
fn bits_are_unbiased() {
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
    fn different_secrets_give_different_fingerprints(bytes in prop::collection::vec(any::<u8>(), 0..400), a: u64, b: u64) {
        prop_assume!(a != b);
        prop_assert_ne!(Fingerprint::new(a, 5).of(&bytes), Fingerprint::new(b, 5).of(&bytes));
    }
}
