//! Tests of `key`.

use super::*;
use proptest::prelude::*;

// One secret for both forms would let a client choose text that meets a tuple's encoding.
#[test]
fn one_run_of_bytes_and_parts_do_not_meet() {
    let secret = Secret::new([7; 16]);
    let mut encoded = 1u64.to_le_bytes().to_vec();
    encoded.push(b'a');
    assert_ne!(("a",).0.fingerprint(&secret), ("a", "").fingerprint(&secret));
    assert_ne!(encoded.fingerprint(&secret), KeyedText("a").fingerprint(&secret));
}

struct KeyedText(&'static str);

impl Key for KeyedText {
    fn feed(&self, hasher: &mut KeyHasher) {
        hasher.bytes(self.0.as_bytes());
    }
}

#[test]
fn secrets_of_two_limiters_differ_and_hide() {
    let (one, two) = (Secret::random(), Secret::random());
    assert_ne!("alice".fingerprint(&one), "alice".fingerprint(&two));
    assert_eq!(format!("{one:?}"), "Secret(..)");
}

proptest! {
    // a:b + c must not be a + b:c.
    #[test]
    fn tuples_are_apart(a: String, b: String, c: String, d: String) {
        let secret = Secret::new([1; 16]);
        let same = a == c && b == d;
        prop_assert_eq!((&a, &b).fingerprint(&secret) == (&c, &d).fingerprint(&secret), same);
        let moved = (format!("{a}{b}"), String::new());
        prop_assert_eq!(
            (&a, &b).fingerprint(&secret) == (&moved.0, &moved.1).fingerprint(&secret),
            b.is_empty()
        );
    }
}
