//! Tests of `keys`.

use super::*;

// The reference service has exactly these, anywhere in the tree.
#[test]
fn the_table_has_the_sixteen_keys_and_the_extensions() {
    let mut keys: Vec<&str> =
        [&DOMAIN, &DESCRIPTOR, &RATE_LIMIT].into_iter().flat_map(Section::names).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut expected = [
        "algorithm",
        "descriptors",
        "detailed_metric",
        "domain",
        "failure_mode",
        "key",
        "metadata",
        "name",
        "quota_mode",
        "rate_limit",
        "replaces",
        "requests_per_unit",
        "shadow_mode",
        "share_threshold",
        "store",
        "unit",
        "unlimited",
        "usage",
        "value",
        "value_to_metric",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
}
