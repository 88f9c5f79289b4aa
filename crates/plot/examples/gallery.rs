//! Writes a page with every kind of plot to standard output, to look at after a change.
//!
//! ```sh
//! cargo run -p slidegate-plot --example gallery > gallery.html
//! ```

use std::io::{self, Write};

use slidegate_plot::{
    Axis, BarChart, Cell, Chart, Color, Event, Mark, Page, Row, Section, Series, Shape, Span,
    Table, Timeline, Unit,
};

const START: f64 = 1_700_000_000_000.0;

fn main() -> io::Result<()> {
    let page = Page::new("Gallery of plots")
        .lead("Every kind of plot, in light and dark, wide and narrow.")
        .fact("requests", "120,000")
        .fact("keys", "1,024")
        .warning("denied", "4.20 %")
        .section(Section::new("Over time").figure(&stacked()).figure(&window()))
        .section(
            Section::new("Numbers").figure(&percentiles()).figure(&histogram()).figure(&bars()),
        )
        .section(Section::new("Events").figure(&timeline()).figure(&Chart::new("Without values")))
        .section(
            Section::new("Text")
                .table(&table())
                .code("policies:\n  - name: api\n    quota: 10/minute\n"),
        )
        .footer("cargo run -p slidegate-plot --example gallery");
    io::stdout().write_all(page.to_html().as_bytes())
}

fn seconds(count: u32) -> impl Iterator<Item = (f64, f64)> {
    (0..count).map(|second| (f64::from(second), START + f64::from(second) * 1000.0))
}

fn stacked() -> Chart {
    let series = |name: &str, color, height: f64, wave: f64| {
        let points = seconds(900).map(move |(place, at)| {
            (at, height * (1.2 + (place / wave).sin() + 0.1 * (place * 7.0).sin()))
        });
        Series::new(name, color, Shape::Area, points)
    };
    let all = vec![
        series("allowed", Color::Allowed, 400.0, 90.0),
        series("denied", Color::Denied, 120.0, 40.0),
        series("would be denied", Color::Shadow, 60.0, 120.0),
    ];
    Chart::new("Decisions")
        .x(Axis::time())
        .y(Axis::new(Unit::Count).label("requests per second"))
        .all(Series::stack(all))
        .mark(Mark::vertical(START + 400_000.0, "reload", Color::Muted))
}

fn window() -> Chart {
    let points = seconds(60).map(|(place, at)| (at, f64::from(10_u8) * (place / 20.0).sin().abs()));
    Chart::new("Requests in the last minute")
        .x(Axis::time())
        .y(Axis::new(Unit::Count))
        .series(Series::new("log", Color::Series(0), Shape::StepArea, points))
        .mark(Mark::horizontal(10.0, "limit", Color::Denied))
}

fn percentiles() -> Chart {
    let places = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999];
    let series = |name: &str, color, base: f64, tail: f64| {
        let latency = move |place: f64| base * (1.0 - place / 100.0).max(1e-5).powf(-tail);
        Series::line(name, color, places.map(|place| (place, latency(place))))
    };
    Chart::new("Latency")
        .x(Axis::percentile())
        .y(Axis::new(Unit::Seconds).log().label("time per request"))
        .series(series("gRPC", Color::Series(0), 90e-6, 0.3))
        .series(series("HTTP", Color::Series(1), 60e-6, 0.45))
        .series(series("RESP", Color::Series(2), 30e-6, 0.5))
}

fn histogram() -> Chart {
    let bars = (0..40).map(|place: u32| {
        let place = f64::from(place);
        (place * 0.0005, 50_000.0 * (-((place - 12.0) / 6.0).powi(2)).exp())
    });
    Chart::new("Histogram")
        .x(Axis::new(Unit::Seconds).label("latency"))
        .y(Axis::new(Unit::Count).label("requests"))
        .series(Series::new("", Color::Series(2), Shape::Bars(0.00045), bars))
}

fn bars() -> BarChart {
    BarChart::new("Wrong decisions", Unit::Count)
        .group("wrongly allowed", Color::Denied)
        .group("wrongly denied", Color::Shadow)
        .row("log", [0.0, 0.0])
        .row("counter", [77_287.0, 10_577.0])
        .row("segments: 10", [0.0, 137_714.0])
        .row("fixed", [132_201.0, 0.0])
}

fn timeline() -> Timeline {
    let row = |place: u32| {
        let offset = f64::from(place) * 3000.0;
        let color =
            |number: u32| if number.is_multiple_of(4) { Color::Denied } else { Color::Allowed };
        Row {
            name: format!("192.0.2.{place}"),
            note: format!("{} denied", 6 - place),
            events: (0..24)
                .map(|number| Event {
                    at: START + offset + f64::from(number * number) * 100.0,
                    color: color(number),
                })
                .collect(),
            spans: vec![Span {
                from: START + offset,
                until: START + offset + 20_000.0,
                color: Color::Shadow,
                strength: 0.2,
            }],
        }
    };
    (0..5)
        .fold(Timeline::new("Denied keys"), |timeline, place| timeline.row(row(place)))
        .mark(START + 30_000.0, "window", Color::Muted)
        .explain("allowed", Color::Allowed)
        .explain("denied", Color::Denied)
}

fn table() -> Table {
    Table::new(["algorithm", "allowed", "denied", "wrong"])
        .row([
            Cell::text("log"),
            Cell::number("9,200"),
            Cell::number("800"),
            Cell::checked("0", false),
        ])
        .row([
            Cell::text("fixed"),
            Cell::number("9,500"),
            Cell::number("500"),
            Cell::checked("300", true),
        ])
}
