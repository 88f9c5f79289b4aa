//! Quotas that a server advertises in its responses.

mod date;
mod number;
mod policies;
mod status;

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{AGE, DATE, RETRY_AFTER};
use sfv::{BareItem, Item, List, ListEntry, Parser};

use self::number::Count;

/// Quotas and waits that a server advertises, read from the fields of a response.
///
/// Reads every form that [`Fields`](crate::Fields) writes and those of other servers. The first of
/// these that contains a number is used, so that a quota in two forms is not read twice:
///
/// | fields | from |
/// |---|---|
/// | `RateLimit: "api";r=99;t=60` | drafts -08 and later; each member is a quota |
/// | `RateLimit: limit=100, remaining=99, reset=60` | draft -07 |
/// | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` | drafts up to -06, many services |
/// | `X-RateLimit-Limit`, `-Remaining`, `-Reset` or `-Reset-After` | most services, Envoy |
/// | `X-Rate-Limit-Limit`, `-Remaining`, `-Reset` | some services |
///
/// `RateLimit-Policy`, and the policies that Envoy adds to `X-RateLimit-Limit`, add limits and
/// windows to these quotas. A policy that matches none of them becomes another quota.
///
/// Reading never fails. Malformed input is ignored, by parameter where the rest can be read,
/// otherwise by field. Counts saturate. A remaining number below zero is zero, a limit below zero
/// is none. A reset or `Retry-After` is seconds from now, a time since the epoch (from a billion
/// on; milliseconds from a thousand billion on, and so forth), or an HTTP date. A time in the past
/// is no wait, and no wait is longer than [`AdvertisedLimits::WAIT_MAX`]. If a field with one
/// number has several lines, the most restrictive counts: fewest remaining, longest wait. At most 8
/// KiB of a field and 64 quotas are read. Quotas in a response from a cache (`Age` above zero) are
/// ignored.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::HeaderMap;
/// use slidegate_http::AdvertisedLimits;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit-policy", r#""burst";q=100;w=60"#.parse()?);
/// headers.insert("ratelimit", r#""burst";r=0;t=7"#.parse()?);
/// let limits = AdvertisedLimits::read(&headers, SystemTime::UNIX_EPOCH);
/// let burst = &limits.quotas()[0];
/// assert_eq!(burst.name(), Some("burst"));
/// assert_eq!((burst.limit(), burst.remaining()), (Some(100), Some(0)));
/// assert_eq!(burst.window(), Some(Duration::from_secs(60)));
/// assert_eq!(limits.wait(), Duration::from_secs(7));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdvertisedLimits {
    quotas: Vec<AdvertisedQuota>,
    retry_after: Option<Duration>,
}

/// A quota that the server advertises. Parts that it does not advertise are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdvertisedQuota {
    name: Option<Box<str>>,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after: Option<Duration>,
    window: Option<Duration>,
    unit: Option<Box<str>>,
    partition_key: Option<Box<[u8]>>,
}

/// The maximum number of quotas that are read.
const QUOTAS_MAX: usize = 64;

/// The maximum length of one field in bytes. A longer field is malformed.
const FIELD_BYTES_MAX: usize = 8192;

impl AdvertisedLimits {
    /// The longest wait that is returned: ten years of 366 days. Longer waits are shortened to it.
    ///
    /// No window is longer, and a time that far ahead still fits every clock.
    pub const WAIT_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

    /// Reads the fields of a response.
    ///
    /// Dates and times since the epoch are measured from `now`. Pass the server's clock if the
    /// response has a [date](AdvertisedLimits::date), because the local clock may be wrong.
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let retry_after = longest_wait(headers, now);
        if is_from_cache(headers) {
            return Self { quotas: Vec::new(), retry_after };
        }
        let mut quotas = status::read(headers, now);
        policies::join(&mut quotas, policies::read(headers));
        quotas.truncate(QUOTAS_MAX);
        Self { quotas, retry_after }
    }

    /// Returns the time at which the response was created, from its `Date` field.
    ///
    /// `now` determines the century of an obsolete date with a two-digit year.
    pub fn date(headers: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
        date::parse(headers.get(DATE)?.to_str().ok()?, now)
    }

    /// Returns the quotas, in the order of the fields.
    pub fn quotas(&self) -> &[AdvertisedQuota] {
        &self.quotas
    }

    /// Returns the wait of `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the time to wait before the next request: that of `Retry-After` if there is one,
    /// otherwise the time until every used-up quota has units again.
    pub fn wait(&self) -> Duration {
        let used_up = self.quotas.iter().filter(|quota| quota.remaining == Some(0));
        let reset = used_up.filter_map(AdvertisedQuota::reset_after).max();
        self.retry_after.or(reset).unwrap_or(Duration::ZERO)
    }
}

