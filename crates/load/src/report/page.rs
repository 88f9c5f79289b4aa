//! The report as a page with plots.

use slidegate_plot::{Axis, Cell, Chart, Color, Mark, Page, Section, Series, Table, Unit};
use slidegate_sim::number::{to_float, to_whole};
use slidegate_sim::report::{grouped, percent};

use super::table::format_time;
use super::{Report, WrongReport};
use crate::audit::Fault;
use crate::record::Step;

/// The most wrong windows of the page.
const WINDOWS_SHOWN: usize = 20;

impl Report {
    /// Returns the report as one HTML file that loads nothing. `command` is shown at its end.
    pub fn to_html(&self, command: &str) -> String {
        let rate = |rate: f64| grouped(to_whole(rate.round()));
        let mut page = Page::new("Load on a rate limiter")
            .lead(format!(
                "{}: {} loop, {} connections, {}, {:.1} s",
                self.target, self.pace, self.connections, self.keys, self.seconds
            ))
            .fact("decisions per second", rate(self.achieved_rate));
        if let Some(requested) = self.requested_rate {
            page = page.fact("requested", rate(requested));
        }
        page = page
            .fact("p50", format_time(self.latency.p50))
            .fact("p99", format_time(self.latency.p99))
            .fact("denied", percent(self.denied_share));
        if self.failed + self.unsent > 0 {
            page = page.warning("without a decision", grouped(self.failed + self.unsent));
        }
        page = match &self.wrong {
            Some(wrong) if self.has_wrong_decisions() => {
                page.warning("wrong windows", grouped(wrong.windows_over + wrong.windows_under))
            }
            Some(_) => page.fact("wrong windows", "0"),
            None => page,
        };
        page = page.section(self.latency_section()).section(self.time_section());
        if let Some(wrong) = &self.wrong {
            page = page.section(wrong.section());
        }
        if !self.failures.is_empty() {
            let table = self.failures.iter().fold(
                Table::new(["kind", "requests", "the first"]),
                |table, (kind, failure)| {
                    table.row([
                        Cell::text(kind),
                        Cell::number(grouped(failure.count)),
                        Cell::text(&failure.first),
                    ])
                },
            );
            page = page.section(Section::new("Requests without a decision").table(&table));
        }
        page.footer(command).to_html()
    }

    fn latency_section(&self) -> Section {
        let [latency, service] = &self.curves;
        let mut chart = Chart::new("Latency by percentile")
            .x(Axis::percentile())
            .y(Axis::new(Unit::Seconds).log().label("time per request"))
            .series(Series::line("latency", Color::Series(0), latency.iter().copied()));
        let mut section = Section::new("Latency");
        if self.requested_rate.is_some() {
            chart = chart.series(Series::line(
                "service time",
                Color::Series(1),
                service.iter().copied(),
            ));
            section = section.text(
                "Latency is measured from the time at which a request was due, service time from the time at \
                 which it was sent.",
            );
        }
        if self.unsent > 0 {
            section = section.text(&format!(
                "{} requests were due and not sent, and are not in these times.",
                grouped(self.unsent)
            ));
        }
        let names = self.latency.named().map(|(name, _)| name);
        let row = |name: &str, values: &super::Latencies| {
            let cells = values.named().map(|(_, seconds)| Cell::number(format_time(seconds)));
            core::iter::once(Cell::text(name)).chain(cells).collect::<Vec<_>>()
        };
        let mut table =
            Table::new(core::iter::once("time").chain(names)).row(row("latency", &self.latency));
        if self.requested_rate.is_some() {
            table = table.row(row("service time", &self.service_time));
        }
        section.figure(&chart).table(&table)
    }

    fn time_section(&self) -> Section {
        let points = |value: &dyn Fn(&Step) -> f64| {
            let steps = self.steps.iter().enumerate();
            steps
                .map(|(place, step)| (to_float(place as u64) * self.step_seconds, value(step)))
                .collect::<Vec<_>>()
        };
        let rate = |count: u64| to_float(count) / self.step_seconds;
        let seconds = |step: &Step, nanos: u64| {
            if step.max_ns == 0 { f64::NAN } else { to_float(nanos) / 1e9 }
        };
        let mut series = vec![
            Series::area("allowed", Color::Allowed, points(&|step| rate(step.allowed))),
            Series::area("denied", Color::Denied, points(&|step| rate(step.denied))),
        ];
        if self.failed > 0 {
            let failed = points(&|step| rate(step.failed));
            series.push(Series::area("without a decision", Color::Shadow, failed));
        }
        let mut decisions = Chart::new("Decisions over time")
            .x(Axis::new(Unit::Seconds).label("time"))
            .y(Axis::new(Unit::Count).label("requests per second").from(0.0))
            .all(Series::stack(series));
        if let Some(requested) = self.requested_rate {
            decisions = decisions.mark(Mark::horizontal(requested, "requested", Color::Muted));
        }
        let line = |name: &str, color: u8, value: &dyn Fn(&Step) -> u64| {
            Series::line(name, Color::Series(color), points(&|step| seconds(step, value(step))))
        };
        let latencies = Chart::new("Latency over time")
            .x(Axis::new(Unit::Seconds).label("time"))
            .y(Axis::new(Unit::Seconds).log().label("time per request"))
            .series(line("p50", 0, &|step| step.p50_ns))
            .series(line("p99", 1, &|step| step.p99_ns))
            .series(line("max", 2, &|step| step.max_ns));
        Section::new("Over time").figure(&decisions).figure(&latencies)
    }
}

impl WrongReport {
    fn section(&self) -> Section {
        let section = Section::new("Wrong decisions").text(&format!(
            "Under {}, in the windows of {} keys: {} surely had more allowed requests than the limit ({} requests \
             wrongly allowed), and in {} a request was denied although surely fewer had passed ({} wrongly denied).",
            self.quotas.join(", "),
            grouped(self.keys),
            grouped(self.windows_over),
            grouped(self.wrongly_allowed),
            grouped(self.windows_under),
            grouped(self.wrongly_denied)
        ));
        if self.windows.is_empty() {
            return section;
        }
        let table = self.windows.iter().take(WINDOWS_SHOWN).fold(
            Table::new(["key", "passed", "limit", "from", "until"])
                .caption("Windows that are the furthest from their limit"),
            |table, window| {
                let passed = match window.fault {
                    Fault::Over => format!("at least {}", grouped(window.units)),
                    Fault::Under => format!("at most {}", grouped(window.units)),
                };
                table.row([
                    Cell::text(window.key.to_string()),
                    Cell::checked(passed, true),
                    Cell::number(grouped(window.limit)),
                    Cell::number(format!("{:.3} s", window.from.max(0.0))),
                    Cell::number(format!("{:.3} s", window.until)),
                ])
            },
        );
        section.table(&table)
    }
}
