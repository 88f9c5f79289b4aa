//! Which limit a descriptor meets, and who shares its count.

use std::time::Duration;

use slidegate_server::domain::{Code, Descriptor, Override};
use slidegate_server::spec::{DescriptorSpec, Unit};

use super::setup::*;

#[test]
fn key_without_a_value_counts_each_value_separately() {
    let house = TestEngine::new(vec![minute("user", 2)]);
    assert_eq!(house.passes(&[("user", "alice")]), 2);
    assert_eq!(house.passes(&[("user", "bob")]), 2);
    assert_eq!(house.passes(&[("user", "")]), 2);
    assert_eq!(house.one(&[("other", "alice")]).limit, None);
}

#[test]
fn exact_comes_before_wildcards_in_file_order_and_these_before_the_key() {
    let house = TestEngine::new(vec![
        minute("path", 1),
        minute("path=/a*", 2),
        minute("path=/ab*", 3),
        minute("path=/abc", 4),
    ]);
    for (value, limit) in [("/abc", 4), ("/abd", 2), ("/a", 2), ("/b", 1)] {
        let status = house.one(&[("path", value)]);
        assert_eq!(status.limit.unwrap().requests, limit, "{value}");
    }
}

#[test]
fn stars_stand_anywhere_and_each_value_has_its_own_count() {
    let house = TestEngine::new(vec![minute("path=/v*/user/*/x", 1), minute("path=*.png", 2)]);
    assert_eq!(house.passes(&[("path", "/v1/user/7/x")]), 1);
    assert_eq!(house.passes(&[("path", "/v2/user/7/x")]), 1);
    assert_eq!(house.passes(&[("path", "/img/a.png")]), 2);
    assert_eq!(house.one(&[("path", "/v1/user/7/y")]).limit, None);
}

#[test]
fn what_was_chosen_is_not_given_up_for_a_sibling() {
    // The exact child has no such level below; the wildcard and the bare key have.
    let house = TestEngine::new(vec![
        above("tier=gold", vec![minute("user", 1)]),
        above("tier=g*", vec![minute("path", 2)]),
        above("tier", vec![minute("path", 3)]),
    ]);
    assert_eq!(house.one(&[("tier", "gold"), ("path", "/")]).limit, None);
    let silver = house.one(&[("tier", "silver"), ("path", "/")]);
    assert_eq!(silver.limit.unwrap().requests, 3);
    assert_eq!(house.one(&[("tier", "green"), ("path", "/")]).limit.unwrap().requests, 2);
    assert_eq!(house.one(&[("tier", "green"), ("user", "x")]).limit, None);
}

#[test]
fn a_limit_applies_at_its_own_depth_only() {
    let house = TestEngine::new(vec![with(minute("tier=gold", 1), |tier| {
        tier.descriptors = vec![minute("user", 2)];
    })]);
    assert_eq!(house.one(&[("tier", "gold")]).limit.unwrap().requests, 1);
    assert_eq!(house.one(&[("tier", "gold"), ("user", "a")]).limit.unwrap().requests, 2);
    assert_eq!(house.one(&[("tier", "gold"), ("user", "a"), ("path", "/")]).limit, None);
    assert_eq!(house.one(&[]).limit, None);
    // The shallower count is not touched by the deeper one.
    assert_eq!(house.passes(&[("tier", "gold")]), 0);
    assert_eq!(house.passes(&[("tier", "gold"), ("user", "a")]), 1);
}

#[test]
fn a_descriptor_without_a_limit_is_known_and_not_limited() {
    let house = TestEngine::new(vec![minute("user", 1), key("user=root")]);
    assert_eq!(house.passes(&[("user", "root")]), 100);
    let status = house.one(&[("user", "root")]);
    assert_eq!((status.limit, status.remaining, status.until), (None, 0, None));
    assert_eq!(house.passes(&[("user", "alice")]), 1);
}

#[test]
fn unlimited_is_allowed_and_reports_no_limit() {
    let house = TestEngine::new(vec![with(key("internal"), |spec| spec.limit = Some(unlimited()))]);
    let status = house.one(&[("internal", "x")]);
    assert_eq!(status.code, Code::Ok);
    assert_eq!((status.limit, status.remaining, status.until), (None, u32::MAX, None));
}

