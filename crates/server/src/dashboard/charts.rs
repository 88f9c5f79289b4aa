//! The charts of the page.

use core::time::Duration;

use slidegate::{Event, Quota};
use slidegate_plot::{Axis, Chart, Color, Layout, Mark, Plot, Series, Unit};

use super::history::{History, PERCENTILES, Rates};

/// Points that a chart averages into one pixel or so.
const POINTS_MAX: usize = 300;
/// Events of a key that are drawn one by one.
const EVENTS_MAX: usize = 2000;
/// Steps in which more events are drawn, about two for each pixel of two windows.
const STEPS: f64 = 1200.0;
/// The height of the charts of all requests, in pixels.
const HEIGHT: u32 = 220;

/// The time zone of the reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Zone {
    east_minutes: i32,
}

impl Zone {
    /// A zone that is ahead of UTC by some minutes. Zones that do not exist become UTC.
    pub(super) fn new(east_minutes: i32) -> Self {
        let is_possible = (-16 * 60..=16 * 60).contains(&east_minutes);
        Self { east_minutes: if is_possible { east_minutes } else { 0 } }
    }

    /// Returns a time of the axis, which shows UTC, for milliseconds since the Unix epoch.
    fn time(self, millis: f64) -> f64 {
        millis + f64::from(self.east_minutes) * 60_000.0
    }
}

/// Draws the requests per second of all policies, or of one.
pub(super) fn requests(history: &History, rates: &Rates, width: u32, zone: Zone) -> String {
    let skip = history.times().len().saturating_sub(rates.seconds().len());
    let seconds: Vec<(u64, [u32; 3])> =
        history.times().skip(skip).zip(rates.seconds().copied()).collect();
    let series = |name: &str, color, index: usize| {
        let points = parts(history, &seconds).map(|part| {
            let sum: f64 = part.iter().map(|(_, second)| f64::from(second[index])).sum();
            #[expect(clippy::cast_precision_loss, reason = "it is at most 900")]
            let mean = sum / part.len() as f64;
            (zone.time(millis(part[0].0)), mean)
        });
        Series::area(name, color, points)
    };
    let stacked = Series::stack(vec![
        series("allowed", Color::Allowed, 0),
        series("would be denied", Color::Shadow, 2),
        series("denied", Color::Denied, 1),
    ]);
    let mut chart = Chart::new("Requests per second")
        .x(time_axis(history, zone))
        .y(Axis::new(Unit::Count).from(0.0));
    for series in stacked {
        chart = chart.series(series);
    }
    chart.to_svg(&layout(width))
}

/// Draws the percentiles of the time to decide.
pub(super) fn latency(history: &History, width: u32, zone: Zone) -> String {
    let mut chart =
        Chart::new("Time to decide").x(time_axis(history, zone)).y(Axis::new(Unit::Seconds).log());
    let seconds: Vec<_> = history.times().zip(history.latencies()).collect();
    for (index, (name, _)) in PERCENTILES.into_iter().enumerate() {
        let points = parts(history, &seconds).map(|part| {
            // The maximum, so that no spike is lost.
            let most = part.iter().filter_map(|(_, latency)| latency[index]).max();
            let seconds = most.map_or(f64::NAN, |nanos| Duration::from_nanos(nanos).as_secs_f64());
            (zone.time(millis(part[0].0)), seconds)
        });
        let color = Color::Series(u8::try_from(index).unwrap_or(0));
        chart = chart.series(Series::line(name, color, points));
    }
    chart.to_svg(&layout(width))
}

/// Returns the times of events of the last two windows in milliseconds since the Unix epoch, and their
/// units. Of a longer list, those within a fraction of a pixel are one.
fn merged(events: &[Event], window: f64) -> Vec<(f64, u64)> {
    let step = if events.len() <= EVENTS_MAX { 0.0 } else { 2.0 * window / STEPS };
    let mut merged: Vec<(f64, u64)> = Vec::new();
    for Event { at, units, .. } in events {
        let at = at.as_secs_f64() * 1000.0;
        match merged.last_mut() {
            Some((first, sum)) if at < *first + step => *sum = sum.saturating_add(*units),
            _ => merged.push((at, *units)),
        }
    }
    merged
}

