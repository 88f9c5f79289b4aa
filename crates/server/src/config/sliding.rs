//! The file with `rate_limiting.sliding_window`: one policy, and what memory it may take.

use core::time::Duration;

use slidegate::{Algorithm, Quota, format_duration};

use super::check::check_section;
use super::leaf;
use super::lint;
use super::report::Report;
use super::source::Span;
use super::table::section;
use super::yaml::{Node, Scalar, Shape};
use crate::spec::{KeyPart, PolicySpec, RuleSpec, Spec};

/// What the policy and its rule are called.
pub(super) const NAME: &str = "default";

section! {
    static FILE = "the file" {
        /// Everything.
        key rate_limiting = Section(&RATE_LIMITING), required,
            example "{sliding_window: {window_size_ms: 60000, max_requests: 100}}";
    }
}

section! {
    static RATE_LIMITING = "`rate_limiting`" {
        /// The limit.
        key sliding_window = Section(&SLIDING_WINDOW), required,
            example "{window_size_ms: 60000, max_requests: 100}";
    }
}

section! {
    static SLIDING_WINDOW = "`sliding_window`" {
        /// The window, in milliseconds.
        key window_size_ms = Whole(1, 10 * 366 * 86_400_000), required, example "60000";
        /// Requests in any interval of the window's length.
        key max_requests = Whole(1, LIMIT_MAX), required, example "100";
        /// How often expired keys are dropped, in milliseconds.
        key cleanup_interval_ms = Whole(1, 3_600_000), default "10000", example "10000";
        /// What all counts together may take, in MiB.
        key memory_limit_mb = Whole(1, 1 << 20), default "256", example "256";
        /// What happens to a key that does not fit.
        key eviction_policy = Choice(&["lru", "overflow", "deny"]), default "overflow",
            example "lru";
    }
}

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
        let quota = |quota: &Quota| {
            scalar(&format!("{}/{}", quota.limit(), format_duration(quota.window())))
        };
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
    let (name, policy) = (NAME.to_owned(), NAME.to_owned());
    let rule = RuleSpec { name, policy, key: vec![KeyPart::Address], ..RuleSpec::default() };
    let policies = vec![PolicySpec::new(NAME, vec![quota])];
    Spec { policies, rules: vec![rule], ..Spec::default() }
}
