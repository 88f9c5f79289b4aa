//! All lines of a field as one text.

use http::{HeaderMap, HeaderName};

/// The most bytes of one field that are read. A longer one counts as malformed, like one that is
/// not visible ASCII.
pub(crate) const BYTES_MAX: usize = 8192;

/// All lines of a field, joined in order as the structured-field rules say; `None` when there is
/// no line or when it cannot be read.
pub(crate) fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut text: Option<String> = None;
    for line in headers.get_all(name) {
        let line = line.to_str().ok()?;
        let text = match &mut text {
            None => text.insert(String::new()),
            Some(text) => {
                text.push_str(", ");
                text
            }
        };
        if text.len() + line.len() > BYTES_MAX {
            return None;
        }
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn lines_are_joined_in_order_and_bounded() {
        let name = HeaderName::from_static("ratelimit");
        let mut headers = HeaderMap::new();
        assert_eq!(joined(&headers, &name), None);
        headers.append(&name, HeaderValue::from_static("a"));
        headers.append(&name, HeaderValue::from_static("b"));
        assert_eq!(joined(&headers, &name).unwrap(), "a, b");
        headers.append(&name, HeaderValue::from_bytes(&[b'x'; BYTES_MAX]).unwrap());
        assert_eq!(joined(&headers, &name), None);
        headers.insert(&name, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(joined(&headers, &name), None);
    }
}
