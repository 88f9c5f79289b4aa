//! Parts of a response besides the codes: header fields, metadata, metric names, the whole tree.

use serde_json::{Value, json};
use slidegate_server::domain::{Code, Descriptor, LimitRequest, Override, dump};
use slidegate_server::spec::{DescriptorSpec, Unit};

use super::setup::*;

#[test]
fn an_unknown_domain_passes_and_is_counted() {
    let house = TestEngine::new(vec![minute("user", 1)]);
    let descriptors = vec![descriptor(&[("user", "a")]); 2];
    let request = LimitRequest { domain: "unknown", descriptors, hits_addend: 0 };
    let response = house.try_ask(&request).unwrap();
    assert_eq!((response.overall, response.statuses.len()), (Code::Ok, 2));
    assert!(response.statuses.iter().all(|status| status.limit.is_none()));
    assert_eq!(house.engine.plan().domains().statistics().domain_not_found.get(), 1);
    // A limit in the request needs a configured domain.
    let brought = Descriptor {
        limit: Some(Override { requests: 0, unit: Unit::Day }),
        ..descriptor(&[("user", "a")])
    };
    let request = LimitRequest { domain: "unknown", descriptors: vec![brought], hits_addend: 0 };
    assert_eq!(house.try_ask(&request).unwrap().overall, Code::Ok);
}

#[test]
fn statuses_come_in_the_order_of_the_request() {
    let house = TestEngine::new(vec![minute("a", 1), minute("b", 2), minute("c", 3)]);
    let ask = |names: [&'static str; 3]| {
        let response = house.ask(names.map(|name| descriptor(&[(name, "")])).to_vec());
        response.statuses.iter().map(|status| status.limit.clone().unwrap().requests).collect()
    };
    let (first, second): (Vec<u32>, Vec<u32>) = (ask(["c", "a", "b"]), ask(["b", "c", "a"]));
    assert_eq!((first, second), (vec![3, 1, 2], vec![2, 3, 1]));
}

fn fields(house: &TestEngine, descriptors: Vec<Descriptor<'_>>) -> Vec<(String, String)> {
    house.ask(descriptors).headers
}

