//! Tests of `exposition`.

use super::*;

#[test]
fn writes_the_prometheus_format() {
    let mut page = Page::new();
    page.family("a_total", Kind::Counter, "Things.");
    page.sample(&[], 1);
    page.sample(&[("x", "a\"b\\c\nd"), ("y", "")], u64::MAX);
    page.family("b_seconds", Kind::Histogram, "Times.");
    page.histogram(&[("p", "q")], &[1_000, 2_000_000_000], &[1, 2, 5], Duration::from_millis(7));
    page.family("c", Kind::Gauge, "Shares.");
    page.ratio(&[], 1, 3);
    page.ratio(&[("of", "nothing")], 0, 0);
    page.seconds(&[("a", "b")], Duration::from_nanos(1));
    let expected = r#"# HELP a_total Things.
# TYPE a_total counter
a_total 1
a_total{x="a\"b\\c\nd",y=""} 18446744073709551615
# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{p="q",le="0.000001"} 1
b_seconds_bucket{p="q",le="2.000000"} 2
b_seconds_bucket{p="q",le="+Inf"} 5
b_seconds_sum{p="q"} 0.007000000
b_seconds_count{p="q"} 5
# HELP c Shares.
# TYPE c gauge
c 0.333333
c{of="nothing"} 0.000000
c{a="b"} 0.000000001
"#;
    assert_eq!(page.finish(), expected);
}
