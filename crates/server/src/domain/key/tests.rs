//! Tests of `key`.

use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab_:{}\\x00]{0,4}", ".{0,80}"]
}

fn path() -> impl Strategy<Value = (String, Vec<(String, String)>)> {
    (text(), prop::collection::vec((text(), text()), 0..4))
}

fn encode((domain, entries): &(String, Vec<(String, String)>), text_max: usize) -> KeyBytes {
    let entries: Vec<_> = entries.iter().map(|(key, value)| Entry { key, value }).collect();
    KeyBytes::of(domain, &entries, text_max)
}

fn decode(mut bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let [high, low, rest @ ..] = bytes {
        let (text, rest) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        texts.push(String::from_utf8(text.to_vec()).unwrap());
        bytes = rest;
    }
    texts
}

proptest! {
    // The reference service joins parts with `_`: there, key `a` value `b_c` equals key `a_b` value
    // `c`.
    #[test]
    fn different_paths_are_different_keys(one in path(), other in path(), text_max in 0_usize..80) {
        prop_assert_eq!(encode(&one, text_max) == encode(&other, text_max), one == other);
    }

    #[test]
    fn parts_round_trip(path in path()) {
        let (domain, entries) = path.clone();
        let mut expected = vec![domain];
        expected.extend(entries.into_iter().flat_map(|(key, value)| [key, value]));
        prop_assert_eq!(decode(encode(&path, usize::MAX).as_slice()), expected);
    }
}

#[test]
fn long_texts_take_the_size_of_a_digest() {
    let long = "x".repeat(70_000);
    for text_max in [16, usize::MAX] {
        let key = encode(&("shop".to_owned(), vec![("user".to_owned(), long.clone())]), text_max);
        assert_eq!(key.as_slice().len(), 2 + 4 + 2 + 4 + 2 + 32);
    }
}
