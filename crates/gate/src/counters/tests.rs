//! Tests of `counters`.

use super::*;

#[test]
fn a_time_is_counted_in_the_smallest_fitting_bucket() {
    for (nanos, bucket) in [
        (0, 0),
        (1_000, 0),
        (1_001, 1),
        (2_000, 1),
        (2_001, 2),
        (BOUNDS[20], 20),
        (BOUNDS[20] + 1, 21),
        (u64::MAX, 21),
    ] {
        let histogram = Histogram::default();
        histogram.record(Duration::from_nanos(nanos));
        let cumulative = histogram.cumulative();
        assert_eq!(cumulative.iter().position(|count| *count == 1), Some(bucket), "{nanos}");
    }
}
