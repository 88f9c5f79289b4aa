//! The commands that look at configurations: what they write, and how they end.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;
use slidegate::Algorithm;
use slidegate_gate::{Caller, Rollout};
use slidegate_server::cli::config::{
    CheckOptions, Subject, TestOptions, check, explain, schema, test,
};
use slidegate_server::config::{Loaded, Request, load};
use slidegate_server::domain::{Descriptor, Entry, LimitRequest, Options, answer};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::spec::{DescriptorSpec, DomainSpec, LimitSpec, RateSpec, Unit};

use crate::files::{good, path};

const OK: u8 = 0;
const FAILED: u8 = 1;
const CONFIG: u8 = 78;

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap().replace(path("").to_str().unwrap(), "")
}

fn checked(files: &[&str], options: CheckOptions) -> (u8, String) {
    let requests: Vec<Request> = files.iter().map(|file| Request::new([path(file)])).collect();
    let mut out = Vec::new();
    let code = check(&requests, options, &mut out);
    (code, text(out))
}

#[test]
fn check_reports_every_file() {
    let (code, text) =
        checked(&["native/listens.yaml", "sliding/good.yaml"], CheckOptions::default());
    let expected = "native/listens.yaml: good: 0 policies, 0 rules, 0 domains\n\
                    sliding/good.yaml: good: 1 policy, 1 rule, 0 domains\n";
    assert_eq!((code, text.as_str()), (OK, expected));
    let (code, text) =
        checked(&["envoy/empty_key.yaml", "sliding/good.yaml"], CheckOptions::default());
    assert_eq!(code, CONFIG);
    assert!(text.contains("envoy/empty_key.yaml: bad: 1 finding\n"), "{text}");
    assert!(text.ends_with("sliding/good.yaml: good: 1 policy, 1 rule, 0 domains\n"), "{text}");
}

#[test]
fn warnings_may_be_as_bad_as_errors() {
    let deny = CheckOptions { deny_warnings: true, ..CheckOptions::default() };
    assert_eq!(checked(&["sliding/hurts.yaml"], CheckOptions::default()).0, OK);
    let (code, text) = checked(&["sliding/hurts.yaml"], deny);
    assert_eq!(code, CONFIG);
    assert!(text.ends_with("sliding/hurts.yaml: bad: 3 findings\n"), "{text}");
    // A note is not a warning.
    assert_eq!(checked(&["native/daily.yaml"], deny).0, OK);
}

#[test]
fn check_for_programs_is_an_object_a_line() {
    let json = CheckOptions { json: true, ..CheckOptions::default() };
    let (code, text) = checked(&["envoy/misspelled_key.yaml"], json);
    assert_eq!(code, CONFIG);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    let expected = serde_json::json!({
        "severity": "error", "code": "unknown-key",
        "message": "`ratelimit` is not a key of a descriptor",
        "file": "envoy/misspelled_key.yaml", "line": 4, "column": 5, "end_column": 14,
        "did_you_mean": "rate_limit",
        "help": "allowed: key, value, rate_limit, shadow_mode, quota_mode, detailed_metric, \
                 value_to_metric, share_threshold, metadata, descriptors",
    });
    assert_eq!(lines[0], expected);
    assert_eq!((&lines[1]["code"], &lines[1]["good"]), (&"summary".into(), &false.into()));
}

#[test]
fn colors_only_when_asked() {
    let colors = CheckOptions { colors: true, ..CheckOptions::default() };
    assert!(checked(&["envoy/empty_key.yaml"], colors).1.contains("\u{1b}[1;31merror[empty-key]"));
    let without = checked(&["envoy/empty_key.yaml"], CheckOptions::default()).1;
    assert!(!without.contains('\u{1b}'));
}

fn good_file() -> Loaded {
    let mut request = Request::new([path("native/tested.yaml")]);
    request.secrets = false;
    load(&request).unwrap_or_else(|refused| panic!("{refused}"))
}

fn explained(words: &[&str]) -> (u8, String) {
    explained_by(&good_file(), words)
}

fn explained_by(loaded: &Loaded, words: &[&str]) -> (u8, String) {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let subject = Subject::parse(&words).unwrap();
    let mut out = Vec::new();
    let code = explain(loaded, &subject, false, &mut out);
    let mut json = Vec::new();
    assert_eq!(explain(loaded, &subject, true, &mut json), code);
    let object: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(object["matched"], (code == OK));
    (code, text(out))
}

