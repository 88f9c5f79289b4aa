//! Tests of `bytes`.

use super::*;
use proptest::prelude::*;

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Value), Just(Kind::Digest), Just(Kind::Address), Just(Kind::Fallback),]
}

fn parts() -> impl Strategy<Value = Vec<(Kind, Vec<u8>)>> {
    // Short parts of few different bytes, so that two lists are often similar.
    let byte = prop_oneof![Just(0u8), Just(b'v'), Just(b'd'), Just(b'{'), Just(b':')];
    let short = prop::collection::vec(byte, 0..6);
    let long = prop::collection::vec(any::<u8>(), 0..257);
    prop::collection::vec((kind(), prop_oneof![4 => short, 1 => long]), 0..5)
}

fn encode(parts: &[(Kind, Vec<u8>)]) -> Vec<u8> {
    let mut key = KeyBytes::new();
    for (kind, part) in parts {
        key.push(*kind, part);
    }
    key.as_slice().to_vec()
}

fn decode(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut parts = Vec::new();
    while let [kind, high, low, rest @ ..] = bytes {
        let (part, rest) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        parts.push((*kind, part.to_vec()));
        bytes = rest;
    }
    parts
}

proptest! {
    // a:b + c must not equal a + b:c, and a value must not equal a digest.
    #[test]
    fn different_parts_make_different_keys(one in parts(), other in parts()) {
        prop_assert_eq!(encode(&one) == encode(&other), one == other);
    }

    #[test]
    fn parts_round_trip(parts in parts()) {
        let expected: Vec<_> =
            parts.iter().map(|(kind, part)| (*kind as u8, part.clone())).collect();
        prop_assert_eq!(decode(&encode(&parts)), expected);
    }
}
