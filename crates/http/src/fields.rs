//! Which fields a response carries, and their values.

use std::time::SystemTime;

use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::backward::Backward;
use crate::judged::{Judged, Retry};
use crate::member::Member;
use crate::name;
use crate::number;
use crate::seconds::{cut, since_epoch, up};

/// Which fields a response carries.
///
/// Unless told otherwise: `RateLimit` and `RateLimit-Policy` as lists, `X-RateLimit-*` with the
/// reset in seconds from now, and on a denial `Retry-After`. A denial always carries
/// `Cache-Control: no-store`, so that no cache hands one client's denial to another.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::HeaderMap;
/// use slidegate::{Limiter, ManualClock, Policy, Quota};
/// use slidegate_http::{Fields, Judged};
///
/// let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
/// let policy = Policy::new("api", Quota::per_minute(100)?)?;
/// let limiter = Limiter::builder(policy).clock(clock).build()?;
/// let decision = limiter.check("alice");
///
/// let mut headers = HeaderMap::new();
/// let judged = [Judged::new(limiter.policy(), &decision)];
/// Fields::new().write(&judged, SystemTime::UNIX_EPOCH, &mut headers);
/// assert_eq!(headers["ratelimit"], r#""api";r=99;t=60"#);
/// assert_eq!(headers["ratelimit-policy"], r#""api";q=100;w=60"#);
/// assert_eq!(headers["x-ratelimit-remaining"], "99");
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    ratelimit: Option<Form>,
    x_ratelimit: Option<Reset>,
    retry_after: bool,
    shadow: bool,
}

/// How `RateLimit` and `RateLimit-Policy` are written: the draft changed its mind twice.
///
/// The forms share field names, so a response has one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Form {
    /// Drafts -08 and later: `RateLimit: "api";r=99;t=60`, a member for each quota.
    #[default]
    List,
    /// Draft -07: `RateLimit: limit=100, remaining=99, reset=60`, the tightest quota.
    Dictionary,
    /// Draft -06: `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, the tightest quota.
    Triple,
}

/// How `X-RateLimit-Reset` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now. Needs no agreement of clocks.
    #[default]
    Delta,
    /// Seconds since the epoch, by this machine's clock.
    Epoch,
}

impl Fields {
    /// The usual fields.
    pub const fn new() -> Self {
        Self {
            ratelimit: Some(Form::List),
            x_ratelimit: Some(Reset::Delta),
            retry_after: true,
            shadow: false,
        }
    }

    /// No field at all, to start from. A denial still carries `Cache-Control: no-store`.
    pub const fn none() -> Self {
        Self { ratelimit: None, x_ratelimit: None, retry_after: false, shadow: false }
    }

    /// The form of `RateLimit` and `RateLimit-Policy`; `None` for neither.
    #[must_use]
    pub fn ratelimit(mut self, form: impl Into<Option<Form>>) -> Self {
        self.ratelimit = form.into();
        self
    }

    /// How `X-RateLimit-Reset` is written; `None` for no `X-RateLimit-*`.
    #[must_use]
    pub fn x_ratelimit(mut self, reset: impl Into<Option<Reset>>) -> Self {
        self.x_ratelimit = reset.into();
        self
    }

    /// Whether a denial carries `Retry-After`.
    #[must_use]
    pub const fn retry_after(mut self, send: bool) -> Self {
        self.retry_after = send;
        self
    }

    /// Whether policies in shadow mode are told.
    ///
    /// They are not unless asked for: clients that slow down for a limit that is not enforced
    /// would spoil what shadow mode is there to observe.
    #[must_use]
    pub const fn shadow(mut self, tell: bool) -> Self {
        self.shadow = tell;
        self
    }

    pub(crate) fn form(self) -> Option<Form> {
        self.ratelimit
    }

    pub(crate) fn reset(self) -> Option<Reset> {
        self.x_ratelimit
    }

