//! Trees that are refused, and trees that take the place of others.

use slidegate_server::domain::{Code, Descriptor, LimitRequest, Override};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::spec::{DescriptorSpec, Spec, Unit};

use super::setup::*;

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    for (descriptors, part) in [
        (vec![key("")], "empty key"),
        (vec![minute("a=b", 1), minute("a=b", 2)], "duplicate descriptor shop.a_b"),
        // One name for two pairs, as in the reference service.
        (vec![minute("a=b_c", 1), minute("a_b=c", 2)], "duplicate descriptor shop.a_b_c"),
        (vec![above("x", vec![key("a"), key("a")])], "duplicate descriptor shop.x.a"),
        (vec![with(minute("a=b", 1), |spec| spec.share_threshold = true)], "`share_threshold`"),
        (vec![named("a", 1, "one", &["one"])], "its own name"),
        (vec![named("a", 1, "one", &[""])], "an empty name"),
        (vec![key(&format!("a={}", "x".repeat(16_385)))], "16385 bytes is too long"),
        (
            vec![with(minute("a", 1), |spec| spec.metadata = Some(7.into()))],
            "metadata must be a map, but is 7",
        ),
        (vec![nested(129)], "more than 128 levels"),
    ] {
        let message = refused(descriptors);
        assert!(message.contains(part), "{message}");
    }
    Engine::new(&spec(vec![nested(128)]), &mut NoRestore).unwrap();
}

fn nested(levels: usize) -> DescriptorSpec {
    let below = if levels == 1 { Vec::new() } else { vec![nested(levels - 1)] };
    above("level", below)
}

#[test]
fn two_domains_of_one_name_are_refused() {
    let mut twice = spec(vec![minute("a", 1)]);
    twice.domains.push(twice.domains[0].clone());
    let error = Engine::new(&twice, &mut NoRestore).unwrap_err().to_string();
    assert!(error.contains("duplicate domain \"shop\""), "{error}");
}

#[test]
fn a_store_that_is_not_configured_is_refused() {
    let mut spec = spec(vec![minute("a", 1)]);
    spec.domains[0].store = "elsewhere".to_owned();
    let error = Engine::new(&spec, &mut NoRestore).unwrap_err().to_string();
    assert!(error.contains("elsewhere"), "{error}");
}

#[test]
fn a_new_tree_keeps_the_counts_of_limits_that_stay() {
    let house = TestEngine::new(vec![minute("user", 3), minute("gone", 1)]);
    assert_eq!(house.one(&[("user", "a")]).remaining, 2);
    assert_eq!(house.one(&[("gone", "")]).remaining, 0);
    // A higher limit, with a name and among others; then one that is lower than the usage.
    house.engine.swap(&spec(vec![key("new"), named("user", 10, "users", &[])])).unwrap();
    assert_eq!(house.one(&[("user", "a")]).remaining, 8);
    assert_eq!(house.one(&[("gone", "")]).limit, None);
    house.engine.swap(&spec(vec![minute("user", 1)])).unwrap();
    assert_eq!(house.one(&[("user", "a")]).code, Code::OverLimit);
    // Statistics go on, too.
    assert_eq!(house.counted("shop.user")[..2], [3, 1]);
    assert_eq!(house.counted("shop.gone")[0], 1);
    // A bad one changes nothing.
    house.engine.swap(&spec(vec![key("")])).unwrap_err();
    assert_eq!(house.one(&[("user", "a")]).code, Code::OverLimit);
    // Another unit is another window: it starts from zero.
    house.engine.swap(&spec(vec![limited("user", 1, Unit::Hour)])).unwrap();
    assert_eq!(house.one(&[("user", "a")]).code, Code::Ok);
    house.engine.swap(&Spec::default()).unwrap();
    assert_eq!(house.one(&[("user", "a")]).limit, None);
}

#[test]
fn questions_beyond_a_bound_are_errors_that_name_it() {
    let house = TestEngine::new(vec![minute("user", 1)]);
    for (domain, descriptors, part) in [
        ("", vec![descriptor(&[])], "rate limit domain must not be empty"),
        (DOMAIN, vec![], "rate limit descriptor list must not be empty"),
        (DOMAIN, vec![descriptor(&[]); 65], "65 descriptors are too many: use 64"),
    ] {
        let request = LimitRequest { domain, descriptors, hits_addend: 1 };
        let error = house.try_ask(&request).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(house.engine.plan().domains().statistics().service_error.get(), 3);
    let few =
        TestEngine::new(vec![minute("user", 1)]).options(|options| options.descriptors_max = 2);
    let ask = |descriptors| {
        few.try_ask(&LimitRequest { domain: DOMAIN, descriptors, hits_addend: 1 })
            .map_err(|error| error.to_string())
    };
    let error = ask(vec![descriptor(&[]); 3]).unwrap_err();
    assert!(error.contains("3 descriptors are too many: use 2"), "{error}");
}

// An error would lift the limit: Envoy by default allows a request whose check fails.
#[test]
fn long_texts_and_many_entries_are_decided_and_never_errors() {
    let house = TestEngine::new(vec![minute("user", 2)]).options(|options| options.key_max = 16);
    let (long, other) = ("x".repeat(100_000), "x".repeat(99_999) + "y");
    assert_eq!(house.passes(&[("user", &long)]), 2);
    assert_eq!(house.passes(&[("user", &other)]), 2, "each long value has its own count");
    assert_eq!(house.passes(&[(&long, &long)]), 100, "matches nothing");
    assert_eq!(house.passes(&vec![("user", "a"); 1000]), 100, "matches nothing");
    let request =
        LimitRequest { domain: &long, descriptors: vec![descriptor(&[])], hits_addend: 1 };
    assert_eq!(house.try_ask(&request).unwrap().overall, Code::Ok);
    // A limit in the request applies to any descriptor.
    let limit = Some(Override { requests: 1, unit: Unit::Minute });
    let own = || Descriptor { limit, ..descriptor(&[("user", &long), (&long, &other)]) };
    assert_eq!(house.ask(vec![own()]).overall, Code::Ok);
    assert_eq!(house.ask(vec![own()]).overall, Code::OverLimit);
}

#[test]
fn a_domain_that_was_removed_continues_if_it_returns_within_its_longest_window() {
    let limits = || vec![minute("user", 2), limited("team", 1, Unit::Day)];
    let house = TestEngine::new(limits());
    assert_eq!(house.passes(&[("user", "a")]), 2);
    assert_eq!(house.passes(&[("team", "x")]), 1);
    house.engine.swap(&Spec::default()).unwrap();
    house.clock.advance(59 * SECOND);
    house.engine.drop_expired();
    house.engine.swap(&spec(limits())).unwrap();
    assert_eq!(house.passes(&[("user", "a")]), 0);
    house.engine.swap(&Spec::default()).unwrap();
    house.clock.advance(3600 * SECOND);
    house.engine.drop_expired();
    house.engine.swap(&spec(limits())).unwrap();
    assert_eq!(house.passes(&[("user", "a")]), 2);
    assert_eq!(house.passes(&[("team", "x")]), 0);
    // A descriptor that is gone for a while, too.
    house.engine.swap(&spec(vec![minute("user", 2)])).unwrap();
    house.engine.swap(&spec(limits())).unwrap();
    assert_eq!(house.passes(&[("team", "x")]), 0);
}