#[test]
fn fields_are_of_the_nearest_limit_or_of_the_last_that_is_over() {
    let house = TestEngine::new(vec![
        minute("wide", 100),
        minute("near", 3),
        limited("over", 0, Unit::Hour),
        limited("last", 0, Unit::Day),
    ])
    .options(|options| options.envoy.response_headers = true);
    let named = |limit: &str, remaining: &str, reset: &str| {
        [("RateLimit-Limit", limit), ("RateLimit-Remaining", remaining), ("RateLimit-Reset", reset)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    };
    let one = |key| descriptor(&[(key, "")]);
    assert_eq!(fields(&house, vec![one("wide"), one("near")]), named("3", "2", "60"));
    house.clock.advance(std::time::Duration::from_millis(10_500));
    // Rounded up.
    assert_eq!(fields(&house, vec![one("near"), one("wide")]), named("3", "1", "50"));
    let over = vec![one("over"), one("near"), one("last"), one("wide")];
    assert_eq!(fields(&house, over), named("0", "0", "86400"));
    assert_eq!(fields(&house, vec![one("unknown")]), []);
    let without = TestEngine::new(vec![minute("near", 3)]);
    assert_eq!(fields(&without, vec![one("near")]), []);
}

#[test]
fn metadata_of_what_passed_is_merged_the_first_wins() {
    let holding = |text: &str, requests, metadata: Value| {
        with(minute(text, requests), |spec| spec.metadata = Some(metadata))
    };
    let house = TestEngine::new(vec![
        holding("a", 9, json!({"plan": {"name": "a", "only_a": 1}, "list": [1]})),
        holding("b", 9, json!({"plan": {"name": "b", "only_b": true}, "list": [2]})),
        holding("closed", 0, json!({"never": "sent"})),
    ])
    .options(|options| options.envoy.dynamic_metadata = true);
    let brought = Descriptor {
        limit: Some(Override { requests: 5, unit: Unit::Hour }),
        hits_addend: Some(2),
        ..descriptor(&[("x", "y"), ("z", "")])
    };
    let descriptors = vec![
        descriptor(&[("a", "1")]),
        descriptor(&[("b", "")]),
        descriptor(&[("closed", "")]),
        brought,
    ];
    let request = LimitRequest { domain: DOMAIN, descriptors, hits_addend: 3 };
    let metadata = Value::from(house.try_ask(&request).unwrap().metadata.unwrap());
    assert_eq!(
        metadata,
        json!({
            "domain": "shop",
            "descriptors": [
                {"entries": ["a=1"]},
                {"entries": ["b="]},
                {"entries": ["closed="]},
                {"entries": ["x=y", "z="], "limit": "requests_per_unit:5 unit:HOUR", "hitsAddend": 2},
            ],
            "hitsAddend": 3,
            "metadata": {"plan": {"name": "a", "only_a": 1, "only_b": true}, "list": [1]},
        })
    );
    assert_eq!(TestEngine::new(vec![]).ask(vec![descriptor(&[])]).metadata, None);
}

#[test]
fn near_the_limit_begins_at_four_fifths() {
    let house = TestEngine::new(vec![minute("user", 10)]);
    let ask = |units| house.ask(vec![hits(&[("user", "a")], units)]).overall;
    assert_eq!((ask(7), house.counted("shop.user")), (Code::Ok, [7, 0, 0, 7, 0]));
    assert_eq!((ask(2), house.counted("shop.user")), (Code::Ok, [9, 0, 1, 9, 0]));
    assert_eq!((ask(3), house.counted("shop.user")), (Code::OverLimit, [12, 2, 2, 9, 0]));
    assert_eq!((ask(1), house.counted("shop.user")), (Code::Ok, [13, 2, 3, 10, 0]));
    assert_eq!((ask(5), house.counted("shop.user")), (Code::OverLimit, [18, 7, 3, 10, 0]));
    let half = TestEngine::new(vec![minute("user", 10)])
        .options(|options| options.envoy.near_limit_thousandths = 500);
    assert_eq!(half.ask(vec![hits(&[("user", "a")], 7)]).overall, Code::Ok);
    assert_eq!(half.counted("shop.user")[2], 2);
}

#[test]
fn series_are_named_as_configured_unless_values_are_asked_for() {
    let set = |spec, set: fn(&mut DescriptorSpec)| with(spec, set);
    let by_value = |spec: &mut DescriptorSpec| spec.value_to_metric = true;
    let detailed = |spec: &mut DescriptorSpec| spec.detailed_metric = true;
    let shared = |spec: &mut DescriptorSpec| spec.share_threshold = true;
    let house = TestEngine::new(vec![
        above("plain", vec![minute("path=/a*", 9), minute("user=x", 9), minute("any", 9)]),
        above("wide", vec![set(minute("user", 9), by_value), set(minute("path=/p*", 9), by_value)]),
        set(above("top", vec![minute("leaf", 9)]), by_value),
        above("detail", vec![set(minute("user", 9), detailed)]),
        set(above("dir=d*", vec![set(minute("user", 9), detailed)]), shared),
        with(minute("file=f*", 9), |spec| {
            (spec.share_threshold, spec.value_to_metric) = (true, true);
        }),
    ]);
    for (entries, name) in [
        ([("plain", "1"), ("path", "/abc")], "shop.plain.path_/a*"),
        ([("plain", "1"), ("user", "x")], "shop.plain.user_x"),
        ([("plain", "1"), ("any", "y")], "shop.plain.any"),
        ([("wide", "1"), ("user", "y")], "shop.wide.user_y"),
        ([("wide", "1"), ("path", "/pq")], "shop.wide.path_/pq"),
        ([("top", "t"), ("leaf", "z")], "shop.top_t.leaf"),
        ([("detail", "d"), ("user", "u")], "shop.detail_d.user_u"),
        ([("detail", ""), ("user", "")], "shop.detail_.user_"),
        ([("dir", "d1"), ("user", "u")], "shop.dir_d*.user_u"),
        ([("dir", "d1"), ("user", "")], "shop.dir_d*.user"),
    ] {
        assert_eq!(house.one(&entries).code, Code::Ok);
        assert_eq!(house.counted(name)[0], 1, "{name}");
    }
    assert_eq!(house.one(&[("file", "f1")]).code, Code::Ok);
    assert_eq!(house.counted("shop.file_f*")[0], 1, "the pattern is what is counted");
}

#[test]
fn values_of_requests_cannot_make_series_without_end() {
    let house = TestEngine::new(vec![with(minute("user", 9), |spec| spec.detailed_metric = true)]);
    for number in 0..1500 {
        house.one(&[("user", &number.to_string())]);
    }
    let series = house.engine.plan().domains().get(DOMAIN).unwrap().statistics().series();
    assert_eq!(series.len(), 1000 + 1 + 1, "made up, configured, other");
    assert_eq!(house.counted("shop.other")[0], 500);
    assert_eq!(house.counted("shop.user")[0], 0);
}

#[test]
fn the_tree_is_shown_as_the_reference_does() {
    let house = TestEngine::new(vec![
        with(minute("user", 5), |spec| spec.shadow_mode = true),
        above(
            "tier",
            vec![with(limited("path=/a", 7, Unit::Second), |spec| spec.quota_mode = true)],
        ),
        with(key("free"), |spec| spec.limit = Some(unlimited())),
    ]);
    assert_eq!(
        dump(house.engine.plan().domains()),
        "shop.user: unit=MINUTE requests_per_unit=5, shadow_mode: true, quota_mode: false\n\
         shop.tier.path_/a: unit=SECOND requests_per_unit=7, shadow_mode: false, quota_mode: true\n\
         shop.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n"
    );
}