    /// Sets the fields of a response, in place of those of the same names.
    ///
    /// `now` matters for [`Reset::Epoch`] only.
    pub fn write(&self, judged: &[Judged<'_>], now: SystemTime, headers: &mut HeaderMap) {
        self.each(judged, now, |name, value| {
            headers.insert(name, value);
        });
    }

    /// The fields of a response as pairs, each name once.
    pub fn pairs(&self, judged: &[Judged<'_>], now: SystemTime) -> Vec<(HeaderName, HeaderValue)> {
        let mut pairs = Vec::with_capacity(PAIRS_MAX);
        self.each(judged, now, |name, value| pairs.push((name, value)));
        pairs
    }

    fn each(
        self,
        judged: &[Judged<'_>],
        now: SystemTime,
        put: impl FnMut(HeaderName, HeaderValue),
    ) {
        let mut fields = Writer { put };
        // The usual response tells one quota: it needs no list.
        let is_told = |judged: &&Judged<'_>| self.shadow || !judged.is_shadow();
        match judged {
            [only] if Member::only(only).is_some() => {
                let member = Some(only).filter(is_told).and_then(Member::only);
                self.standings(member.as_slice(), now, &mut fields);
            }
            _ => {
                let told: Vec<_> = judged.iter().filter(is_told).copied().collect();
                self.standings(&Member::all(&told), now, &mut fields);
            }
        }
        fields.denial(Judged::retry(judged), self.retry_after);
    }

    fn standings<P: FnMut(HeaderName, HeaderValue)>(
        self,
        members: &[Member<'_>],
        now: SystemTime,
        fields: &mut Writer<P>,
    ) {
        let Some(tightest) = Member::tightest(members) else { return };
        if let Some(form) = self.ratelimit {
            fields.ratelimit(form, tightest, members);
        }
        if let Some(reset) = self.x_ratelimit {
            fields.x_ratelimit(reset, tightest, now);
        }
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self::new()
    }
}

/// Four of a draft, three of `X-RateLimit-*`, two of a denial.
const PAIRS_MAX: usize = 9;

/// Hands every field to a function.
struct Writer<P> {
    put: P,
}

impl<P: FnMut(HeaderName, HeaderValue)> Writer<P> {
    fn ratelimit(&mut self, form: Form, tightest: &Member<'_>, members: &[Member<'_>]) {
        let limit = cut(tightest.limit());
        let remaining = cut(tightest.remaining());
        let reset = cut(up(tightest.reset_after()));
        match form {
            Form::List => {
                let mut text = Vec::with_capacity(members.len() * MEMBER_BYTES);
                list(&mut text, members, add_standing);
                self.text(name::RATELIMIT, &text);
                text.clear();
                list(&mut text, members, add_named_quota);
                self.text(name::RATELIMIT_POLICY, &text);
                return;
            }
            Form::Dictionary => {
                let text = format!("limit={limit}, remaining={remaining}, reset={reset}");
                self.text(name::RATELIMIT, text.as_bytes());
            }
            Form::Triple => {
                self.number(name::RATELIMIT_LIMIT, limit);
                self.number(name::RATELIMIT_REMAINING, remaining);
                self.number(name::RATELIMIT_RESET, reset);
            }
        }
        let mut text = Vec::with_capacity(members.len() * MEMBER_BYTES);
        list(&mut text, members, add_quota);
        self.text(name::RATELIMIT_POLICY, &text);
    }

    fn x_ratelimit(&mut self, reset: Reset, tightest: &Member<'_>, now: SystemTime) {
        let reset = match reset {
            Reset::Delta => up(tightest.reset_after()),
            Reset::Epoch => since_epoch(now, tightest.reset_after()),
        };
        self.number(name::X_RATELIMIT_LIMIT, tightest.limit());
        self.number(name::X_RATELIMIT_REMAINING, tightest.remaining());
        self.number(name::X_RATELIMIT_RESET, reset);
    }

    fn denial(&mut self, retry: Retry, tell: bool) {
        if retry == Retry::Allowed {
            return;
        }
        // Of a request that can never pass, any number would be untrue.
        if let (true, Retry::After(seconds)) = (tell, retry) {
            self.number(RETRY_AFTER, seconds);
        }
        (self.put)(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }

    fn number(&mut self, name: HeaderName, number: u64) {
        (self.put)(name, number::value(number));
    }

    /// Names of policies are of characters that may stand in a field, so this leaves nothing out;
    /// were it otherwise, no field is better than a broken one.
    fn text(&mut self, name: HeaderName, text: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(text) {
            (self.put)(name, value);
        }
    }
}

/// Room for a usual member of a list, as a name of a dozen characters and two numbers.
const MEMBER_BYTES: usize = 48;

/// Writes a structured list with a member for each quota.
fn list(text: &mut Vec<u8>, members: &[Member<'_>], add: fn(&mut Vec<u8>, &Member<'_>)) {
    for member in members {
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        add(text, member);
    }
}

fn add_standing(text: &mut Vec<u8>, member: &Member<'_>) {
    add_name(text, member);
    add_number(text, ";r=", member.remaining());
    add_number(text, ";t=", up(member.reset_after()));
}

fn add_named_quota(text: &mut Vec<u8>, member: &Member<'_>) {
    add_name(text, member);
    add_number(text, ";q=", member.limit());
    add_window(text, member);
}

fn add_quota(text: &mut Vec<u8>, member: &Member<'_>) {
    add_number(text, "", member.limit());
    add_window(text, member);
}

fn add_window(text: &mut Vec<u8>, member: &Member<'_>) {
    if let Some(window) = member.window() {
        add_number(text, ";w=", window);
    }
}

fn add_name(text: &mut Vec<u8>, member: &Member<'_>) {
    text.push(b'"');
    text.extend_from_slice(member.name().as_bytes());
    text.push(b'"');
}

/// Writes a number, cut to what a structured field may carry.
fn add_number(text: &mut Vec<u8>, before: &str, number: u64) {
    let mut digits = Backward::<DIGITS_MAX>::new();
    digits.number(cut(number));
    text.extend_from_slice(before.as_bytes());
    text.extend_from_slice(digits.as_bytes());
}

/// Of the largest integer that a structured field may carry.
pub(crate) const DIGITS_MAX: usize = 15;
