//! What configuration files would have done to the requests of a log.

use std::io::{self, Write};

use serde::Serialize;

use super::table::{grouped, percent, printable, write_columns, write_counts};
use crate::number::share;
use crate::read::{ReadCounts, format_time};
use crate::replay::{HitKey, Hits, KeySample, Timeline};

/// The requests of a log under one or two configuration files.
#[derive(Debug, Serialize)]
pub struct ConfigReport {
    /// Requests that were replayed.
    pub requests: u64,
    /// Different client addresses.
    pub keys: u64,
    /// Whether numbers of keys are estimates, because there are more than a million.
    pub keys_estimated: bool,
    /// The time of the first request.
    pub from: String,
    /// The time of the last request.
    pub until: String,
    /// Where the requests come from.
    pub input: String,
    /// What was read, and what could not be.
    #[serde(flatten)]
    pub counts: ReadCounts,
    /// What each file did.
    pub configs: Vec<FileReport>,
    /// How the second file differs from the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Requests over time, and the denials of each file.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// What one configuration file did.
#[derive(Debug, Clone, Serialize)]
pub struct FileReport {
    /// The file.
    pub file: String,
    /// Requests that it allowed.
    pub allowed: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Denied requests as a share of all.
    pub denied_share: f64,
    /// Client addresses that it denied at least once.
    pub keys_denied: u64,
    /// Requests that it denied because a rule requires a key that they lack.
    pub denied_without_key: u64,
    /// Requests to which no rule applied.
    pub unlimited: u64,
    /// What each rule did.
    pub rules: Vec<RuleReport>,
}

/// What one rule did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RuleReport {
    /// The name of the rule.
    pub name: String,
    /// Its policy.
    pub policy: String,
    /// The limits of the policy.
    pub quotas: Vec<String>,
    /// The algorithm.
    pub algorithm: String,
    /// Whether denials are enforced, only reported, or the policy is switched off.
    pub mode: String,
    /// Requests to which it applied.
    pub requests: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Requests that it would have denied if it were enforced for their key.
    pub would_deny: u64,
    /// Requests that the candidate would have denied.
    pub candidate_denied: u64,
    /// Different keys.
    pub keys: u64,
    /// Keys that it denied, or would have denied, at least once.
    pub keys_denied: u64,
    /// The keys with the most denials.
    pub hits: Vec<HitKey>,
}

/// How the decisions of two files differ.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Comparison {
    /// Requests that both deny.
    pub both_denied: u64,
    /// Requests that only the first file denies.
    pub only_first_denied: u64,
    /// Requests that only the second file denies.
    pub only_second_denied: u64,
    /// Client addresses with the most requests that only the first file denies.
    pub no_longer_denied: Vec<HitKey>,
    /// Client addresses with the most requests that only the second file denies.
    pub newly_denied: Vec<HitKey>,
}

/// Counts the decisions of a rule.
#[derive(Debug, Default)]
pub struct RuleTally {
    report: RuleReport,
    /// For each key, whether it was denied.
    keys: KeySample,
    hits: Hits,
}

/// What a rule decided about a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleDecision {
    /// Whether the rule denied it.
    pub denied: bool,
    /// Whether the rule would have denied it if it were enforced.
    pub would_deny: bool,
    /// Whether the candidate would have denied it.
    pub candidate_denied: bool,
}

impl RuleTally {
    /// No decisions yet of a rule that `report` describes.
    pub fn new(report: RuleReport) -> Self {
        Self { report, ..Self::default() }
    }

    /// Counts a decision about a key with a hash. `name` is called if the key is reported.
    pub fn add(
        &mut self,
        fingerprint: u64,
        at_ms: u64,
        decision: RuleDecision,
        name: impl FnOnce() -> Box<str>,
    ) {
        let is_over = decision.denied || decision.would_deny;
        self.report.requests += 1;
        self.report.denied += u64::from(decision.denied);
        self.report.would_deny += u64::from(decision.would_deny);
        self.report.candidate_denied += u64::from(decision.candidate_denied);
        self.keys.merge(fingerprint, |seen| *seen |= u64::from(is_over));
        if is_over {
            self.hits.add_named(fingerprint, at_ms, name);
        }
    }

    /// Returns the counts, with the `hits` keys that were denied most.
    pub fn finish(self, hits: usize) -> RuleReport {
        RuleReport {
            keys: self.keys.keys(),
            keys_denied: self.keys.count(|seen| seen != 0),
            hits: self.hits.top(hits),
            ..self.report
        }
    }
}

