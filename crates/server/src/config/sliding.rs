//! The file with `rate_limiting.sliding_window`: one policy, and what memory it may take.

use core::time::Duration;

use slidegate::{Algorithm, Quota};

use super::check::check_section;
use super::leaf;
use super::lint;
use super::report::Report;
use super::source::Span;
use super::table::{Absent, Field, Kind, Section};
use super::yaml::{Kind as Shape, Node, Scalar};
use crate::spec::{KeyPart, MatchSpec, MissingKey, PolicySpec, RuleSpec, Spec};

/// What the policy and its rule are called.
pub(super) const NAME: &str = "default";

pub(super) static FILE: Section = Section {
    what: "the file",
    fields: &[Field {
        name: "rate_limiting",
        kind: Kind::Section(&RATE_LIMITING),
        absent: Absent::Refused,
        about: "Everything.",
        example: "{sliding_window: {window_size_ms: 60000, max_requests: 100}}",
    }],
};

static RATE_LIMITING: Section = Section {
    what: "`rate_limiting`",
    fields: &[Field {
        name: "sliding_window",
        kind: Kind::Section(&SLIDING_WINDOW),
        absent: Absent::Refused,
        about: "The limit.",
        example: "{window_size_ms: 60000, max_requests: 100}",
    }],
};

static SLIDING_WINDOW: Section = Section {
    what: "`sliding_window`",
    fields: &[
        Field {
            name: "window_size_ms",
            kind: Kind::Whole { least: 1, most: 10 * 366 * 86_400_000 },
            absent: Absent::Refused,
            about: "The window, in milliseconds.",
            example: "60000",
        },
        Field {
            name: "max_requests",
            kind: Kind::Whole { least: 1, most: (1 << 53) - 1 },
            absent: Absent::Refused,
            about: "Requests in any stretch of the window.",
            example: "100",
        },
        Field {
            name: "cleanup_interval_ms",
            kind: Kind::Whole { least: 1, most: 3_600_000 },
            absent: Absent::Default("10000"),
            about: "How often passed keys are dropped, in milliseconds.",
            example: "10000",
        },
        Field {
            name: "memory_limit_mb",
            kind: Kind::Whole { least: 1, most: 1 << 20 },
            absent: Absent::Default("256"),
            about: "What all counts together may take, in MiB.",
            example: "256",
        },
        Field {
            name: "eviction_policy",
            kind: Kind::Choice(&["lru", "overflow", "deny"]),
            absent: Absent::Default("overflow"),
            about: "What happens to a key that finds no room.",
            example: "lru",
        },
    ],
};

/// Holds the file against its table; puts its settings of memory into `settings`, and its limit
/// into a spec.
pub(super) fn read(root: &Node, settings: &mut Node, report: &mut Report) -> Spec {
    let before = report.errors();
    check_section("the file", root, &FILE, report);
    let Some(node) = root.find("rate_limiting.sliding_window") else { return Spec::default() };
    for (from, to, unit) in [
        ("memory_limit_mb", "memory.limit_mb", ""),
        ("eviction_policy", "memory.on_full", ""),
        ("cleanup_interval_ms", "memory.sweep_interval", "ms"),
    ] {
        let found = node.get(from).and_then(|found| Some((found.span, found.as_scalar()?)));
        if let (Some((span, scalar)), true) = (found, report.errors() == before) {
            let text = format!("{}{unit}", scalar.text.replace('_', ""));
            settings.put(to, Node::scalar(Scalar::given(&text), span));
        }
    }
    let number = |key: &str| {
        let found = node.get(key)?;
        let number =
            leaf::whole(found.as_scalar()?).and_then(|number| u64::try_from(number).ok())?;
        Some((number, found.span))
    };
    let (Some((window, window_span)), Some((limit, limit_span))) =
        (number("window_size_ms"), number("max_requests"))
    else {
        return Spec::default();
    };
    let window = Duration::from_millis(window);
    lint::window(window, window_span, report);
    lint::requests(limit, Algorithm::Log, limit_span, report);
    let Ok(quota) = Quota::new(limit, window) else { return Spec::default() };
    spec(quota)
}

/// Puts the limit into a tree too, as the own format would say it: for printing.
pub(super) fn show(spec: &Spec, span: Span, tree: &mut Node) {
    let scalar = |text: &str| Node::scalar(Scalar::given(text), span);
    let list = |items: Vec<Node>| Node { kind: Shape::List(items), span };
    for policy in &spec.policies {
        let mut shown = Node::empty(span);
        shown.put("name", scalar(&policy.name));
        let quota =
            |quota: &Quota| scalar(&format!("{}/{}", quota.limit(), leaf::show(quota.window())));
        shown.put("quotas", list(policy.quotas.iter().map(quota).collect()));
        tree.put("policies", list(vec![shown]));
    }
    for rule in &spec.rules {
        let mut shown = Node::empty(span);
        shown.put("name", scalar(&rule.name));
        shown.put("key", list(vec![scalar("address")]));
        shown.put("policy", scalar(&rule.policy));
        tree.put("rules", list(vec![shown]));
    }
}

/// One policy, and for forward auth one rule: every request by its address.
fn spec(quota: Quota) -> Spec {
    let rule = RuleSpec {
        name: NAME.to_owned(),
        matches: MatchSpec::default(),
        key: vec![KeyPart::Address],
        policy: NAME.to_owned(),
        tier_header: None,
        cost: slidegate::Cost::ONE,
        missing: MissingKey::Skip,
    };
    let policies = vec![PolicySpec::new(NAME, vec![quota])];
    Spec { stores: Vec::new(), policies, domains: Vec::new(), rules: vec![rule] }
}
