//! The format with `rate_limiting.sliding_window`: one policy and its memory.

use super::check::check_section;
use super::report::Report;
use super::table::section;
use super::yaml::{Node, Scalar, Shape};

/// The name of the policy and of its rule.
const NAME: &str = "default";

section! {
    static FILE = "the file" {
        /// All settings.
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
        key max_requests = Whole(0, LIMIT_MAX), required, example "100";
        /// The interval at which expired keys are removed, in milliseconds.
        key cleanup_interval_ms = Whole(1, 3_600_000), default "10000", example "10000";
        /// The memory limit of all counts, in MiB.
        key memory_limit_mb = Whole(1, 1 << 20), default "256", example "256";
        /// The treatment of a key that does not fit.
        key eviction_policy = Choice(&["lru", "overflow", "deny"]), default "overflow",
            example "lru";
    }
}

/// Checks the file against its table, and converts it to a tree of the native format: the settings
/// of memory, one policy, and for forward auth one rule that counts by address.
pub(super) fn translate(root: &Node, tree: &mut Node, report: &mut Report) {
    let before = report.errors();
    check_section("the file", root, &FILE, report);
    let found = root.find("rate_limiting.sliding_window").filter(|_| report.errors() == before);
    let Some(node) = found else { return };
    let mut quota = Node::empty(node.span);
    let copy = |into: &mut Node, to: &str, from: &str, unit: &str| {
        let found = node.get(from).and_then(|found| Some((found.span, found.as_scalar()?)));
        if let Some((span, scalar)) = found {
            let text = format!("{}{unit}", scalar.text.replace('_', ""));
            into.put(to, Node::scalar(Scalar::given(&text), span));
        }
    };
    copy(tree, "memory.limit_mb", "memory_limit_mb", "");
    copy(tree, "memory.on_full", "eviction_policy", "");
    copy(tree, "memory.sweep_interval", "cleanup_interval_ms", "ms");
    copy(&mut quota, "limit", "max_requests", "");
    copy(&mut quota, "window", "window_size_ms", "ms");
    let span = node.span;
    let text = |text: &str| Node::scalar(Scalar::given(text), span);
    let list = |item: Node| Node { kind: Shape::List(vec![item]), span };
    let mut policy = Node::empty(span);
    policy.put("name", text(NAME));
    policy.put("quotas", list(quota));
    tree.put("policies", list(policy));
    let mut rule = Node::empty(span);
    rule.put("name", text(NAME));
    rule.put("key", list(text("address")));
    rule.put("policy", text(NAME));
    tree.put("rules", list(rule));
}
