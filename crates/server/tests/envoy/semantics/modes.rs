//! Replacing, shadow, quota: limits that do not simply deny.

use slidegate_server::domain::Code;

use super::setup::*;

#[test]
fn a_limit_replaces_others_for_this_request() {
    let house = TestEngine::new(vec![
        named("user", 1, "base", &[]),
        named("tier=gold", 100, "gold", &["base"]),
        with(key("vip"), |spec| {
            spec.limit = Some(slidegate_server::spec::LimitSpec {
                replaces: vec!["base".to_owned(), "gold".to_owned()],
                ..unlimited()
            });
        }),
    ]);
    let user = descriptor(&[("user", "a")]);
    let gold = descriptor(&[("tier", "gold")]);
    let response = house.ask(vec![user.clone(), gold.clone()]);
    assert_eq!(codes(&response), [Code::Ok, Code::Ok]);
    assert_eq!(response.statuses[0].limit, None, "as if it had no limit");
    let name = response.statuses[1].limit.clone().unwrap().name;
    assert_eq!(name.as_deref(), Some("gold"));
    // It was not charged either.
    assert_eq!(house.passes(&[("user", "a")]), 1);
    assert_eq!(house.ask(vec![user.clone(), gold.clone()]).overall, Code::Ok);
    // The order does not matter, and what is unlimited can replace as well.
    let vip = descriptor(&[("vip", "")]);
    let response = house.ask(vec![vip, gold, user]);
    assert_eq!(response.overall, Code::Ok);
    assert_eq!(remaining(&response), [u32::MAX, 0, 0]);
    assert!(response.statuses.iter().all(|status| status.limit.is_none()));
}

#[test]
fn shadow_mode_counts_and_lets_pass() {
    let house = TestEngine::new(vec![
        with(minute("user", 2), |spec| spec.shadow_mode = true),
        with(minute("closed", 0), |spec| spec.shadow_mode = true),
        minute("address", 1),
    ]);
    assert_eq!(house.one(&[("user", "a")]).remaining, 1);
    assert_eq!(house.one(&[("user", "a")]).remaining, 0);
    let shadow = house.one(&[("user", "a")]);
    assert_eq!((shadow.code, shadow.remaining), (Code::Ok, 0));
    assert!(shadow.limit.is_some());
    assert_eq!(house.counted("shop.user"), [3, 1, 1, 2, 1]);
    assert_eq!(house.one(&[("closed", "")]).code, Code::Ok);
    assert_eq!(house.counted("shop.closed"), [1, 1, 0, 0, 1]);
    // It does not stand in the way of others, and is not charged for what they deny.
    let both = || house.ask(vec![descriptor(&[("user", "b")]), descriptor(&[("address", "x")])]);
    assert_eq!((both().overall, both().overall), (Code::Ok, Code::OverLimit));
    assert_eq!(house.one(&[("user", "b")]).remaining, 0);
}

#[test]
fn global_shadow_mode_changes_the_overall_code_only() {
    let house = TestEngine::new(vec![minute("user", 1)])
        .options(|options| options.envoy.shadow_mode = true);
    let ask = || house.ask(vec![descriptor(&[("user", "a")])]);
    assert_eq!(ask().overall, Code::Ok);
    let over = ask();
    assert_eq!((over.overall, codes(&over)), (Code::Ok, vec![Code::OverLimit]));
    assert_eq!(house.engine.plan().domains().statistics().global_shadow_mode.get(), 1);
    assert_eq!(house.counted("shop.user")[4], 0, "that is of the limit's own shadow");
}

fn quota(text: &str, requests: u32) -> slidegate_server::spec::DescriptorSpec {
    with(minute(text, requests), |spec| spec.quota_mode = true)
}

#[test]
fn quotas_deny_only_together() {
    let house = TestEngine::new(vec![quota("small", 1), quota("large", 3)]);
    let ask = || house.ask(vec![descriptor(&[("small", "")]), descriptor(&[("large", "")])]);
    let expected = [
        ([Code::Ok, Code::Ok], Code::Ok),
        ([Code::OverLimit, Code::Ok], Code::Ok),
        ([Code::OverLimit, Code::Ok], Code::Ok),
        ([Code::OverLimit, Code::OverLimit], Code::OverLimit),
    ];
    for (statuses, overall) in expected {
        let response = ask();
        assert_eq!((codes(&response), response.overall), (statuses.to_vec(), overall));
    }
    assert_eq!(house.one(&[("small", "")]).code, Code::OverLimit, "one alone is all of them");
}

#[test]
fn ordinary_limits_deny_alone_next_to_quotas() {
    let house = TestEngine::new(vec![quota("quota", 10), minute("user", 1)]);
    let ask = || house.ask(vec![descriptor(&[("quota", "")]), descriptor(&[("user", "")])]);
    assert_eq!(remaining(&ask()), [9, 0]);
    let denied = ask();
    assert_eq!(
        (denied.overall, codes(&denied)),
        (Code::OverLimit, vec![Code::Ok, Code::OverLimit])
    );
    // And the quota was not charged for it.
    assert_eq!(remaining(&denied), [9, 0]);
}

#[test]
fn a_used_up_quota_charges_no_ordinary_limit() {
    let house = TestEngine::new(vec![quota("quota", 1), minute("user", 10)]);
    let ask = || house.ask(vec![descriptor(&[("quota", "")]), descriptor(&[("user", "")])]);
    assert_eq!(remaining(&ask()), [0, 9]);
    for _ in 0..5 {
        let denied = ask();
        assert_eq!(denied.overall, Code::OverLimit);
        assert_eq!(codes(&denied), [Code::OverLimit, Code::Ok]);
        assert_eq!(remaining(&denied), [0, 9], "what was taken is given back");
    }
}

#[test]
fn global_quota_mode_makes_all_of_them_quotas_those_without_a_limit_too() {
    let house = TestEngine::new(vec![
        minute("a", 1),
        minute("b", 2),
        with(key("free"), |spec| spec.limit = Some(unlimited())),
    ])
    .options(|options| options.envoy.quota_mode = true);
    let (a, b) = (|| descriptor(&[("a", "")]), || descriptor(&[("b", "")]));
    assert_eq!(house.ask(vec![a(), b()]).overall, Code::Ok);
    let one_over = house.ask(vec![a(), b()]);
    assert_eq!((one_over.overall, codes(&one_over)), (Code::Ok, vec![Code::OverLimit, Code::Ok]));
    assert_eq!(house.ask(vec![a(), b()]).overall, Code::OverLimit);
    // Unknown to the tree: passes, and counts among the quotas.
    assert_eq!(house.ask(vec![a(), descriptor(&[("unknown", "")])]).overall, Code::Ok);
    // Without a bound: passes, and does not.
    assert_eq!(house.ask(vec![a(), descriptor(&[("free", "")])]).overall, Code::OverLimit);
}

#[test]
fn a_quota_in_shadow_always_passes() {
    let house = TestEngine::new(vec![
        with(quota("shadow", 1), |spec| spec.shadow_mode = true),
        quota("quota", 1),
    ]);
    let ask = || house.ask(vec![descriptor(&[("shadow", "")]), descriptor(&[("quota", "")])]);
    assert_eq!(ask().overall, Code::Ok);
    let over = ask();
    assert_eq!((over.overall, codes(&over)), (Code::Ok, vec![Code::Ok, Code::OverLimit]));
}
