//! Warnings about settings that are valid but may be unintended.

use core::time::Duration;

use slidegate::{Algorithm, FailureMode, Quota, format_duration};

use super::report::Report;
use super::source::Span;
use super::yaml::Node;
use crate::spec::{KeyPart, MEMORY, PolicySpec, RuleSpec};

/// Below this, the tick of 1 ms is a considerable part of the window.
const WINDOW_SHORT: Duration = Duration::from_millis(100);

/// From this window on, users expect a limit to start from zero at midnight.
const WINDOW_LONG: Duration = Duration::from_secs(86_400);

/// Above this, the exact log of a key takes kilobytes.
const LOG_LARGE: u64 = 10_000;

const SWEEP_SHORT: Duration = Duration::from_secs(1);
const SWEEP_LONG: Duration = Duration::from_secs(30);

/// Words in paths of requests before a login.
const BEFORE_LOGIN: [&str; 10] = [
    "login", "signin", "sign-in", "auth", "password", "reset", "otp", "verify", "register",
    "signup",
];

/// Words in names of headers that identify a person and can be guessed.
const IDENTIFIERS: [&str; 6] = ["user", "email", "account", "login", "phone", "customer"];

/// Words in names of headers with secrets.
const SECRETS: [&str; 8] =
    ["authorization", "cookie", "api-key", "apikey", "token", "secret", "session", "password"];

/// Warns about a policy.
pub(super) fn policy(spec: &PolicySpec, node: &Node, report: &mut Report) {
    let span = |key: &str| node.get(key).map_or(node.span, |value| value.span);
    let items = node.get("quotas").map(Node::items).unwrap_or_default();
    for (index, one) in spec.quotas.iter().enumerate() {
        // A quota may be a map.
        let part = |key: &str| items.get(index).and_then(|item| Some(item.get(key)?.span));
        let [limit, window] = ["limit", "window"].map(|key| part(key).unwrap_or(span("quotas")));
        quota(*one, spec.algorithm, limit, window, report);
    }
    for one in spec.tiers.values().flatten() {
        quota(*one, spec.algorithm, span("tiers"), span("tiers"), report);
    }
    algorithm(spec.algorithm, span("algorithm"), report);
    if spec.global && spec.store == MEMORY {
        let message = format!(
            "the policy `{}` is global, but its counts are in this process: N nodes allow up to N times the limit",
            spec.name
        );
        report.warning(span("global"), "global-memory", message).help("name a shared `store`");
    }
    let shared = spec.store != MEMORY;
    if shared && spec.failure_mode == FailureMode::Local && spec.shared.nodes == 1 {
        let message = "while the store fails, each node allows the whole limit";
        let finding = report.warning(span("failure_mode"), "local-nodes", message);
        finding.help("set `nodes` to the number of nodes");
    }
}

/// Warns about a quota, at the places of its limit and its window.
pub(super) fn quota(
    quota: Quota,
    algorithm: Algorithm,
    limit_span: Span,
    window_span: Span,
    report: &mut Report,
) {
    let (limit, window) = (quota.limit(), quota.window());
    if window < WINDOW_SHORT {
        let message = format!("a window of {} is very short", format_duration(window));
        let help = "below 100ms use `counter` or `gcra`";
        report.warning(window_span, "short-window", message).help(help);
    }
    if limit > LOG_LARGE && algorithm == Algorithm::Log {
        let message = format!(
            "the exact log of {limit} requests takes about {} KiB per key",
            limit.div_ceil(1024)
        );
        let help = "above 10,000 use `algorithm: {log_capped: 4096}`, `counter` or `gcra`";
        report.warning(limit_span, "large-log", message).help(help);
    }
    if window >= WINDOW_LONG && algorithm != Algorithm::Fixed && !report.has("daily") {
        let message = "a window of days slides: it does not start from zero at midnight";
        let help = "`algorithm: fixed` starts from zero at midnight UTC";
        report.note(window_span, "daily", message).help(help);
    }
}

pub(super) fn algorithm(algorithm: Algorithm, span: Span, report: &mut Report) {
    if algorithm == Algorithm::Fixed {
        let message = "`fixed` allows up to twice the limit around a boundary";
        report
            .warning(span, "fixed", message)
            .help("`log` is exact, and `gcra` takes as little memory as `fixed`");
    }
}

pub(super) fn sweep_interval(interval: Duration, span: Span, report: &mut Report) {
    let problem = if interval < SWEEP_SHORT {
        "costs more than it frees"
    } else if interval > SWEEP_LONG {
        "leaves expired keys in memory for long"
    } else {
        return;
    };
    let message = format!("sweeping every {} {problem}", format_duration(interval));
    report.warning(span, "sweep-interval", message).help("use 1s to 30s");
}

/// Warns about a rule.
pub(super) fn rule(spec: &RuleSpec, policy: &PolicySpec, span: Span, report: &mut Report) {
    let headers = || {
        spec.key.iter().filter_map(|part| match part {
            KeyPart::Header(name) => Some(name.as_str()),
            _ => None,
        })
    };
    let has = |name: &str, words: &[&str]| words.iter().any(|word| name.contains(word));
    let before_login = spec.matches.paths.iter().any(|path| has(path, &BEFORE_LOGIN));
    let named = headers().find(|name| before_login || has(name, &IDENTIFIERS));
    if let (Some(name), false) = (named, spec.key.contains(&KeyPart::Address)) {
        let message = format!(
            "a client that sends another client's `{name}` locks it out: the value is not authenticated yet"
        );
        report.warning(span, "lock-out", message).help("add `address` to the key");
    }
    if headers().any(|name| name == "cookie") {
        let message = "a client that adds a cookie gets a new key";
        let help = "let the proxy copy the session into a header of its own, and count by that";
        report.warning(span, "cookie-key", message).help(help);
    }
    let secret = headers().find(|name| has(name, &SECRETS));
    if let (Some(name), false) = (secret, policy.secret_keys) {
        let message = format!("`{name}` looks like a secret, and would appear in logs and stores");
        let help = format!("set `secret_keys: true` in the policy `{}`", policy.name);
        report.warning(span, "secret-key", message).help(help);
    }
}
