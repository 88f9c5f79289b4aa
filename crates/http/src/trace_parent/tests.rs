//! Tests of `trace_parent`.

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn of(values: &[&str]) -> Option<(String, String, bool)> {
    let mut fields = HeaderMap::new();
    for value in values {
        fields.append(TRACEPARENT, value.parse().unwrap());
    }
    TraceParent::of(&fields)
        .map(|it| (it.trace_id.to_owned(), it.parent_id.to_owned(), it.is_sampled))
}

#[test]
fn valid_fields_are_read() {
    let read = |is_sampled| Some((TRACE.to_owned(), PARENT.to_owned(), is_sampled));
    assert_eq!(of(&[&format!("00-{TRACE}-{PARENT}-01")]), read(true));
    assert_eq!(of(&[&format!("00-{TRACE}-{PARENT}-00")]), read(false));
    assert_eq!(of(&[&format!("00-{TRACE}-{PARENT}-fe")]), read(false));
    assert_eq!(of(&[&format!("01-{TRACE}-{PARENT}-03-more")]), read(true));
}

#[test]
fn anything_else_is_rejected() {
    for wrong in [
        String::new(),
        format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
        format!("00-{TRACE}-{PARENT}-01-more"),
        format!("ff-{TRACE}-{PARENT}-01"),
        format!("00-{}-{PARENT}-01", "0".repeat(32)),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!("00-{TRACE}-{PARENT}"),
        format!("00-{TRACE}-{PARENT}-+1"),
        format!("00-<script>-{PARENT}-01"),
    ] {
        assert_eq!(of(&[&wrong]), None, "{wrong}");
    }
    let right = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(of(&[&right, &right]), None);
    assert_eq!(of(&[]), None);
}
