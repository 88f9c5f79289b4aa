//! A report as one HTML file with plots, which needs no network.

use slidegate_plot::{
    Axis, BarChart, Cell, Chart, Color, Event, Page, Row, Section, Series, Span, Table,
    Timeline as Rows, Unit,
};

use super::table::{grouped, percent};
use super::window::window_chart;
use super::{AlgorithmReport, ConfigReport, FileReport, Report};
use crate::number::to_float;
use crate::read::ReadCounts;
use crate::replay::{HitKey, Timeline};

/// Denied keys whose denials are drawn.
const HITS_DRAWN: usize = 10;

/// Returns the comparison of algorithms as a page.
pub fn to_html(report: &Report) -> String {
    let limits = report.quotas.join(" and ");
    let page = Page::new(format!("{limits} per {}", report.key))
        .lead(format!("{}, {} to {}", report.input, report.from, report.until))
        .fact("requests", grouped(report.requests))
        .fact("keys", keys(report.keys, report.keys_estimated));
    let mut page = counts(page, &report.counts);
    if let Some(first) = report.algorithms.first() {
        page = page
            .fact(format!("denied by {}", first.name), percent(first.denied_share))
            .fact("keys denied", grouped(first.keys_denied));
        let mut section = Section::new("Requests over time");
        section = section.figure(&over_time(&report.timeline, &[(&first.name, Color::Denied)]));
        if !report.singles.is_empty() {
            section = section.figure(&singles(report));
            if let Some(chart) = window_chart(report) {
                section = section.figure(&chart);
            }
        }
        page = page.section(section);
    }
    page = page.section(
        Section::new("Algorithms")
            .text(
                "A request is wrongly allowed if its window then contains more than the limit, and wrongly denied if \
                 there was room.",
            )
            .figure(&wrong_decisions(&report.algorithms))
            .table(&algorithm_table(&report.algorithms)),
    );
    if let Some(first) = report.algorithms.first().filter(|first| !first.hits.is_empty()) {
        let title = format!("Keys that {} denied most", first.name);
        page = page.section(hits_section(&title, &first.hits));
    }
    if !report.what_if.is_empty() {
        page = page.section(Section::new("Other limits").table(&what_if_table(report)));
    }
    for advice in &report.advice {
        let effect = &advice.effect;
        let text = format!(
            "{} is the smallest limit with {}. It denies {} requests ({}) and {} keys ({}).",
            advice.quota,
            advice.goal,
            grouped(effect.denied),
            percent(effect.denied_share),
            grouped(effect.keys_denied),
            percent(effect.keys_denied_share)
        );
        page = page.section(Section::new("Advice").text(&text).code(&advice.yaml));
    }
    page.footer("Made by slidegate simulate.").to_html()
}

/// Returns what configuration files did as a page.
pub fn config_to_html(report: &ConfigReport) -> String {
    let names = short_names(&report.configs);
    let page = Page::new(names.join(" and "))
        .lead(format!("{}, {} to {}", report.input, report.from, report.until))
        .fact("requests", grouped(report.requests))
        .fact("client addresses", keys(report.keys, report.keys_estimated));
    let mut page = counts(page, &report.counts);
    let colors = [Color::Denied, Color::Shadow];
    let series: Vec<(&str, Color)> = names.iter().copied().zip(colors).collect();
    page = page
        .section(Section::new("Requests over time").figure(&over_time(&report.timeline, &series)));
    if let Some(comparison) = &report.comparison {
        let table = Table::new(["denied by", "requests"])
            .row([Cell::text("both files"), Cell::number(grouped(comparison.both_denied))])
            .row([
                Cell::text("the first only"),
                Cell::number(grouped(comparison.only_first_denied)),
            ])
            .row([
                Cell::text("the second only"),
                Cell::number(grouped(comparison.only_second_denied)),
            ]);
        page = page.section(Section::new("Difference").table(&table));
        for (title, hits) in [
            ("Addresses that only the second file denies", &comparison.newly_denied),
            ("Addresses that only the first file denies", &comparison.no_longer_denied),
        ] {
            if !hits.is_empty() {
                page = page.section(hits_section(title, hits));
            }
        }
    }
    for (file, name) in report.configs.iter().zip(names) {
        page = page.section(file_section(file, name));
        for rule in file.rules.iter().filter(|rule| !rule.hits.is_empty()) {
            let title = format!("{name}: keys that rule {} denied most", rule.name);
            page = page.section(hits_section(&title, &rule.hits));
        }
    }
    page.footer("Made by slidegate simulate.").to_html()
}

/// Returns the names of the files without their folders, if these are different and each is one file.
fn short_names(files: &[FileReport]) -> Vec<&str> {
    let full = || files.iter().map(|file| file.file.as_str());
    let short: Vec<&str> = full().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
    let is_unique = |name: &&str| short.iter().filter(|other| *other == name).count() == 1;
    let is_single = |name: &str| !name.contains(", ");
    if short.iter().all(is_unique) && full().all(is_single) { short } else { full().collect() }
}

fn keys(count: u64, is_estimate: bool) -> String {
    if is_estimate { format!("about {}", grouped(count)) } else { grouped(count) }
}

fn counts(mut page: Page, counts: &ReadCounts) -> Page {
    for (count, what) in [
        (counts.unreadable, "unreadable lines"),
        (counts.without_key, "without a key"),
        (counts.late, "late"),
        (counts.incomplete.len() as u64, "incomplete files"),
    ] {
        if count > 0 {
            page = page.warning(what, grouped(count));
        }
    }
    if counts.filtered > 0 { page.fact("filtered out", grouped(counts.filtered)) } else { page }
}

