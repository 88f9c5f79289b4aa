//! The file of a sliding window.

use core::time::Duration;

use slidegate::{OnFull, Quota};
use slidegate_server::spec::{KeyPart, MemorySpec, StoreSpec};

use crate::files::{bad, codes, good};

#[test]
fn the_file_of_the_design() {
    let loaded = good("sliding/good.yaml");
    assert_eq!(loaded.warnings, []);
    let memory =
        MemorySpec { limit: 256 << 20, on_full: OnFull::Lru, sweep_every: Duration::from_secs(10) };
    assert_eq!(loaded.spec.stores, [StoreSpec::Memory(memory)]);
    let [policy] = loaded.spec.policies.as_slice() else { panic!("one policy") };
    assert_eq!(policy.name, "default");
    assert_eq!(policy.quotas, [Quota::per_minute(100)]);
    let [rule] = loaded.spec.rules.as_slice() else { panic!("one rule") };
    assert_eq!((&rule.policy, rule.key.as_slice()), (&policy.name, [KeyPart::Address].as_slice()));
}

// There are exactly three warnings, each with its own line.
#[test]
fn its_warnings() {
    let warnings = good("sliding/hurts.yaml").warnings;
    assert_eq!(codes(&warnings), ["sweep-interval", "short-window", "large-log"]);
    let lines: Vec<_> = warnings.iter().map(|it| it.place.as_ref().unwrap().line).collect();
    assert_eq!(lines, [5, 3, 4]);
}

#[test]
fn its_mistakes() {
    let expected = ["unknown-key", "range", "value", "type", "missing-key", "unknown-key"];
    assert_eq!(codes(&bad("sliding/bad.yaml").findings), expected);
}

#[test]
fn bounds_of_the_warnings() {
    use slidegate_server::config::{Request, load};
    let folder = std::env::temp_dir().join(format!("slidegate-sliding-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("file.yaml");
    for (window, requests, cleanup, expected) in [
        (100, 10_000, 1000, vec![]),
        (100, 10_000, 30_000, vec![]),
        (99, 10_000, 1000, vec!["short-window"]),
        (100, 10_001, 1000, vec!["large-log"]),
        (100, 10_000, 30_001, vec!["sweep-interval"]),
        (100, 10_000, 999, vec!["sweep-interval"]),
    ] {
        let text = format!(
            "rate_limiting:\n  sliding_window:\n    window_size_ms: {window}\n    \
             max_requests: {requests}\n    cleanup_interval_ms: {cleanup}\n"
        );
        std::fs::write(&file, text).unwrap();
        let loaded = load(&Request::new([file.clone()])).unwrap();
        assert_eq!(codes(&loaded.warnings), expected);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