impl AdvertisedQuota {
    /// Returns the name of the policy, or `None` in older forms of the fields.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of units per window.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the number of units left.
    pub fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// Returns the time until more units become available, measured from the creation of the
    /// response.
    pub fn reset_after(&self) -> Option<Duration> {
        self.reset_after
    }

    /// Returns the time for which a unit counts.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// Returns the unit (`qu`), such as `content-bytes`. `None` means requests.
    pub fn unit(&self) -> Option<&str> {
        self.unit.as_deref()
    }

    /// Returns the key that the quota is counted for (`pk`). The server chooses the bytes.
    pub fn partition_key(&self) -> Option<&[u8]> {
        self.partition_key.as_deref()
    }
}

/// Returns the longest wait of the `Retry-After` lines.
fn longest_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let lines = headers.get_all(RETRY_AFTER).iter().take(QUOTAS_MAX);
    let short = lines.filter(|line| line.len() <= FIELD_BYTES_MAX);
    short.filter_map(|line| number::wait(line.to_str().ok()?, now)).max()
}

fn is_from_cache(headers: &HeaderMap) -> bool {
    let age = headers.get(AGE).and_then(|age| Count::parse(age.to_str().ok()?));
    matches!(age, Some(Count::Units(1..)))
}

/// Joins all lines of a field in order, as structured fields require.
///
/// Returns `None` if there is no line, if one is not visible ASCII, or if they are too long.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut joined = String::new();
    for (index, line) in headers.get_all(name).iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        joined.extend([separator, line.to_str().ok()?]);
        if joined.len() > FIELD_BYTES_MAX {
            return None;
        }
    }
    headers.contains_key(name).then_some(joined)
}

/// Returns the items of a structured list without inner lists, or an empty list if the text is
/// malformed.
fn items(text: &str) -> Vec<Item> {
    let list: List = Parser::new(text).parse().unwrap_or_default();
    list.into_iter().filter_map(item).collect()
}

fn item(entry: ListEntry) -> Option<Item> {
    match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    }
}

/// Returns the value if it is an integer that is not negative.
fn integer(value: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(value.as_integer()?)).ok()
}

/// Returns the value if it is a string or a token: the newest draft has strings, some earlier ones
/// tokens.
fn text(value: &BareItem) -> Option<&str> {
    value.as_string().map(sfv::StringRef::as_str).or(value.as_token().map(sfv::TokenRef::as_str))
}

/// Returns the partition key of a member.
fn partition_key(item: &Item) -> Option<Box<[u8]>> {
    item.params.get("pk").and_then(BareItem::as_byte_sequence).map(Into::into)
}

/// Converts seconds from now, as in structured fields.
fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(AdvertisedLimits::WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn lines_are_joined_in_order_and_bounded() {
        let name = "ratelimit";
        let mut headers = HeaderMap::new();
        assert_eq!(joined(&headers, name), None);
        headers.append(name, HeaderValue::from_static("a"));
        headers.append(name, HeaderValue::from_static("b"));
        assert_eq!(joined(&headers, name).unwrap(), "a, b");
        headers.append(name, HeaderValue::from_bytes(&[b'x'; FIELD_BYTES_MAX]).unwrap());
        assert_eq!(joined(&headers, name), None);
        headers.insert(name, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(joined(&headers, name), None);
    }

    #[test]
    fn last_parameter_with_a_name_counts() {
        let items = items("\"a\";r=1;r=2;t=-3;p=:aGk=:, (1 2);r=3");
        assert_eq!(items.len(), 1);
        assert_eq!(text(&items[0].bare_item), Some("a"));
        let number = |name: &str| items[0].params.get(name).and_then(integer);
        assert_eq!([number("r"), number("t"), number("p")], [Some(2), None, None]);
    }
}
