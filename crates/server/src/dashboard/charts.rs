//! The charts of the page.

use core::time::Duration;

use slidegate::Quota;
use slidegate_plot::{Axis, Chart, Color, Layout, Mark, Plot, Series, Unit};

use super::history::{History, PERCENTILES, Rates};

/// Points that a chart averages into one pixel or so.
const POINTS_MAX: usize = 300;

/// Draws the requests per second of all policies, or of one.
pub(super) fn requests(history: &History, rates: &Rates, width: u32) -> String {
    let width_of_point = history.times().len().div_ceil(POINTS_MAX).max(1);
    let skip = history.times().len().saturating_sub(rates.seconds().len());
    let seconds: Vec<(u64, [u32; 3])> =
        history.times().skip(skip).zip(rates.seconds().copied()).collect();
    let series = |name: &str, color, index: usize| {
        // Aligned to the clock, so that points do not flicker from second to second.
        let parts = seconds.chunk_by(|(one, _), (other, _)| {
            part_of(*one, width_of_point) == part_of(*other, width_of_point)
        });
        let points = parts.map(|part| {
            let sum: f64 = part.iter().map(|(_, second)| f64::from(second[index])).sum();
            #[expect(clippy::cast_precision_loss, reason = "it is at most 900")]
            let mean = sum / part.len() as f64;
            (time(part[0].0), mean)
        });
        Series::area(name, color, points)
    };
    let stacked = Series::stack(vec![
        series("allowed", Color::Allowed, 0),
        series("would be denied", Color::Shadow, 2),
        series("denied", Color::Denied, 1),
    ]);
    let mut chart =
        Chart::new("Requests per second")
            .x(time_axis(history))
            .y(Axis::new(Unit::Count).from(0.0).label("requests per second"));
    for series in stacked {
        chart = chart.series(series);
    }
    chart.to_svg(&layout(width))
}

/// Draws the percentiles of the time to decide.
pub(super) fn latency(history: &History, width: u32) -> String {
    let mut chart = Chart::new("Time to decide")
        .x(time_axis(history))
        .y(Axis::new(Unit::Seconds).log().label("time to decide"));
    let step = history.times().len().div_ceil(POINTS_MAX).max(1);
    for (index, (name, _)) in PERCENTILES.into_iter().enumerate() {
        let points = history.times().zip(history.latencies()).step_by(step).map(|(at, latency)| {
            let seconds =
                latency[index].map_or(f64::NAN, |nanos| Duration::from_nanos(nanos).as_secs_f64());
            (time(at), seconds)
        });
        let color = Color::Series(u8::try_from(index).unwrap_or(0));
        chart = chart.series(Series::line(name, color, points));
    }
    chart.to_svg(&layout(width))
}

/// Draws the units of a key that count at each time of its window, and the limit.
///
/// `events` are times in milliseconds since the Unix epoch with units, oldest first.
pub(super) fn window(quota: &Quota, events: &[(f64, u64)], now: f64, width: u32) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a chart needs few digits")]
    let as_float = |value: u64| value as f64;
    let window = quota.window().as_secs_f64() * 1000.0;
    let mut changes: Vec<(f64, f64)> = Vec::new();
    for (at, units) in events.iter().filter(|(at, _)| at + window >= now - window) {
        changes.push((*at, as_float(*units)));
        changes.push((at + window, -as_float(*units)));
    }
    changes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut used = 0.0;
    let (mut past, mut future) = (vec![(now - window, 0.0)], Vec::new());
    for (at, change) in changes {
        used += change;
        if at <= now { &mut past } else { &mut future }.push((at, used));
    }
    let now_used = past.last().map_or(0.0, |last| last.1);
    past.push((now, now_used));
    future.insert(0, (now, now_used));
    let last = future.last().map_or(0.0, |last| last.1);
    future.push((now + window, last));
    let future =
        Series::new("released later", Color::Series(7), slidegate_plot::Shape::StepArea, future);
    Chart::new("Units that count, and when they are released")
        .x(Axis::time().from(now - window).until(now + window))
        .y(Axis::new(Unit::Count)
            .from(0.0)
            .until(as_float(quota.limit()) * 1.15)
            .label("units in the window"))
        .series(Series::new("counted", Color::Allowed, slidegate_plot::Shape::StepArea, past))
        .series(future)
        .mark(Mark::horizontal(
            as_float(quota.limit()),
            format!("limit {}", quota.limit()),
            Color::Denied,
        ))
        .mark(Mark::vertical(now, "now", Color::Muted))
        .to_svg(&Layout::WIDE.size(width.clamp(280, 1200), 220))
}

fn layout(width: u32) -> Layout {
    let width = width.clamp(280, 1600);
    Layout::WIDE.size(width, if width < 480 { 200 } else { 240 })
}

fn part_of(at: u64, seconds: usize) -> u64 {
    at / 1000 / u64::try_from(seconds).unwrap_or(1).max(1)
}

/// The last 15 minutes, also while there are fewer seconds.
fn time_axis(history: &History) -> Axis {
    let Some(last) = history.times().last() else { return Axis::time() };
    Axis::time().from(time(last) - 900_000.0).until(time(last))
}

/// Milliseconds since the Unix epoch, for the time axis.
pub(super) fn time(millis: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "exact until the year 287396")]
    let millis = millis as f64;
    millis
}
