//! All limits of all domains as text, as the reference service shows them at `/rlconfig`.

use core::fmt::Write;

use crate::engine::Plan;

/// One line for each limit: its name, unit, requests, and modes.
pub fn dump(plan: &Plan) -> String {
    let mut text = String::new();
    for rule in plan.domains().flat_map(|domain| domain.rules()) {
        let (unit, requests) = match &rule.rate {
            Some(rate) => (rate.unit.name().to_ascii_uppercase(), rate.requests),
            None => ("UNKNOWN".to_owned(), 0),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}: unit={unit} requests_per_unit={requests}, shadow_mode: {}, quota_mode: {}",
            rule.label, rule.shadow_mode, rule.quota_mode
        );
    }
    text
}
