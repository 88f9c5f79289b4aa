//! The trace that a request belongs to.

use http::HeaderName;

use crate::head::Head;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace id of the field `traceparent` (W3C Trace Context): 32 lower-case hexadecimal digits
/// that are not all zero. Whatever else stands there was not written by a tracer and is not told.
pub(crate) fn of<'a>(head: &Head<'a>) -> Option<&'a str> {
    let mut parts = head.only(&TRACEPARENT)?.split('-');
    let (version, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let well_formed = is_hex(version, 2) && version != "ff" && is_hex(id, 32) && is_hex(parent, 16);
    let ends = version != "00" || parts.next().is_none();
    let zero = id.bytes().all(|byte| byte == b'0');
    (well_formed && is_hex(flags, 2) && ends && !zero).then_some(id)
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn id(value: &str) -> Option<String> {
        let request = Request::builder().header("traceparent", value).body(()).unwrap();
        of(&Head::of(&request)).map(str::to_owned)
    }

    #[test]
    fn only_what_a_tracer_wrote_is_told() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(id(&format!("00-{trace}-00f067aa0ba902b7-01")).as_deref(), Some(trace));
        assert_eq!(id(&format!("01-{trace}-00f067aa0ba902b7-01-more")).as_deref(), Some(trace));
        for wrong in [
            String::new(),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            format!("00-{trace}-00f067aa0ba902b7-01-more"),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{trace}-00f067aa0ba902b7"),
            "00-<script>-00f067aa0ba902b7-01".to_owned(),
        ] {
            assert_eq!(id(&wrong), None, "{wrong}");
        }
    }
}