#[test]
fn explain_a_request() {
    let (code, text) = explained(&["post", "/login?next=/", "address=2001:db8:1:2::3"]);
    let expected = "\
POST /login from 2001:db8:1:2::3
- rule login applies: method POST is POST, path /login is /login
    key: address=2001:db8:1:2::/64
    units: 1
    policy: login: 5 in any 1m
    how: log, in memory, enforced
- rule api does not apply: path /login is not /api/*
- rule closed does not apply: path /login is not /closed
";
    assert_eq!((code, text.as_str()), (OK, expected));
    let (code, text) = explained(&["GET", "/api/x", "X-Api-Key: secret", "x-plan:gold"]);
    assert_eq!(code, OK);
    assert!(text.contains("    key: (secret)\n"), "{text}");
    assert!(text.contains("    policy: api, tier gold: 20 in any 1m\n"), "{text}");
    assert!(!text.contains("x-api-key=secret"), "{text}");
    let (code, text) = explained(&["GET", "/closed"]);
    assert_eq!(code, OK);
    assert!(
        text.contains("- rule closed denies: the request has no header x-internal-id"),
        "{text}"
    );
    let mut shadow = good_file();
    shadow.spec.policies.iter_mut().for_each(|policy| policy.rollout = Rollout::Shadow);
    let (_, text) = explained_by(&shadow, &["GET", "/closed"]);
    assert!(text.contains("- rule closed would deny: the request has no header"), "{text}");
    assert!(text.contains("shadow mode: never denied"), "{text}");
    let (code, text) = explained(&["GET", "/nowhere"]);
    assert_eq!(code, FAILED);
    assert!(text.ends_with("no rule applies: the request is allowed and not counted\n"));
}

#[test]
fn explain_a_descriptor() {
    for (entries, code, lines) in [
        (
            "user=alice",
            OK,
            "- user=alice matches user by its key, for any value\n\
             limit per-user: 20 in any 1m (log), counted in memory\n\
             counted by: user=alice\n",
        ),
        (
            "user=vip-7",
            OK,
            "- user=vip-7 matches user_vip-* by its `*`, the first match\n\
             200 in any 1m (log), instead of per-user, in shadow mode: never denied, counted in \
             memory\ncounted by: user=vip-*\n",
        ),
        (
            "user=root",
            FAILED,
            "- user=root matches user_root by key and value\nit has no limit: not limited\n",
        ),
        (
            "tenant=a",
            FAILED,
            "- tenant=a matches tenant by its key, for any value\n\
             the limits are deeper in the tree: not limited\n",
        ),
        (
            "tenant=a,path=/x",
            OK,
            "- tenant=a matches tenant by its key, for any value\n\
             - path=/x matches path by its key, for any value\n\
             unlimited, counted in memory\ncounted by: tenant=a, path=/x\n",
        ),
        (
            "user=alice,path=/x",
            FAILED,
            "- user=alice matches user by its key, for any value\n\
             - path=/x matches nothing at this level\nno entry of the tree matches: not limited\n",
        ),
    ] {
        let (found, text) = explained(&["shop", entries]);
        assert_eq!((found, text), (code, format!("domain shop\n{lines}")), "{entries}");
    }
    let (code, text) = explained(&["shpo", "user=alice"]);
    assert_eq!(code, FAILED);
    assert!(text.ends_with("did you mean `shop`?\n"), "{text}");
}

/// A tree of two levels in which all limits differ, so that the limit identifies the match.
fn a_level(depth: usize) -> BoxedStrategy<Vec<DescriptorSpec>> {
    let value =
        prop::sample::select(vec![None, Some("x"), Some("xy"), Some("x*"), Some("*y"), Some("*")]);
    let below = if depth == 0 { Just(Vec::new()).boxed() } else { a_level(depth - 1) };
    let one = (prop::sample::select(vec!["a", "a_x", "b"]), value, any::<bool>(), below).prop_map(
        |(key, value, is_limited, descriptors)| DescriptorSpec {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            limit: is_limited.then(|| LimitSpec { rate: None, name: None, replaces: Vec::new() }),
            descriptors,
            ..DescriptorSpec::default()
        },
    );
    prop::collection::vec(one, 0..5)
        .prop_map(|mut level| {
            let name = |it: &DescriptorSpec| match &it.value {
                Some(value) => format!("{}_{value}", it.key),
                None => it.key.clone(),
            };
            let mut seen = Vec::new();
            level.retain(|it| {
                let is_new = !seen.contains(&name(it));
                seen.push(name(it));
                is_new
            });
            level
        })
        .boxed()
}

fn number_limits(level: &mut [DescriptorSpec], next: &mut u32) {
    for descriptor in level {
        if let Some(limit) = &mut descriptor.limit {
            *next += 1;
            let rate = RateSpec { requests: *next, unit: Unit::Hour, algorithm: Algorithm::Log };
            limit.rate = Some(rate);
        }
        number_limits(&mut descriptor.descriptors, next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // What is explained is what the daemon does.
    #[test]
    fn a_descriptor_is_explained_as_it_is_answered(
        mut level in a_level(1),
        entries in prop::collection::vec(
            (prop::sample::select(vec!["a", "b", "c"]),
             prop::sample::select(vec!["", "x", "xy", "x_x", "xzy", "z"])), 1..3),
    ) {
        number_limits(&mut level, &mut 0);
        let mut loaded = good("native/listens.yaml");
        loaded.spec.domains = vec![DomainSpec::new("d", level)];
        let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let subject = Subject::Descriptor {
            domain: "d".to_owned(),
            entries: entries.iter().map(entry).collect(),
        };
        let mut out = Vec::new();
        explain(&loaded, &subject, true, &mut out);
        let explained: Value = serde_json::from_slice(&out).unwrap();

        let engine = Engine::new(&loaded.spec, &mut NoRestore).unwrap();
        let entries = entries.iter().map(|(key, value)| Entry { key, value }).collect();
        let descriptors = vec![Descriptor { entries, ..Descriptor::default() }];
        let limit_request = LimitRequest { domain: "d", descriptors, hits_addend: 1 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answered =
            runtime.block_on(answer(engine.plan().domains(), &limit_request, &Options::default(), Caller::IN_PROCESS)).unwrap();
        match &answered.statuses[0].limit {
            None => prop_assert_eq!(&explained["matched"], &Value::Bool(false), "{}", explained),
            Some(limit) => {
                let expected = format!("{} in any 1h (log), counted in memory", limit.requests);
                prop_assert_eq!(explained["limit"].as_str().unwrap(), expected);
            }
        }
    }
}

#[test]
fn subjects_that_are_none() {
    for words in [
        &["shop"][..],
        &["shop", "=x"],
        &["GET", "/a", "nonsense"],
        &["GET", "/a", "address=x"],
        &[],
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert!(Subject::parse(&words).is_err(), "{words:?}");
    }
}

fn tested(file: &str, json: bool) -> (u8, String) {
    let files: Vec<PathBuf> = vec![path(file)];
    let options = TestOptions { files, request: Request::default(), json, colors: false };
    let mut out = Vec::new();
    let code = test(&options, &mut out);
    (code, text(out))
}

#[test]
fn tests_that_pass() {
    let (code, text) = tested("tests/good.yaml", false);
    assert_eq!(code, OK, "{text}");
    assert!(text.ends_with("5 passed, 0 failed\n"), "{text}");
}

#[test]
fn tests_that_fail_say_where_and_how() {
    let (code, text) = tested("tests/fails.yaml", false);
    let expected = "\
FAIL  wrong decision
      line 5: at 90s (time 6 of 6): expected allow, got deny, again in 1m
FAIL  wrong remaining
      line 8: at 0s: expected 5 remaining, got 4
FAIL  wrong wait
      line 12: at 0s: expected retry_after 61s, got 1m
FAIL  no such policy
      line 15: unknown policy `lgoin`: did you mean `login`?
FAIL  no such tier
      line 18: the policy `api` has no tier `silver`
pass  passes
1 passed, 5 failed
";
    assert_eq!((code, text.as_str()), (FAILED, expected));
    let (code, text) = tested("tests/fails.yaml", true);
    assert_eq!((code, text.lines().count()), (FAILED, 7));
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["passed"], &first["line"]), (&false.into(), &5.into()));
}

#[test]
fn a_file_of_tests_with_mistakes() {
    let (code, text) = tested("tests/bad.yaml", false);
    assert_eq!(code, CONFIG);
    for expected in [
        "`expects` is not a key of a step",
        "did you mean `expect`?",
        "invalid value `maybe` for `expect`",
        "invalid value `home` for `address`",
        "`policy` needs `key`",
        "a step at 1s after one at 2s",
        "a step must have exactly one of `policy`, `request` and `domain`, but has 0",
        "a step must have exactly one of `policy`, `request` and `domain`, but has 2",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
}

#[test]
fn the_schema_is_json_and_the_reference_is_not() {
    let mut out = Vec::new();
    assert_eq!(schema(false, &mut out), OK);
    let schema_: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(schema_["title"], "Slidegate");
    let mut out = Vec::new();
    assert_eq!(schema(true, &mut out), OK);
    assert!(text(out).starts_with("### The file\n"));
}

#[test]
fn the_example_can_be_checked_too() {
    assert!(good("native/listens.yaml").warnings.is_empty());
    let (code, text) = checked(&["../../../examples/slidegate.yaml"], CheckOptions::default());
    assert_eq!(code, OK, "{text}");
}
