//! Findings as text.

use std::io::{self, Write};

use super::{Diagnostic, Place, Severity};
use crate::config::source::Origin;

const RED: &str = "\u{1b}[1;31m";
const YELLOW: &str = "\u{1b}[1;33m";
const BLUE: &str = "\u{1b}[1;34m";
const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";

/// Writes findings with their lines, optionally in colors.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn write_text(
    out: &mut dyn Write,
    findings: &[Diagnostic],
    colors: bool,
) -> Result<(), io::Error> {
    let paint = Paint { colors };
    for finding in findings {
        write_one(out, finding, paint)?;
    }
    Ok(())
}

fn write_one(out: &mut dyn Write, finding: &Diagnostic, paint: Paint) -> Result<(), io::Error> {
    let color = match finding.severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
        Severity::Note => BLUE,
    };
    let head = format!("{}[{}]", finding.severity.name(), finding.code);
    let message = paint.with(BOLD, &format!(": {}", finding.message));
    writeln!(out, "{}{message}", paint.with(color, &head))?;
    let margin = margin(finding);
    if let Some(place) = &finding.place {
        write_place(out, place, margin, color, paint)?;
    }
    if let Some((place, why)) = &finding.related {
        writeln!(out, "{:margin$} {} {why}", "", paint.with(BLUE, "::"))?;
        write_place(out, place, margin, BLUE, paint)?;
    }
    let equals = paint.with(BLUE, "=");
    if let Some(word) = &finding.did_you_mean {
        writeln!(out, "{:margin$} {equals} did you mean `{word}`?", "")?;
    }
    if let Some(help) = &finding.help {
        writeln!(out, "{:margin$} {equals} {help}", "")?;
    }
    writeln!(out)
}

fn write_place(
    out: &mut dyn Write,
    place: &Place,
    margin: usize,
    color: &str,
    paint: Paint,
) -> Result<(), io::Error> {
    let bar = paint.with(BLUE, "|");
    let arrow = paint.with(BLUE, "-->");
    let (name, line, column) = (place.origin.name(), place.line, place.column);
    let named = match place.origin {
        Origin::File(_) => format!("{name}:{line}:{column}"),
        Origin::Environment(_) => format!("environment variable {name}"),
        Origin::Flag(_) => format!("flag {name}"),
    };
    writeln!(out, "{:margin$}{arrow} {named}", "")?;
    let carets = "^".repeat(place.width());
    writeln!(out, "{:margin$} {bar}", "")?;
    writeln!(
        out,
        "{} {bar} {}",
        paint.with(BLUE, &format!("{line:>margin$}")),
        place.excerpt.trim_end()
    )?;
    writeln!(out, "{:margin$} {bar} {:2$}{3}", "", "", place.indent, paint.with(color, &carets))
}

/// Returns the width of the longest line number.
fn margin(finding: &Diagnostic) -> usize {
    let related = finding.related.as_ref().map(|(place, _)| place);
    let lines = finding.place.iter().chain(related).map(|place| place.line);
    lines.max().unwrap_or(1).to_string().len().max(2)
}

#[derive(Clone, Copy)]
struct Paint {
    colors: bool,
}

impl Paint {
    fn with(self, color: &str, text: &str) -> String {
        if self.colors { format!("{color}{text}{RESET}") } else { text.to_owned() }
    }
}
