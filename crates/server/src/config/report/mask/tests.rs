//! Tests of `mask`.

use super::*;

#[test]
fn passwords_of_addresses_are_stars() {
    for (text, expected) in [
        ("redis://me:hunter2@host:6379/1", "redis://me:*******@host:6379/1"),
        ("invalid address \"redis://:p@,\"s@host\"", "invalid address \"redis://:*****@host\""),
        ("redis://hunter2@host", "redis://*******@host"),
        ("redis://host:6379", "redis://host:6379"),
        ("mail me@host", "mail me@host"),
    ] {
        assert_eq!(message(text), expected);
    }
    assert_eq!(shown("is `hunter2`", &BTreeSet::from(["hunter2".to_owned()])), "is `*******`");
}
