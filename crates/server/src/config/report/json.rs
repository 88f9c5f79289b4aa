//! Findings for programs.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Diagnostic, Place};
use crate::config::source::Origin;

/// Writes findings as JSON, one object a line.
///
/// # Errors
///
/// When `out` cannot be written to.
pub fn write_json(out: &mut dyn Write, findings: &[Diagnostic]) -> Result<(), io::Error> {
    for finding in findings {
        writeln!(out, "{}", object(finding))?;
    }
    Ok(())
}

fn object(finding: &Diagnostic) -> Value {
    let mut members = Map::new();
    members.insert("severity".to_owned(), json!(finding.severity.name()));
    members.insert("code".to_owned(), json!(finding.code));
    members.insert("message".to_owned(), json!(finding.message));
    if let Some(place) = &finding.place {
        add_place(&mut members, place);
    }
    if let Some(word) = &finding.did_you_mean {
        members.insert("did_you_mean".to_owned(), json!(word));
    }
    if let Some(help) = &finding.help {
        members.insert("help".to_owned(), json!(help));
    }
    if let Some((place, why)) = &finding.related {
        let mut related = Map::new();
        related.insert("why".to_owned(), json!(why));
        add_place(&mut related, place);
        members.insert("related".to_owned(), Value::Object(related));
    }
    Value::Object(members)
}

fn add_place(members: &mut Map<String, Value>, place: &Place) {
    let name = json!(place.origin.name());
    match place.origin {
        Origin::File(_) => {
            members.insert("file".to_owned(), name);
            members.insert("line".to_owned(), json!(place.line));
            members.insert("column".to_owned(), json!(place.column));
            members.insert("end_column".to_owned(), json!(place.end_column));
        }
        Origin::Environment(_) => drop(members.insert("environment".to_owned(), name)),
        Origin::Flag(_) => drop(members.insert("flag".to_owned(), name)),
    }
}
