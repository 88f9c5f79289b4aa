//! What a server told about its quotas.

mod policies;
mod standings;

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{AGE, DATE, RETRY_AFTER};

use crate::read::number::{self, Count};
use crate::read::{date, lines};

/// What a server told about its quotas, read from the fields of a response.
///
/// Reads every form that [`Fields`](crate::Fields) writes and the usual ones of others. The first
/// of these that tells something is taken, so that one quota told in two ways is not two:
///
/// | fields | from |
/// |---|---|
/// | `RateLimit: "api";r=99;t=60` | drafts -08 and later; each member is a quota |
/// | `RateLimit: limit=100, remaining=99, reset=60` | draft -07 |
/// | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` | drafts up to -06, many services |
/// | `X-RateLimit-Limit`, `-Remaining`, `-Reset` or `-Reset-After` | most services, Envoy |
/// | `X-Rate-Limit-Limit`, `-Remaining`, `-Reset` | some services |
///
/// `RateLimit-Policy`, and the policies that Envoy adds to `X-RateLimit-Limit`, give limits and
/// windows to what was told, and are quotas of their own where nothing was.
///
/// Nothing a server sends makes this fail. What is malformed is ignored, by parameter where the
/// rest can be read, else by field. Counts saturate. A remaining number below zero is zero, a limit
/// below zero is none. A reset or `Retry-After` may be seconds from now, a moment since the epoch
/// (from a billion on; milliseconds from a thousand billion on, and so forth), or an HTTP date. What
/// is past is no wait, and no wait is longer than [`Told::WAIT_MAX`]. Of several lines of a field
/// with one number, the most careful counts: least remaining, longest wait. At most 8 KiB of a
/// field and 64 quotas are read. Quotas in a response that a cache kept (`Age` above zero) are
/// stale and ignored.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::HeaderMap;
/// use slidegate_http::Told;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit-policy", r#""burst";q=100;w=60"#.parse()?);
/// headers.insert("ratelimit", r#""burst";r=0;t=7"#.parse()?);
/// let told = Told::read(&headers, SystemTime::UNIX_EPOCH);
/// let burst = &told.quotas()[0];
/// assert_eq!(burst.name(), Some("burst"));
/// assert_eq!((burst.limit(), burst.remaining()), (Some(100), Some(0)));
/// assert_eq!(burst.window(), Some(Duration::from_secs(60)));
/// assert_eq!(told.wait(), Duration::from_secs(7));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    quotas: Vec<ToldQuota>,
    retry_after: Option<Duration>,
}

/// One quota, as far as it was told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToldQuota {
    name: Option<Box<str>>,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after: Option<Duration>,
    window: Option<Duration>,
}

/// The most quotas that are read.
const QUOTAS_MAX: usize = 64;

impl Told {
    /// The longest wait that is ever told, ten years of 366 days: longer ones are cut to it.
    pub const WAIT_MAX: Duration = number::WAIT_MAX;

    /// Reads the fields of a response.
    ///
    /// `now` is what dates and moments are measured from. The server's own clock is better than
    /// this machine's, if it told it: see [`Told::date`].
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let retry_after = longest_wait(headers, now);
        if is_from_cache(headers) {
            return Self { quotas: Vec::new(), retry_after };
        }
        let mut quotas = standings::read(headers, now);
        policies::join(&mut quotas, policies::read(headers));
        quotas.truncate(QUOTAS_MAX);
        Self { quotas, retry_after }
    }

    /// When the response was made, by its `Date` field.
    ///
    /// `now` tells the century of an obsolete date with a year of two digits.
    pub fn date(headers: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
        let text = headers.get(DATE)?.to_str().ok()?;
        date::moment(date::parse(text, now)?)
    }

    /// The quotas that were told, in the order of the fields.
    pub fn quotas(&self) -> &[ToldQuota] {
        &self.quotas
    }

    /// How long to wait by `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// How long to wait before the next request: by `Retry-After` if there is one, which has the
    /// last word, else until every quota that is used up has units again.
    pub fn wait(&self) -> Duration {
        let used_up = self.quotas.iter().filter(|quota| quota.remaining == Some(0));
        let reset = used_up.filter_map(ToldQuota::reset_after).max();
        self.retry_after.or(reset).unwrap_or(Duration::ZERO)
    }
}

impl ToldQuota {
    /// The policy's name; fields of older forms have none.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Units that the window may contain.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Units left.
    pub fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// How long until more units become available, counted from when the response was made.
    pub fn reset_after(&self) -> Option<Duration> {
        self.reset_after
    }

    /// How long a unit counts.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }
}

/// The longest of the waits that the `Retry-After` lines ask for.
fn longest_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let lines = headers.get_all(RETRY_AFTER).iter().take(QUOTAS_MAX);
    let short = lines.filter(|line| line.len() <= lines::BYTES_MAX);
    short.filter_map(|line| number::wait(line.to_str().ok()?, now)).max()
}

fn is_from_cache(headers: &HeaderMap) -> bool {
    let age = headers.get(AGE).and_then(|age| Count::parse(age.to_str().ok()?));
    matches!(age, Some(Count::Units(1..)))
}
