//! A report as a table in a terminal.

use core::fmt::Write as _;
use std::io::{self, Write};

use super::{AlgorithmReport, Report};
use crate::advice::{Advice, Effect};
use crate::read::{ReadCounts, format_time};

/// Denied keys that the table shows.
const HITS_SHOWN: usize = 10;

/// Writes the report as text.
///
/// # Errors
///
/// Returns the error of `out`.
pub fn write_table(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let about = if report.keys_estimated { "about " } else { "" };
    writeln!(
        out,
        "{} requests by {about}{} keys, {} to {}",
        grouped(report.requests),
        grouped(report.keys),
        report.from,
        report.until
    )?;
    let quotas = report.quotas.join(" and ");
    writeln!(out, "Limit: {quotas} per {}. Input: {}.", report.key, report.input)?;
    write_counts(&report.counts, out)?;
    writeln!(out)?;
    write_errors(&report.algorithms, out)?;
    if !report.what_if.is_empty() {
        writeln!(out)?;
        write_what_if(report, out)?;
    }
    if let Some(first) = report.algorithms.first() {
        write_hits(first, out)?;
    }
    for advice in &report.advice {
        writeln!(out)?;
        write_advice(advice, out)?;
    }
    Ok(())
}

fn write_advice(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    let effect = |effect: &Effect| {
        format!(
            "{} requests ({}) and {} keys ({})",
            grouped(effect.denied),
            percent(effect.denied_share),
            grouped(effect.keys_denied),
            percent(effect.keys_denied_share)
        )
    };
    let one_less = &advice.one_less;
    writeln!(out, "Smallest limit with {}: {}", advice.goal, advice.quota)?;
    writeln!(out, "  it denies {}", effect(&advice.effect))?;
    if one_less.limit > 0 {
        writeln!(out, "  {} would deny {}", one_less.limit, effect(one_less))?;
    }
    writeln!(out, "\n{}", advice.yaml.trim_end())
}

/// Writes what was not replayed.
pub(super) fn write_counts(counts: &ReadCounts, out: &mut dyn Write) -> io::Result<()> {
    for (count, what) in [
        (counts.unreadable, "unreadable lines"),
        (counts.filtered, "requests left out by the filter"),
        (counts.without_key, "requests without a key, not replayed"),
        (counts.late, "requests out of order by more than --disorder, replayed late"),
    ] {
        if count > 0 {
            writeln!(out, "{} {what}", grouped(count))?;
        }
    }
    for example in &counts.unreadable_examples {
        writeln!(out, "  {}, line {}: {}", printable(&example.file), example.line, example.why)?;
    }
    for file in &counts.incomplete {
        writeln!(out, "incomplete: {}", printable(file))?;
    }
    Ok(())
}

fn write_errors(algorithms: &[AlgorithmReport], out: &mut dyn Write) -> io::Result<()> {
    let header = [
        "algorithm",
        "allowed",
        "denied",
        "wrongly allowed",
        "wrongly denied",
        "worst excess",
        "rate error",
        "bytes/key",
        "ns",
    ];
    let rows = algorithms.iter().map(|algorithm| {
        vec![
            algorithm.name.clone(),
            grouped(algorithm.allowed),
            grouped(algorithm.denied),
            grouped(algorithm.wrongly_allowed),
            grouped(algorithm.wrongly_denied),
            grouped(algorithm.worst_excess),
            format!("{:.2} %", algorithm.mean_rate_error * 100.0),
            format!("{:.0}", algorithm.bytes_per_key),
            format!("{:.0}", algorithm.nanos_per_decision),
        ]
    });
    write_columns(&header, rows.collect(), out)
}

fn write_what_if(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let header = ["limit", "denied", "share", "keys denied", "share of keys"];
    let rows = report.what_if.iter().map(|algorithm| {
        vec![
            algorithm.quotas.join(" and "),
            grouped(algorithm.denied),
            percent(algorithm.denied_share),
            grouped(algorithm.keys_denied),
            percent(crate::number::share(algorithm.keys_denied, report.keys)),
        ]
    });
    write_columns(&header, rows.collect(), out)
}

fn write_hits(algorithm: &AlgorithmReport, out: &mut dyn Write) -> io::Result<()> {
    if algorithm.hits.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let header = ["keys denied most", "denied", "first", "last"];
    let rows = algorithm.hits.iter().take(HITS_SHOWN).map(|hit| {
        let (first, last) = (format_time(hit.first_ms), format_time(hit.last_ms));
        vec![printable(&hit.key), grouped(hit.denied), first, last]
    });
    write_columns(&header, rows.collect(), out)?;
    if algorithm.keys_denied > HITS_SHOWN as u64 {
        writeln!(out, "{} keys in total, by {}", grouped(algorithm.keys_denied), algorithm.name)?;
    }
    Ok(())
}

/// Writes rows below a header. The first column is aligned left, the others right.
///
/// # Errors
///
/// Returns the error of `out`.
pub fn write_columns(
    header: &[&str],
    rows: Vec<Vec<String>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let header = header.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = core::iter::once(header).chain(rows).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in &rows {
        let mut line = String::new();
        for (place, (text, width)) in row.iter().zip(&widths).enumerate() {
            if place == 0 {
                let _ = write!(line, "{text:<width$}");
            } else {
                let _ = write!(line, "  {text:>width$}");
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A number with commas between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in percent. Only none is 0 %, and only all are 100 %.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        ..0.000_05 => "<0.0001 %".to_owned(),
        ..0.1 => format!("{percent:.4} %"),
        99.995..100.0 => ">99.99 %".to_owned(),
        _ => format!("{percent:.2} %"),
    }
}

/// A text of a log, of which nothing can change the terminal, cut if it is long.
pub(crate) fn printable(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(60)
        .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter })
        .collect();
    if text.chars().nth(60).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let texts = [0, 12, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.000_03, 0.5].map(percent), ["0 %", "0.0030 %", "50.00 %"]);
        assert_eq!([4e-7, 1e-6, 1.0].map(percent), ["<0.0001 %", "0.0001 %", "100.00 %"]);
        assert_eq!([0.9999, 0.999_999_9].map(percent), ["99.99 %", ">99.99 %"]);
    }

    #[test]
    fn keys_cannot_control_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(printable(&"x".repeat(61)), format!("{}...", "x".repeat(60)));
    }
}
