//! Tests of `statistics`.

use super::*;

fn noted(used: u64, hits: u64, is_over: bool) -> [u64; 4] {
    let counts = HitCounts::default();
    counts.note(used, hits, 10, 8, is_over);
    let HitCounts { total_hits, over_limit, near_limit, within_limit, .. } = &counts;
    [total_hits.get(), over_limit.get(), near_limit.get(), within_limit.get()]
}

#[test]
fn hits_are_split_at_the_thresholds() {
    assert_eq!(noted(0, 5, false), [5, 0, 0, 5]);
    assert_eq!(noted(7, 1, false), [1, 0, 0, 1]);
    assert_eq!(noted(7, 2, false), [2, 0, 1, 2]);
    assert_eq!(noted(8, 2, false), [2, 0, 2, 2]);
    assert_eq!(noted(0, 10, false), [10, 0, 2, 10]);
    assert_eq!(noted(10, 3, true), [3, 3, 0, 0]);
    assert_eq!(noted(9, 3, true), [3, 2, 1, 0]);
    assert_eq!(noted(5, 20, true), [20, 15, 2, 0]);
}

#[test]
fn client_series_are_bounded_in_number_and_length() {
    let statistics = DomainStatistics::new("d");
    for number in 0..2 * SEEN_MAX {
        statistics.seen(&format!("d.key_{number}")).total_hits.add(1);
    }
    statistics.seen(&"x".repeat(SEEN_LEN_MAX + 1)).total_hits.add(1);
    let series = statistics.series();
    assert_eq!(series.len(), SEEN_MAX + 1);
    let other = series.iter().find(|(name, _)| name == "d.other").unwrap();
    assert_eq!(other.1.total_hits.get(), SEEN_MAX as u64 + 1);
    // Known series still have their own counts.
    statistics.seen("d.key_0").total_hits.add(1);
    assert_eq!(statistics.seen("d.key_0").total_hits.get(), 2);
}

#[test]
fn names_are_unique() {
    let statistics = DomainStatistics::new("d");
    statistics.seen("d.late").total_hits.add(1);
    assert_eq!(statistics.configured("d.late").total_hits.get(), 1);
    statistics.seen("d.late").total_hits.add(1);
    statistics.configured("d.other").total_hits.add(1);
    statistics.seen(&"x".repeat(SEEN_LEN_MAX + 1)).total_hits.add(1);
    let series = statistics.series();
    let counted: Vec<_> =
        series.iter().map(|(name, counts)| (name.as_str(), counts.total_hits.get())).collect();
    assert_eq!(counted, [("d.late", 2), ("d.other", 2)]);
}
