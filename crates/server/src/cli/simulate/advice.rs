//! Advice on limits, with the configuration for it.

use core::fmt::Write as _;

use slidegate_sim::advice::{Advice, advise as find};
use slidegate_sim::read::KeyTemplate;
use slidegate_sim::report::Subject;

use super::arguments::{ReadArguments, SimulateArguments};
use super::progress::Progress;
use super::{Failure, Input};

/// Refuses advice on requests that can be read only once.
pub(super) fn check(arguments: &SimulateArguments) -> Result<(), Failure> {
    if !arguments.advise.is_empty() && arguments.files.iter().any(|file| file == "-") {
        return Err(Failure::usage(
            "--advise reads the requests several times, and standard input can be read only once: write it to a \
             file",
        ));
    }
    Ok(())
}

/// Finds the smallest limit for each goal.
pub(super) fn advise(
    arguments: &SimulateArguments,
    subject: &Subject,
    key: &KeyTemplate,
) -> Result<Vec<Advice>, Failure> {
    let Some(quota) = subject.quotas.first().filter(|_| !arguments.advise.is_empty()) else {
        return Ok(Vec::new());
    };
    let open = || {
        let input = Input::open(arguments).map_err(|failure| failure.message)?;
        Ok(input.source)
    };
    let progress = Progress::new(true);
    let found = find(*quota, &arguments.advise, open, |source| {
        progress.show(source.progress(), || "search for the smallest limit".to_owned());
    });
    progress.end();
    let mut all = found.map_err(Failure::failed)?;
    for advice in &mut all {
        advice.yaml = yaml(advice, key, &arguments.reading);
    }
    Ok(all)
}

/// A configuration in the native format. A rule is added if the daemon can count by the same key.
fn yaml(advice: &Advice, key: &KeyTemplate, reading: &ReadArguments) -> String {
    let mut text = format!(
        "# {}, in the replayed requests.\nslidegate: 1\npolicies:\n  - name: advised\n    quotas: [{}]\n",
        advice.goal, advice.quota
    );
    if !reading.statuses.is_empty() {
        text.push_str("# The replay was restricted to some statuses. A limiter decides before the status is known.\n");
    }
    let parts: Option<Vec<&str>> = key.fields().into_iter().map(key_part).collect();
    let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
        let _ = writeln!(
            text,
            "# No rule counts by {}: check the policy from your application, with that as key.",
            single_line(&key.to_string())
        );
        return text;
    };
    text.push_str("rules:\n  - name: advised\n");
    let mut conditions = Vec::new();
    for (name, values) in [("path", &reading.paths), ("method", &reading.methods)] {
        if !values.is_empty() {
            // JSON strings are YAML strings.
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            conditions.push(format!("{name}: [{}]", values.join(", ")));
        }
    }
    if !conditions.is_empty() {
        let _ = writeln!(text, "    match: {{{}}}", conditions.join(", "));
    }
    let _ = writeln!(text, "    key: [{}]\n    policy: advised", parts.join(", "));
    text
}

/// The part of a rule's key that has the value of a log's field.
fn key_part(field: &str) -> Option<&str> {
    Some(match field {
        "client" => "address",
        "method" => "method",
        "host" => "host",
        "agent" => "{header: user-agent}",
        "referer" => "{header: referer}",
        _ => return None,
    })
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text in which nothing ends a comment.
fn single_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