fn over_time(timeline: &Timeline, denials: &[(&str, Color)]) -> Chart {
    let per_second = 1000.0 / to_float(timeline.step_ms().max(1));
    let points = |counts: Vec<u64>| -> Vec<(f64, f64)> {
        let at = |place: usize| to_float(timeline.start_ms() + place as u64 * timeline.step_ms());
        counts
            .into_iter()
            .enumerate()
            .map(|(place, count)| (at(place), to_float(count) * per_second))
            .collect()
    };
    let mut chart = Chart::new("Requests per second")
        .x(Axis::time())
        .y(Axis::new(Unit::Count))
        .series(Series::area("all requests", Color::Allowed, points(timeline.requests())));
    for (limiter, (name, color)) in denials.iter().enumerate() {
        let name = format!("denied by {name}");
        chart = chart.series(Series::line(name, *color, points(timeline.denials(limiter))));
    }
    chart
}

/// Each request under each algorithm.
fn singles(report: &Report) -> Rows {
    let mut rows = Rows::new("Each request").x(Axis::time());
    for (limiter, algorithm) in report.algorithms.iter().enumerate() {
        let events = report.singles.iter().map(|single| {
            let is_denied = single.denied_by & (1 << limiter) != 0;
            let color = if is_denied { Color::Denied } else { Color::Allowed };
            Event { at: to_float(single.at_ms), color }
        });
        rows = rows.row(Row {
            name: algorithm.name.clone(),
            note: format!("{} denied", grouped(algorithm.denied)),
            events: events.collect(),
            spans: Vec::new(),
        });
    }
    rows.explain("allowed", Color::Allowed).explain("denied", Color::Denied)
}

fn wrong_decisions(algorithms: &[AlgorithmReport]) -> BarChart {
    let chart = BarChart::new("Wrong decisions", Unit::Count)
        .group("wrongly allowed", Color::Denied)
        .group("wrongly denied", Color::Shadow);
    algorithms.iter().fold(chart, |chart, one| {
        chart.row(&one.name, [to_float(one.wrongly_allowed), to_float(one.wrongly_denied)])
    })
}

fn algorithm_table(algorithms: &[AlgorithmReport]) -> Table {
    let header = [
        "algorithm",
        "allowed",
        "denied",
        "wrongly allowed",
        "wrongly denied",
        "worst excess",
        "rate error",
        "bytes per key",
        "ns per decision",
    ];
    algorithms.iter().fold(Table::new(header), |table, one| {
        table.row([
            Cell::text(&one.name),
            Cell::number(grouped(one.allowed)),
            Cell::number(grouped(one.denied)),
            Cell::checked(grouped(one.wrongly_allowed), one.wrongly_allowed > 0),
            Cell::checked(grouped(one.wrongly_denied), one.wrongly_denied > 0),
            Cell::checked(grouped(one.worst_excess), one.worst_excess > 0),
            Cell::number(percent(one.mean_rate_error)),
            Cell::number(format!("{:.0}", one.bytes_per_key)),
            Cell::number(format!("{:.0}", one.nanos_per_decision)),
        ])
    })
}

fn what_if_table(report: &Report) -> Table {
    let header = ["limit", "denied", "share", "keys denied"];
    report.what_if.iter().fold(Table::new(header), |table, one| {
        table.row([
            Cell::text(one.quotas.join(" and ")),
            Cell::number(grouped(one.denied)),
            Cell::number(percent(one.denied_share)),
            Cell::number(grouped(one.keys_denied)),
        ])
    })
}

fn file_section(file: &FileReport, name: &str) -> Section {
    let header =
        ["rule", "limit", "mode", "requests", "denied", "would deny", "candidate", "keys denied"];
    let table = file.rules.iter().fold(Table::new(header), |table, rule| {
        table.row([
            Cell::text(&rule.name),
            Cell::text(rule.quotas.join(" and ")),
            Cell::text(&rule.mode),
            Cell::number(grouped(rule.requests)),
            Cell::checked(grouped(rule.denied), rule.denied > 0),
            Cell::number(grouped(rule.would_deny)),
            Cell::number(grouped(rule.candidate_denied)),
            Cell::number(grouped(rule.keys_denied)),
        ])
    });
    let text = format!(
        "{}: {} requests allowed, {} denied ({}). {} match no rule.",
        file.file,
        grouped(file.allowed),
        grouped(file.denied),
        percent(file.denied_share),
        grouped(file.unlimited)
    );
    Section::new(name).text(&text).table(&table)
}

fn hits_section(title: &str, hits: &[HitKey]) -> Section {
    let mut rows = Rows::new("When").x(Axis::time()).explain("denied", Color::Denied);
    let mut table = Table::new(["key", "denied", "first", "last"]);
    for hit in hits {
        table = table.row([
            Cell::text(&*hit.key),
            Cell::number(grouped(hit.denied)),
            Cell::text(crate::read::format_time(hit.first_ms)),
            Cell::text(crate::read::format_time(hit.last_ms)),
        ]);
    }
    for hit in hits.iter().take(HITS_DRAWN) {
        let spans = hit.periods().into_iter().map(|period| Span {
            from: to_float(period.from_ms),
            until: to_float(period.until_ms),
            color: Color::Denied,
            strength: 0.7,
        });
        rows = rows.row(Row {
            name: hit.key.to_string(),
            note: format!("{} denied", grouped(hit.denied)),
            events: Vec::new(),
            spans: spans.collect(),
        });
    }
    Section::new(title).figure(&rows).table(&table)
}
