//! Every plot and page is well-formed, whatever its values and names are.

use proptest::prelude::*;
use roxmltree::Document;
use slidegate_plot::{
    Axis, BarChart, Cell, Chart, Color, Event, Layout, Mark, Page, Plot, Row, STYLE, Section,
    Series, Shape, Span, Table, Timeline, Unit,
};

const HOSTILE: &str = "</text><img src=x onerror=\"alert('1')\">&\0\u{1b}[2J\u{202e}";

#[expect(clippy::panic, reason = "a helper of tests shows the document that is wrong")]
fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let all = document.descendants().filter(|node| node.has_tag_name("text"));
    all.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

fn sizes() -> [Layout; 3] {
    [Layout::WIDE, Layout::NARROW.with_title(), Layout::WIDE.size(0, u32::MAX).without_legend()]
}

fn plots(name: &str, values: &[f64]) -> Vec<Box<dyn Plot>> {
    let points = || values.iter().map(|value| (*value, *value));
    let shapes =
        [Shape::Line, Shape::Step, Shape::Area, Shape::StepArea, Shape::Bars(2.0), Shape::Dots];
    let series = |place: u8| {
        Series::new(name, Color::Series(place), shapes[usize::from(place) % 6], points())
    };
    let all: Vec<Series> = (0..40).map(series).collect();
    let axes = [
        Axis::time(),
        Axis::percentile(),
        Axis::new(Unit::Seconds).log().label(name),
        Axis::new(Unit::Bytes).from(2.0).until(-1.0),
        Axis::new(Unit::Share).from(f64::NAN).until(f64::INFINITY),
    ];
    let mut plots: Vec<Box<dyn Plot>> = Vec::new();
    for axis in &axes {
        let mut chart =
            Chart::new(name).x(axis.clone()).y(axis.clone()).all(Series::stack(all.clone()));
        for value in values {
            chart = chart.mark(Mark::horizontal(*value, name, Color::Denied)).mark(Mark::vertical(
                *value,
                name,
                Color::Shadow,
            ));
        }
        plots.push(Box::new(chart));
        let events =
            values.iter().map(|value| Event { at: *value, color: Color::Denied }).collect();
        let spans = values
            .iter()
            .map(|value| Span { from: *value, until: 0.0, color: Color::Shadow, strength: *value })
            .collect();
        let row = Row { name: name.to_owned(), note: name.to_owned(), events, spans };
        let timeline = Timeline::new(name).x(axis.clone()).row(row).explain(name, Color::Allowed);
        plots.push(Box::new(timeline.mark(
            values.first().copied().unwrap_or(0.0),
            name,
            Color::Text,
        )));
    }
    let bars =
        BarChart::new(name, Unit::Seconds).group(name, Color::Allowed).group(name, Color::Denied);
    plots.push(Box::new(bars.row(name, values.iter().copied())));
    plots
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -1e4..1e4,
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(0.0),
        Just(f64::MAX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_values_and_names_give_a_well_formed_drawing(
        name in any::<String>(),
        values in prop::collection::vec(any_value(), 0..6),
    ) {
        for plot in plots(&name, &values) {
            for layout in sizes() {
                texts(&plot.to_svg(&layout));
                texts(&plot.to_file(&layout));
            }
        }
    }
}

#[test]
fn hostile_names_are_text() {
    for plot in plots(HOSTILE, &[1.0, 2.0, 3.0]) {
        let svg = plot.to_file(&Layout::WIDE);
        assert!(!svg.contains("<img"), "{svg}");
        assert!(texts(&svg).iter().any(|text| text.starts_with("</text><img src=x")), "{svg}");
    }
}

#[test]
fn empty_plots_say_so() {
    let plots: [Box<dyn Plot>; 4] = [
        Box::new(Chart::new("empty")),
        Box::new(Chart::new("empty").series(Series::line("a", Color::Allowed, [(0.0, f64::NAN)]))),
        Box::new(BarChart::new("empty", Unit::Count)),
        Box::new(Timeline::new("empty")),
    ];
    for plot in plots {
        assert!(texts(&plot.to_svg(&Layout::WIDE)).contains(&"No data".to_owned()));
    }
}

#[test]
fn charts_have_title_units_legend_and_times() {
    let start = 1_700_000_000_000.0;
    let points = (0..60).map(|second| (start + f64::from(second) * 1000.0, f64::from(second)));
    let chart = Chart::new("Decisions")
        .x(Axis::time().label("UTC"))
        .y(Axis::new(Unit::Count).label("per second"))
        .series(Series::area("allowed", Color::Allowed, points))
        .mark(Mark::horizontal(50.0, "limit", Color::Denied));
    let texts = texts(&chart.to_svg(&Layout::WIDE.with_title()));
    for expected in ["Decisions", "UTC", "per second", "allowed", "limit", "22:13:30", "0", "60"] {
        assert!(texts.contains(&expected.to_owned()), "{expected}: {texts:?}");
    }
}

#[test]
fn long_series_are_reduced() {
    let points = (0..1_000_000).map(|place| (f64::from(place), f64::from(place % 1000)));
    let svg =
        Chart::new("long").series(Series::area("a", Color::Allowed, points)).to_svg(&Layout::WIDE);
    assert!(svg.len() < 60_000, "{}", svg.len());
}

#[test]
fn colors_are_variables_and_files_define_them() {
    let chart = Chart::new("a").series(Series::line("a", Color::Denied, [(0.0, 1.0), (1.0, 2.0)]));
    let svg = chart.to_svg(&Layout::WIDE);
    assert!(svg.contains("stroke=\"var(--plot-denied,#d2382f)\""), "{svg}");
    // A strict content security policy refuses style elements and attributes.
    assert!(!svg.contains("style"), "{svg}");
    assert!(!svg.contains("\"#"), "a color that is not a variable: {svg}");
    let file = chart.to_file(&Layout::WIDE);
    assert!(file.contains("--plot-denied:#ff7b70"), "{file}");
    assert!(STYLE.contains("--plot-denied:light-dark(#d2382f,#ff7b70)"));
}

#[test]
fn pages_escape_everything_and_load_nothing() {
    let table = Table::new([HOSTILE, "count"])
        .caption(HOSTILE)
        .row([Cell::text(HOSTILE), Cell::number(HOSTILE)])
        .row([Cell::text("b"), Cell::checked(HOSTILE, true)]);
    let section =
        Section::new(HOSTILE).text(HOSTILE).code(HOSTILE).table(&table).figure(
            &BarChart::new(HOSTILE, Unit::Count).group("a", Color::Denied).row(HOSTILE, [1.0]),
        );
    let html = Page::new(HOSTILE)
        .lead(HOSTILE)
        .fact(HOSTILE, HOSTILE)
        .warning("late", HOSTILE)
        .section(section)
        .footer(HOSTILE)
        .to_html();
    assert!(!html.contains("<img") && !html.contains("<script"));
    assert!(
        !html.contains("http:")
            || html.matches("http:").count() == html.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!html.contains("https:") && !html.contains("url("));
    // The head has elements without an end; the rest is XML.
    let body = &html[html.find("<body>").unwrap()..html.find("</html>").unwrap()];
    let document = Document::parse(body).unwrap();
    let heading = document.descendants().find(|node| node.has_tag_name("h1")).unwrap();
    assert!(heading.text().unwrap().starts_with("</text><img src=x onerror="));
}
