//! The chart of allowed requests in the sliding window, which shows at a glance whether a limit holds.

use core::time::Duration;
use std::collections::HashMap;

use slidegate_plot::{Axis, Chart, Color, Layout, Mark, Plot, Series, Unit};

use super::Report;
use crate::number::to_float;
use crate::replay::SingleRequest;

/// Returns the chart as an SVG file, or `None` if there are too many requests to draw each of them.
pub fn window_to_svg(report: &Report) -> Option<String> {
    window_chart(report).map(|chart| chart.to_file(&Layout::WIDE))
}

/// Draws, for the key with the most requests, how many were allowed within the last window.
pub(super) fn window_chart(report: &Report) -> Option<Chart> {
    let quota = report.first_quota?;
    let window_ms = u64::try_from(quota.window().as_millis()).unwrap_or(u64::MAX);
    let requests = of_busiest_key(&report.singles);
    let (first, last) = (requests.first()?.at_ms, requests.last()?.at_ms);
    let window = format!("any {}", in_words(quota.window()));
    let limit = to_float(quota.limit());
    let chart = Chart::new(format!("Requests of one key that were allowed within {window}"))
        .x(Axis::time())
        .y(Axis::new(Unit::Count).label(format!("allowed within {window}")))
        .mark(Mark::horizontal(limit, format!("limit {}", quota.limit()), Color::Muted));
    let names = report.algorithms.iter().map(|algorithm| algorithm.name.as_str()).enumerate();
    let series = names.map(|(lane, name)| {
        let allowed = requests.iter().filter(|request| request.denied_by & (1 << lane) == 0);
        let times: Vec<u64> = allowed.map(|request| request.at_ms).collect();
        Series::step(name, color(name, lane), counts(&times, window_ms, first, last))
    });
    Some(chart.all(series))
}

/// The two algorithms of the usual comparison have the colors that say which one is right.
fn color(name: &str, lane: usize) -> Color {
    match name {
        "log" => Color::Allowed,
        "fixed" => Color::Denied,
        _ => Color::Series(u8::try_from(lane % 8).unwrap_or(0)),
    }
}

fn of_busiest_key(all: &[SingleRequest]) -> Vec<SingleRequest> {
    let mut requests: HashMap<u64, u32> = HashMap::new();
    for single in all {
        *requests.entry(single.fingerprint).or_default() += 1;
    }
    // The hash decides among equally busy keys, so that the same input gives the same picture.
    let busiest = requests.into_iter().max_by_key(|&(key, count)| (count, key)).map(|(key, _)| key);
    all.iter().filter(|single| Some(single.fingerprint) == busiest).copied().collect()
}

/// Returns the number of requests in the window that ends at each time at which it changes.
fn counts(allowed: &[u64], window_ms: u64, first: u64, last: u64) -> Vec<(f64, f64)> {
    let until = last.saturating_add(window_ms.min(last.saturating_sub(first) / 4));
    let starts = allowed.iter().map(|&at| (at, 1_i64));
    let ends = allowed.iter().map(|&at| (at.saturating_add(window_ms), -1));
    let mut changes: Vec<(u64, i64)> = starts.chain(ends).filter(|&(at, _)| at <= until).collect();
    // At the same time, a request leaves the window before another one enters it.
    changes.sort_unstable();
    let mut points: Vec<(u64, i64)> = vec![(first, 0)];
    let mut count = 0;
    for (at, change) in changes {
        count += change;
        points.push((at, count));
    }
    points.push((until, count));
    points.dedup_by(|next, point| {
        let is_same_time = next.0 == point.0;
        if is_same_time {
            point.1 = next.1;
        }
        is_same_time
    });
    points.into_iter().map(|(at, count)| (to_float(at), to_float(count.unsigned_abs()))).collect()
}

fn in_words(window: Duration) -> String {
    match window.as_secs() {
        60 => "minute".to_owned(),
        3600 => "hour".to_owned(),
        seconds if window.subsec_nanos() == 0 => format!("{seconds} s"),
        _ => format!("{window:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_window() {
        // Two requests at 10 and one at 15, in a window of 20.
        let points = counts(&[10, 10, 15], 20, 10, 50);
        assert_eq!(points, [(10.0, 2.0), (15.0, 3.0), (30.0, 1.0), (35.0, 0.0), (60.0, 0.0)]);
    }

    #[test]
    fn a_request_that_leaves_and_one_that_enters_at_the_same_time_are_not_both_counted() {
        let points = counts(&[0, 20], 20, 0, 40);
        assert!(points.iter().all(|&(_, count)| count <= 1.0), "{points:?}");
    }

    #[test]
    fn the_busiest_key_is_drawn() {
        let single = |at_ms, fingerprint| SingleRequest { at_ms, fingerprint, denied_by: 0 };
        let requests = of_busiest_key(&[single(1, 7), single(2, 8), single(3, 8)]);
        assert_eq!(requests, [single(2, 8), single(3, 8)]);
    }
}
