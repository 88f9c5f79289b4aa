//! The value of a header field that becomes a key.

use std::borrow::Cow;

use http::HeaderMap;

/// What happens to a request in which a field that is read for a key has several values.
///
/// A service behind a proxy usually reads one of them, the first or the last. If all of them
/// together were the key, a client could get a new key for each request: `x-api-key: valid` with
/// `x-api-key: junk1`, `junk2` and so on.
///
/// A proxy may join repeated lines with commas (RFC 9110, section 5.3), so a comma separates values
/// too. It does not in fields in which commas are part of the value: `Authorization`,
/// `Proxy-Authorization`, `Cookie`, `Referer`, `User-Agent`, and [where the caller says
/// so](Self::commas_kept).
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use slidegate_http::{Duplicates, NoValue};
///
/// let mut headers = HeaderMap::new();
/// headers.append("x-api-key", HeaderValue::from_static("valid"));
/// assert_eq!(Duplicates::Deny.value(&headers, "x-api-key").as_deref(), Ok(&b"valid"[..]));
/// headers.append("x-api-key", HeaderValue::from_static("junk"));
/// assert_eq!(Duplicates::Deny.value(&headers, "x-api-key"), Err(NoValue::Several));
/// assert_eq!(Duplicates::First.value(&headers, "x-api-key").as_deref(), Ok(&b"valid"[..]));
/// assert_eq!(Duplicates::Last.value(&headers, "x-api-key").as_deref(), Ok(&b"junk"[..]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Duplicates {
    /// The request is denied.
    #[default]
    Deny,
    /// The first value counts. Use it if the service reads the first.
    First,
    /// The last value counts. Use it if the service reads the last.
    Last,
}

/// Why a field has no value for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoValue {
    /// The field is absent or empty.
    Missing,
    /// The field has several values, and [`Duplicates::Deny`] applies.
    Several,
}

impl Duplicates {
    /// Returns the value of a field, without whitespace around it.
    ///
    /// Equivalent notations are one value: the scheme of `Authorization` is returned in lowercase
    /// with one space behind it, and several lines of `Cookie`, into which HTTP/2 may divide it,
    /// are joined.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is no single value.
    pub fn value<'a>(self, headers: &'a HeaderMap, name: &str) -> Result<Cow<'a, [u8]>, NoValue> {
        match name {
            _ if name.eq_ignore_ascii_case("cookie") => {
                let lines: Vec<&[u8]> = lines(headers, name).collect();
                found(match *lines {
                    [line] => Cow::Borrowed(line),
                    _ => Cow::Owned(lines.join(&b"; "[..])),
                })
            }
            _ if is_any(name, &["authorization", "proxy-authorization"]) => {
                found(with_plain_scheme(self.one_of(lines(headers, name))?))
            }
            _ if is_any(name, &["referer", "user-agent"]) => self.commas_kept(headers, name),
            _ => {
                let values = lines(headers, name).flat_map(|line| line.split(|byte| *byte == b','));
                found(Cow::Borrowed(self.one_of(values.map(<[u8]>::trim_ascii))?))
            }
        }
    }

    /// Returns the value of a field in which commas are part of the value, such as the subject of a
    /// certificate. Only repeated lines are several values.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is no single value.
    pub fn commas_kept<'a>(
        self,
        headers: &'a HeaderMap,
        name: &str,
    ) -> Result<Cow<'a, [u8]>, NoValue> {
        found(Cow::Borrowed(self.one_of(lines(headers, name))?))
    }

    fn one_of<'a>(
        self,
        mut values: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> Result<&'a [u8], NoValue> {
        let value = match self {
            Self::First => values.next(),
            Self::Last => values.next_back(),
            Self::Deny => {
                let value = values.next();
                if values.next().is_some() {
                    return Err(NoValue::Several);
                }
                value
            }
        };
        value.ok_or(NoValue::Missing)
    }
}

fn lines<'a>(
    headers: &'a HeaderMap,
    name: &str,
) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
    headers.get_all(name).into_iter().map(|line| line.as_bytes().trim_ascii())
}

fn found(value: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, NoValue> {
    if value.is_empty() { Err(NoValue::Missing) } else { Ok(value) }
}

fn is_any(name: &str, names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Returns credentials with their scheme in lowercase and one space: `Bearer  x` as `bearer x`.
fn with_plain_scheme(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(end) = value.iter().position(u8::is_ascii_whitespace) else {
        return Cow::Borrowed(value);
    };
    let (scheme, rest) = value.split_at(end);
    Cow::Owned([&scheme.to_ascii_lowercase(), &b" "[..], rest.trim_ascii_start()].concat())
}

#[cfg(test)]
mod tests;