/// Draws the units of a key that count at each time of its window, and the limit. `events` are in
/// order, oldest first.
pub(super) fn window(quota: &Quota, events: &[Event], now: f64, width: u32, zone: Zone) -> String {
    let now = zone.time(now);
    #[expect(clippy::cast_precision_loss, reason = "a chart needs few digits")]
    let as_float = |value: u64| value as f64;
    let window = quota.window().as_secs_f64() * 1000.0;
    let mut changes: Vec<(f64, f64)> = Vec::new();
    let begin = Duration::from_secs_f64((now - zone.time(0.0) - 2.0 * window).max(0.0) / 1000.0);
    let counted = &events[events.partition_point(|event| event.at < begin)..];
    let counted = merged(counted, window).into_iter();
    for (at, units) in counted.map(|(at, units)| (zone.time(at), units)) {
        changes.push((at, as_float(units)));
        changes.push((at + window, -as_float(units)));
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
    let (limit, peak) =
        (as_float(quota.limit()), past.iter().map(|(_, used)| *used).fold(0.0, f64::max));
    // Far below the limit, the limit would make the units invisible.
    let is_far = peak * 5.0 < limit;
    let top = if is_far { peak.max(2.0) * 1.5 } else { limit.max(peak) * 1.15 };
    let unit = if is_far {
        format!("units in the window, limit {}", quota.limit())
    } else {
        "units in the window".to_owned()
    };
    let mut chart = Chart::new("Units that count, and when they are released")
        .x(Axis::time().from(now - window).until(now + window))
        .y(Axis::new(Unit::Count).from(0.0).until(top).label(unit))
        .series(Series::new("counted", Color::Allowed, slidegate_plot::Shape::StepArea, past))
        .series(future);
    if !is_far {
        chart =
            chart.mark(Mark::horizontal(limit, format!("limit {}", quota.limit()), Color::Denied));
    }
    chart
        .mark(Mark::vertical(now, "now", Color::Muted))
        .to_svg(&Layout::WIDE.size(width.clamp(280, 1200), 220))
}

fn layout(width: u32) -> Layout {
    Layout::WIDE.size(width.clamp(280, 1600), HEIGHT)
}

/// Divides the seconds of a chart into the parts of its points. They are aligned to the clock, so that
/// points do not flicker from second to second.
fn parts<'a, T>(
    history: &History,
    seconds: &'a [(u64, T)],
) -> impl Iterator<Item = &'a [(u64, T)]> {
    let width =
        1000 * u64::try_from(history.times().len().div_ceil(POINTS_MAX)).unwrap_or(1).max(1);
    seconds.chunk_by(move |(one, _), (other, _)| one / width == other / width)
}

/// The last 15 minutes, also while there are fewer seconds.
fn time_axis(history: &History, zone: Zone) -> Axis {
    let Some(last) = history.times().last() else { return Axis::time() };
    let last = zone.time(millis(last));
    Axis::time().from(last - 900_000.0).until(last)
}

/// Milliseconds since the Unix epoch as a number of an axis.
pub(super) fn millis(millis: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "exact until the year 287396")]
    let millis = millis as f64;
    millis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(count: u64) -> Vec<Event> {
        let at = |index| Duration::from_secs(1_700_000_000) + Duration::from_millis(index);
        (0..count).map(|index| Event::new(at(index), 2)).collect()
    }

    #[test]
    fn a_long_list_of_events_is_drawn_in_a_bounded_number_of_steps() {
        let window = 1_000_000.0;
        assert_eq!(merged(&events(2000), window).len(), 2000);
        let long = merged(&events(1_000_000), window);
        assert!(long.len() <= 1201, "{}", long.len());
        assert_eq!(long.iter().map(|(_, units)| units).sum::<u64>(), 2_000_000);
        assert!(long.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
