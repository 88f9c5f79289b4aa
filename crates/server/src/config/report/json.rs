//! Findings as JSON.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Diagnostic, Place};
use crate::config::source::Origin;

/// Writes findings as JSON, one object per line.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn write_json(out: &mut dyn Write, findings: &[Diagnostic]) -> Result<(), io::Error> {
    for finding in findings {
        writeln!(out, "{}", object(finding))?;
    }
    Ok(())
}

fn object(finding: &Diagnostic) -> Value {
    let related = finding.related.as_ref().map(|(place, why)| {
        let mut members = at(place);
        members.insert("why".to_owned(), json!(why));
        members
    });
    let mut members = finding.place.as_ref().map(at).unwrap_or_default();
    let said = [
        ("severity", Some(json!(finding.severity.name()))),
        ("code", Some(json!(finding.code))),
        ("message", Some(json!(finding.message))),
        ("did_you_mean", finding.did_you_mean.as_ref().map(|word| json!(word))),
        ("help", finding.help.as_ref().map(|help| json!(help))),
        ("related", related.map(Value::Object)),
    ];
    members.extend(said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Value::Object(members)
}

fn at(place: &Place) -> Map<String, Value> {
    let name = place.origin.name();
    let place = match place.origin {
        Origin::File(_) => json!({
            "file": name, "line": place.line, "column": place.column, "end_column": place.end_column,
        }),
        Origin::Environment(_) => json!({"environment": name}),
        Origin::Flag(_) => json!({"flag": name}),
    };
    place.as_object().cloned().unwrap_or_default()
}
