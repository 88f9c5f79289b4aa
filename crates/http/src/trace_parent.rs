//! The trace that a request belongs to.

use http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The field `traceparent` of a request (W3C Trace Context): its trace and its parent span.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use slidegate_http::TraceParent;
///
/// let mut fields = HeaderMap::new();
/// let value = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// fields.insert("traceparent", HeaderValue::from_static(value));
/// let parent = TraceParent::of(&fields).ok_or("there is one")?;
/// assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(parent.parent_id(), "00f067aa0ba902b7");
/// assert!(parent.is_sampled());
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent<'a> {
    trace_id: &'a str,
    parent_id: &'a str,
    is_sampled: bool,
}

impl<'a> TraceParent<'a> {
    /// Reads the header fields. Returns `None` if the field is missing, malformed or present twice,
    /// or if an id is all zeros.
    pub fn of(fields: &'a HeaderMap) -> Option<Self> {
        let mut lines = fields.get_all(&TRACEPARENT).iter();
        let value = lines.next().filter(|_| lines.next().is_none())?;
        Self::parse(value.to_str().ok()?)
    }

    fn parse(value: &'a str) -> Option<Self> {
        let mut parts = value.split('-');
        let (version, trace_id) = (parts.next()?, parts.next()?);
        let (parent_id, flags) = (parts.next()?, parts.next()?);
        // Only later versions may have more parts.
        let ends = version != "00" || parts.next().is_none();
        let is_well_formed = is_hex(version, 2)
            && version != "ff"
            && is_id(trace_id, 32)
            && is_id(parent_id, 16)
            && is_hex(flags, 2)
            && ends;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        is_well_formed.then_some(Self { trace_id, parent_id, is_sampled: flags & 1 == 1 })
    }

    /// Returns the id of the trace: 32 lowercase hexadecimal digits, not all zero.
    pub fn trace_id(&self) -> &'a str {
        self.trace_id
    }

    /// Returns the id of the caller's span: 16 lowercase hexadecimal digits, not all zero.
    pub fn parent_id(&self) -> &'a str {
        self.parent_id
    }

    /// Returns `true` if the caller's span is sampled.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }
}

fn is_id(text: &str, length: usize) -> bool {
    is_hex(text, length) && text.bytes().any(|byte| byte != b'0')
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