/// Writes the report as text.
///
/// # Errors
///
/// Returns the error of `out`.
pub fn write_config_table(report: &ConfigReport, out: &mut dyn Write) -> io::Result<()> {
    let about = if report.keys_estimated { "about " } else { "" };
    writeln!(
        out,
        "{} requests by {about}{} client addresses, {} to {}",
        grouped(report.requests),
        grouped(report.keys),
        report.from,
        report.until
    )?;
    writeln!(out, "Input: {}.", report.input)?;
    write_counts(&report.counts, out)?;
    for file in &report.configs {
        writeln!(out)?;
        write_file(file, report, out)?;
    }
    if let (Some(comparison), [first, second]) = (&report.comparison, report.configs.as_slice()) {
        writeln!(out)?;
        write_comparison(comparison, [&first.file, &second.file], out)?;
    }
    Ok(())
}

fn write_file(file: &FileReport, report: &ConfigReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} requests allowed, {} denied ({}), of {} addresses ({})",
        printable(&file.file),
        grouped(file.allowed),
        grouped(file.denied),
        percent(file.denied_share),
        grouped(file.keys_denied),
        percent(share(file.keys_denied, report.keys)),
    )?;
    if file.unlimited > 0 {
        writeln!(out, "{} requests match no rule", grouped(file.unlimited))?;
    }
    if file.denied_without_key > 0 {
        let count = grouped(file.denied_without_key);
        writeln!(out, "{count} denied because they have no key (missing_key: deny)")?;
    }
    let header = [
        "rule",
        "limit",
        "mode",
        "requests",
        "denied",
        "would deny",
        "candidate",
        "keys",
        "keys denied",
    ];
    let rows = file.rules.iter().map(|rule| {
        vec![
            rule.name.clone(),
            rule.quotas.join(" and "),
            rule.mode.clone(),
            grouped(rule.requests),
            grouped(rule.denied),
            grouped(rule.would_deny),
            grouped(rule.candidate_denied),
            grouped(rule.keys),
            grouped(rule.keys_denied),
        ]
    });
    write_columns(&header, rows.collect(), out)?;
    for rule in file.rules.iter().filter(|rule| !rule.hits.is_empty()) {
        writeln!(out)?;
        write_hits(&format!("keys of {} denied most", rule.name), &rule.hits, out)?;
    }
    Ok(())
}

fn write_comparison(
    comparison: &Comparison,
    files: [&str; 2],
    out: &mut dyn Write,
) -> io::Result<()> {
    let [first, second] = files.map(printable);
    let rows = vec![
        vec!["both files".to_owned(), grouped(comparison.both_denied)],
        vec![format!("only {first}"), grouped(comparison.only_first_denied)],
        vec![format!("only {second}"), grouped(comparison.only_second_denied)],
    ];
    write_columns(&["denied by", "requests"], rows, out)?;
    for (what, hits) in [
        ("denied by the second file only", &comparison.newly_denied),
        ("denied by the first file only", &comparison.no_longer_denied),
    ] {
        if !hits.is_empty() {
            writeln!(out)?;
            write_hits(what, hits, out)?;
        }
    }
    Ok(())
}

fn write_hits(what: &str, hits: &[HitKey], out: &mut dyn Write) -> io::Result<()> {
    let rows = hits.iter().map(|hit| {
        let (first, last) = (format_time(hit.first_ms), format_time(hit.last_ms));
        vec![printable(&hit.key), grouped(hit.denied), first, last]
    });
    write_columns(&[what, "denied", "first", "last"], rows.collect(), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimated_numbers_of_addresses_are_marked() {
        let report = |keys_estimated: bool| ConfigReport {
            requests: 3_000_000,
            keys: 2_000_000,
            keys_estimated,
            from: String::new(),
            until: String::new(),
            input: String::new(),
            counts: ReadCounts::default(),
            configs: Vec::new(),
            comparison: None,
            timeline: Timeline::new(1),
        };
        for (keys_estimated, expected) in [
            (true, "3,000,000 requests by about 2,000,000 client addresses"),
            (false, "3,000,000 requests by 2,000,000 client addresses"),
        ] {
            let mut out = Vec::new();
            write_config_table(&report(keys_estimated), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
