//! What follows the question mark of a URI.

use std::borrow::Cow;

use super::problem::{Refusal, shown};

/// The pairs of a query, decoded.
pub(super) fn pairs(
    query: &str,
) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), Refusal>> {
    let mut rest = query;
    core::iter::from_fn(move || {
        while !rest.is_empty() {
            let (pair, after) = cut(rest, b'&');
            rest = after;
            if !pair.is_empty() {
                let (name, value) = cut(pair, b'=');
                let name = decode(name, true);
                return Some(name.and_then(|name| Ok((name, decode(value, true)?))));
            }
        }
        None
    })
}

/// What stands before the first of these signs, and after it. Queries are short: one look at each byte
/// takes less than a search that prepares for long ones.
#[inline]
fn cut(text: &str, sign: u8) -> (&str, &str) {
    match text.bytes().position(|byte| byte == sign) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

/// Text in which `%XX` stands for bytes; in a query, `+` for a blank.
pub(super) fn decode(text: &str, is_query: bool) -> Result<Cow<'_, str>, Refusal> {
    let is_coded = |byte| byte == b'%' || is_query && byte == b'+';
    if !text.bytes().any(is_coded) {
        return Ok(Cow::Borrowed(text));
    }
    let refused = |what: &str| {
        Refusal::malformed(format!("{} {what}: write bytes of UTF-8 as %XX", shown(text)))
    };
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' if is_query => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(hex);
                match (digit(), digit()) {
                    (Some(high), Some(low)) => high << 4 | low,
                    _ => return Err(refused("has a % without two digits")),
                }
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| refused("is not UTF-8"))
}

/// The value of a hexadecimal digit.
pub(super) fn hex(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Option<Vec<(String, String)>> {
        let owned = |(name, value): (Cow<'_, str>, Cow<'_, str>)| (name.into(), value.into());
        pairs(query).map(|pair| pair.ok().map(owned)).collect()
    }

    #[test]
    fn pairs_are_decoded() {
        let expected = [("a", "1"), ("b c", "ü&"), ("flag", ""), ("x", "a=b")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read("a=1&b+c=%C3%bc%26&&flag&x=a=b"), Some(expected.to_vec()));
        assert_eq!(read(""), Some(Vec::new()));
    }

    #[test]
    fn what_is_not_text_is_refused() {
        for query in ["a=%", "a=%4", "a=%zz", "a=%ff", "%c3=1"] {
            assert_eq!(read(query), None, "{query}");
        }
    }
}