#[test]
fn zero_requests_deny_everything() {
    let house = TestEngine::new(vec![minute("banned", 0), minute("user", 5)]);
    let status = house.one(&[("banned", "x")]);
    assert_eq!((status.code, status.remaining), (Code::OverLimit, 0));
    assert_eq!(status.limit.unwrap().requests, 0);
    assert_eq!(status.until, Some(60 * SECOND));
    // And nothing else is charged for what it denies.
    let both = house.ask(vec![descriptor(&[("user", "a")]), descriptor(&[("banned", "x")])]);
    assert_eq!(codes(&both), [Code::Ok, Code::OverLimit]);
    assert_eq!(house.one(&[("user", "a")]).remaining, 4);
    assert_eq!(house.counted("shop.banned"), [2, 2, 0, 0, 0]);
}

#[test]
fn keys_and_values_match_as_in_the_reference_but_are_counted_separately() {
    // There `a` with `b_c` and `a_b` with `c` are one; here they meet one limit with two counts.
    let house = TestEngine::new(vec![minute("a=b_c", 1)]);
    assert_eq!(house.passes(&[("a", "b_c")]), 1);
    assert_eq!(house.passes(&[("a_b", "c")]), 1);
}

#[test]
fn a_shared_threshold_is_one_count_for_all_that_match() {
    let shared = |spec: &mut DescriptorSpec| spec.share_threshold = true;
    let house = TestEngine::new(vec![
        with(minute("files=a/*", 3), shared),
        with(above("dir=d*", vec![minute("user", 2)]), shared),
    ]);
    assert_eq!(house.one(&[("files", "a/1")]).remaining, 2);
    assert_eq!(house.one(&[("files", "a/2")]).remaining, 1);
    assert_eq!(house.one(&[("files", "a/")]).remaining, 0);
    assert_eq!(house.one(&[("files", "a/3")]).code, Code::OverLimit);
    // A value that equals the pattern has no separate count.
    assert_eq!(house.one(&[("files", "a/*")]).code, Code::OverLimit);
    // The pattern may be a level above the limit; the values below are still counted separately.
    assert_eq!(house.one(&[("dir", "d1"), ("user", "x")]).remaining, 1);
    assert_eq!(house.one(&[("dir", "d2"), ("user", "x")]).remaining, 0);
    assert_eq!(house.one(&[("dir", "d2"), ("user", "y")]).remaining, 1);
}

#[test]
fn every_unit_has_its_window_and_its_own_count() {
    for unit in Unit::ALL {
        let house = TestEngine::new(vec![limited("user", 1, unit)]);
        assert_eq!(house.one(&[("user", "a")]).limit.unwrap().unit, unit);
        let denied = house.one(&[("user", "a")]);
        assert_eq!((denied.code, denied.until), (Code::OverLimit, Some(unit.window())));
        house.clock.advance(unit.window().checked_sub(Duration::from_millis(1)).unwrap());
        assert_eq!(house.one(&[("user", "a")]).code, Code::OverLimit, "{unit:?}");
        house.clock.advance(Duration::from_millis(1));
        assert_eq!(house.one(&[("user", "a")]).code, Code::Ok, "{unit:?}");
    }
}

#[test]
fn a_limit_that_comes_with_the_request_beats_the_configured_one() {
    let house = TestEngine::new(vec![with(minute("user", 1), |spec| spec.shadow_mode = true)]);
    let brought = |value: &'static str, requests, unit| Descriptor {
        limit: Some(Override { requests, unit }),
        ..descriptor(&[("user", value)])
    };
    let ask = |requests, unit| house.ask(vec![brought("a", requests, unit)]);
    // Neither shadow nor the configured number apply.
    let first = ask(3, Unit::Minute);
    let limit = first.statuses[0].limit.clone().unwrap();
    assert_eq!((limit.requests, limit.unit, limit.name), (3, Unit::Minute, None));
    assert_eq!(remaining(&first), [2]);
    // The count does not depend on the number.
    assert_eq!(remaining(&ask(10, Unit::Minute)), [8]);
    assert_eq!(ask(2, Unit::Minute).overall, Code::OverLimit);
    // Another unit is another count, and a week is understood.
    assert_eq!(remaining(&ask(2, Unit::Week)), [1]);
    assert_eq!(ask(0, Unit::Week).overall, Code::OverLimit);
    // The configured limit of the same unit has the same count.
    assert_eq!(house.one(&[("user", "a")]).remaining, 0);
    assert_eq!(house.counted("shop.user")[4], 1, "that was over the limit, in shadow");
    // It needs no descriptor that matches.
    let unknown = Descriptor {
        limit: Some(Override { requests: 1, unit: Unit::Hour }),
        ..descriptor(&[("not", "known"), ("this", "")])
    };
    assert_eq!(house.ask(vec![unknown.clone()]).overall, Code::Ok);
    assert_eq!(house.ask(vec![unknown]).overall, Code::OverLimit);
    assert_eq!(house.counted("shop.not_known.this")[..2], [2, 1]);
}
