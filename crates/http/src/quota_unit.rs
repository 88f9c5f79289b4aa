//! What a quota counts.

use std::borrow::Cow;
use std::fmt;

use slidegate::{Error, ErrorKind};

/// The unit of a quota: the parameter `qu` of `RateLimit-Policy`.
///
/// The draft defines the three constants and has a registry for others. It makes
/// [`REQUESTS`](Self::REQUESTS) the default, which is not written. Clients have to know the name of
/// a custom unit.
///
/// ```
/// use slidegate_http::QuotaUnit;
///
/// let tokens = QuotaUnit::new("tokens")?;
/// assert_eq!(tokens.as_str(), "tokens");
/// assert_eq!(QuotaUnit::default(), QuotaUnit::REQUESTS);
/// assert!(QuotaUnit::new("\"").is_err());
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuotaUnit(Cow<'static, str>);

/// The maximum length of a name.
const NAME_MAX: usize = 64;

impl QuotaUnit {
    /// Requests; the default.
    pub const REQUESTS: Self = Self(Cow::Borrowed("requests"));
    /// Bytes of content.
    pub const CONTENT_BYTES: Self = Self(Cow::Borrowed("content-bytes"));
    /// Requests that are processed at the same time.
    pub const CONCURRENT_REQUESTS: Self = Self(Cow::Borrowed("concurrent-requests"));

    /// Creates a unit with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is empty, longer than 64 bytes, or contains a quote, a
    /// backslash, or a character that is not printable ASCII.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Result<Self, Error> {
        let name = name.into();
        let is_allowed = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_allowed) {
            return Err(Error::new(
                ErrorKind::Setting,
                format!(
                    "invalid quota unit {name:?}: use 1 to {NAME_MAX} printable ASCII \
                     characters without quotes and backslashes"
                ),
            ));
        }
        Ok(Self(name))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for QuotaUnit {
    fn default() -> Self {
        Self::REQUESTS
    }
}

impl fmt::Display for QuotaUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
