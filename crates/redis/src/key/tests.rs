//! Tests of `key`.

use super::*;
use crate::servers::slot_of;
use proptest::prelude::*;

fn names() -> KeyNames {
    KeyNames::new("sg", Some(b"a secret of enough bytes")).unwrap()
}

fn text(name: Vec<u8>) -> String {
    String::from_utf8(name).unwrap()
}

#[test]
fn names_are_stable() {
    // All processes must agree, also of different versions.
    let names = KeyNames::new("sg", None).unwrap();
    let name = text(names.name("api", b"alice", false));
    assert_eq!(name, "sg:{38ed49}:api;talice");
    assert!(text(names.name("api", &[b'x'; 200], false)).contains(":api;d"));
    assert_eq!(names.policy_of(name.as_bytes()), Some(("api", 1000)));
    let coarse = names.name("api@10000us", b"alice", false);
    assert_eq!(names.policy_of(&coarse), Some(("api", 10_000)));
    let gcra = names.name("api@gcra-100us", b"alice", false);
    assert_eq!(names.policy_of(&gcra), Some(("api", 100)));
    let gcra = names.name("api@gcra", b"alice", false);
    assert_eq!(names.policy_of(&gcra), Some(("api", 1000)));
    assert_eq!(names.policy_of(b"other:{38ed49}:api;talice"), None);
    assert_eq!(names.policy_of(b"sg:{38ed49}:api"), None);
}

#[test]
fn secrets_are_not_shown() {
    let names = names();
    let name = text(names.name("api", b"token-1234", true));
    assert!(!name.contains("token") && name.contains(";s"));
    assert_ne!(name, text(names.name("api", b"token-1235", true)));
    assert!(!format!("{names:?}").contains("enough"));
}

#[test]
fn rejects_invalid_prefixes_and_short_secrets() {
    for prefix in ["", "a{b", "a*", "a;b", &"x".repeat(33)] {
        assert!(KeyNames::new(prefix, None).is_err(), "{prefix}");
    }
    let error = KeyNames::new("sg", Some(b"short")).unwrap_err();
    assert_eq!(error.to_string(), "a key secret of 5 bytes is too short: use at least 16");
}

// Keys of a few slots would burden a few nodes of a cluster.
#[test]
fn keys_spread_over_all_slots() {
    let names = KeyNames::new("sg", None).unwrap();
    let mut counts = vec![0_u32; 16_384];
    for user in 0..16_384 * 20 {
        let name = names.name("api", format!("user:{user}").as_bytes(), false);
        counts[usize::from(slot_of(&name))] += 1;
    }
    // A Poisson distribution with a mean of 20: values outside have a probability below 1e-7 each.
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least >= 2 && *most <= 50, "{least} to {most} keys in a slot");
}

proptest! {
    // Two keys with the same name would be counted together.
    #[test]
    fn different_keys_have_different_names(
        a in ("[a-z:/*]{1,6}", any::<Vec<u8>>(), any::<bool>()),
        b in ("[a-z:/*]{1,6}", any::<Vec<u8>>(), any::<bool>()),
    ) {
        let names = names();
        let name = |key: &(String, Vec<u8>, bool)| names.name(&key.0, &key.1, key.2);
        prop_assert_eq!(a == b, name(&a) == name(&b));
        let named = name(&a);
        prop_assert_eq!(names.policy_of(&named), Some((a.0.as_str(), 1000)));
    }

    // Otherwise a client could put all of its keys on one node.
    #[test]
    fn the_slot_depends_on_the_digest_only(policy in "[a-z]{1,5}", key in "[{}a-z]{0,12}") {
        let names = names();
        let name = names.name(&policy, key.as_bytes(), false);
        let tag = format!("{:0TAG_DIGITS$x}", names.tag(key.as_bytes()));
        prop_assert_eq!(slot_of(&name), slot_of(tag.as_bytes()));
        prop_assert_eq!(name.iter().filter(|byte| b"{}".contains(byte)).count(), 2);
    }

    #[test]
    fn different_parts_join_differently(a: Vec<Vec<u8>>, b: Vec<Vec<u8>>) {
        prop_assert_eq!(a == b, join(&a) == join(&b));
    }
}
