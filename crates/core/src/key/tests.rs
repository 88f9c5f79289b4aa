//! Tests of `key`.

use super::*;
use proptest::prelude::*;

// With one secret for both forms, a client could choose text that collides with a tuple's encoding.
#[test]
fn bytes_and_parts_do_not_collide() {
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
fn secrets_differ_and_are_not_shown() {
    let (one, two) = (Secret::random(), Secret::random());
    assert_ne!("alice".fingerprint(&one), "alice".fingerprint(&two));
    assert_eq!(format!("{one:?}"), "Secret(..)");
}

fn fingerprint<K: Key + ?Sized>(key: &K) -> u64 {
    key.fingerprint(&Secret::new([7; 16]))
}

// Snapshots contain fingerprints, so these must not change.
#[test]
fn fingerprints_are_stable() {
    let address = Ipv4Addr::new(192, 0, 2, 1);
    for (found, expected) in [
        (fingerprint("alice"), GOLDEN[0]),
        (fingerprint(&7_u64), GOLDEN[1]),
        (fingerprint(&IpAddr::from(address)), GOLDEN[2]),
        (fingerprint(&("alice", 7_u32)), GOLDEN[3]),
        (fingerprint(&("a", address, 1_u64, [1_u8, 2])), GOLDEN[4]),
    ] {
        assert_eq!(found, expected, "{found:#x}");
    }
}

// The owner of a text and the width of an unsigned integer do not change the key.
#[test]
fn the_same_value_in_another_type_is_the_same_key() {
    let text = fingerprint("alice");
    assert_eq!(fingerprint(&Arc::<str>::from("alice")), text);
    assert_eq!(fingerprint(&Rc::<str>::from("alice")), text);
    assert_eq!(fingerprint(&Box::<str>::from("alice")), text);
    assert_eq!(fingerprint(&Cow::Borrowed("alice")), text);
    assert_eq!(fingerprint(&String::from("alice")), text);
    assert_eq!(fingerprint(&Arc::<[u8]>::from(*b"alice")), text);
    let number = fingerprint(&7_u64);
    assert_eq!([fingerprint(&7_u8), fingerprint(&7_u16), fingerprint(&7_usize)], [number; 3]);
}

/// Fails if two of these keys, which all differ, have the same fingerprint.
#[track_caller]
fn assert_distinct<K: Key>(keys: impl IntoIterator<Item = K>) {
    let mut seen = std::collections::HashSet::new();
    let is_new: Vec<bool> = keys.into_iter().map(|key| seen.insert(fingerprint(&key))).collect();
    assert!(is_new.len() > 1 && is_new.iter().all(|is_new| *is_new), "{is_new:?}");
}

#[test]
fn different_keys_of_one_type_differ() {
    assert_distinct(i8::MIN..=i8::MAX);
    assert_distinct([i64::MIN, -1, 0, 1, i64::MAX]);
    assert_distinct([isize::MIN, -1, 0, 1, isize::MAX]);
    assert_distinct([0, 1, 1 << 63, 1 << 64, (1 << 64) + 1, u128::MAX]);
    assert_distinct([i128::MIN, -1, 0, 1, i128::MAX]);
    assert_distinct([false, true]);
    assert_distinct(['a', 'b', '\u{1F600}']);
    assert_distinct([None, Some(""), Some("a")]);
    assert_distinct([None, Some(None), Some(Some(0_u64)), Some(Some(1))]);
    assert_distinct([(None, Some(1_u8)), (Some(1), None), (None, None), (Some(1), Some(1))]);
    let v4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80);
    let v6 = |port, flow, scope| SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, flow, scope);
    assert_distinct([
        SocketAddr::V4(v4),
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 81)),
        SocketAddr::V6(v6(80, 0, 0)),
        SocketAddr::V6(v6(81, 0, 0)),
        SocketAddr::V6(v6(80, 1, 0)),
        SocketAddr::V6(v6(80, 0, 1)),
    ]);
    assert_distinct([(1, 1, 1, 1, 1, 1, 1, 1_u8), (1, 1, 1, 1, 1, 1, 1, 2)]);
}

#[cfg(feature = "uuid")]
#[test]
fn a_uuid_equals_its_bytes() {
    let bytes = *b"0123456789abcdef";
    assert_eq!(fingerprint(&uuid::Uuid::from_bytes(bytes)), fingerprint(&bytes));
}

const GOLDEN: [u64; 5] = [
    0x346f_fa9f_7ed0_d587,
    0xc43c_f8bd_d877_e23f,
    0x1d94_bd61_afe8_3b0b,
    0x6b79_7689_14cb_2a60,
    0x0cfb_c7f1_2e83_d8d3,
];

proptest! {
    // a:b + c must differ from a + b:c.
    #[test]
    fn different_tuples_differ(a: String, b: String, c: String, d: String) {
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
