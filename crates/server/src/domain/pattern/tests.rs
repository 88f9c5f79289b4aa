//! Tests of `pattern`.

use super::*;

#[test]
fn every_star_matches_any_text() {
    for (pattern, text, expected) in [
        ("key_a*", "key_a", true),
        ("key_a*", "key_abc", true),
        ("key_a*", "key_b", false),
        ("key_*c", "key_abc", true),
        ("key_*c", "key_abcd", false),
        ("key_a*a", "key_a", false),
        ("key_a*a", "key_aa", true),
        ("key_/a/*/b/*/c", "key_/a/1/b/2/c", true),
        ("key_/a/*/b/*/c", "key_/a/1/c", false),
        ("key_/a/*/b/*/c", "key_/a//b//c", true),
        ("key_*ab*ab", "key_ab", false),
        ("key_*ab*ab", "key_abab", true),
        ("key_**", "key_", true),
        ("*", "", true),
        ("key_ä*ö", "key_äüö", true),
        ("a_*", "a_", true),
        ("a_*", "a_b", true),
        ("a_*b", "a_b", true),
        ("a_*b", "a_bc", false),
        ("a_x*y*z", "a_xyz", true),
        ("a_x*y*z", "a_x-y-y-z", true),
        ("a_x*y*z", "a_xz", false),
        ("a_ab*ba", "a_aba", false),
        ("a_*", "b_a", false),
    ] {
        assert_eq!(Pattern::new(pattern).unwrap().matches(text), expected, "{pattern} {text}");
    }
    assert!(Pattern::new("key_a").is_none());
}
