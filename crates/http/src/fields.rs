//! The fields of a response and their values.

use std::time::{Duration, SystemTime};

use crate::header::{self, cut, epoch_seconds, seconds_up};
use crate::member::Member;
use crate::policy_decision::{PolicyDecision, Retry};
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The choice of header fields for a response.
///
/// By default, these are `RateLimit` and `RateLimit-Policy` as lists, `X-RateLimit-*` with the
/// reset in seconds from now, and on a denial `Retry-After`. A denial always has `Cache-Control:
/// no-store`, so that no cache sends one client's denial to another.
///
/// The [crate documentation](crate) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    pub(crate) ratelimit: Option<Form>,
    pub(crate) x_ratelimit: Option<Reset>,
    retry_after: bool,
    shadow: bool,
}

/// The form of `RateLimit` and `RateLimit-Policy`. The draft changed it twice.
///
/// The forms share field names, so a response has one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Form {
    /// Drafts -08 and later: `RateLimit: "api";r=99;t=60`, one member per quota.
    #[default]
    List,
    /// Draft -07: `RateLimit: limit=100, remaining=99, reset=60`, the tightest quota.
    Dictionary,
    /// Draft -06: `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, the tightest quota.
    Triple,
}

/// The form of `X-RateLimit-Reset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now. Clocks need not be synchronized.
    #[default]
    Delta,
    /// Seconds since the epoch, from the local clock.
    Epoch,
}

impl Reset {
    /// Returns the value of `X-RateLimit-Reset` for units that become available after
    /// `reset_after`.
    pub(crate) fn seconds(self, reset_after: Duration, now: SystemTime) -> u64 {
        match self {
            Self::Delta => seconds_up(reset_after),
            Self::Epoch => epoch_seconds(now, reset_after),
        }
    }
}

impl Fields {
    /// Returns the default fields.
    pub const fn new() -> Self {
        Self {
            ratelimit: Some(Form::List),
            x_ratelimit: Some(Reset::Delta),
            retry_after: true,
            shadow: false,
        }
    }

    /// Returns a choice without fields, to start from. A denial still has `Cache-Control:
    /// no-store`.
    pub const fn none() -> Self {
        Self { ratelimit: None, x_ratelimit: None, retry_after: false, shadow: false }
    }

    /// Sets the form of `RateLimit` and `RateLimit-Policy`. `None` omits both.
    #[must_use]
    pub fn ratelimit(mut self, form: impl Into<Option<Form>>) -> Self {
        self.ratelimit = form.into();
        self
    }

    /// Sets the form of `X-RateLimit-Reset`. `None` omits all `X-RateLimit-*` fields.
    #[must_use]
    pub fn x_ratelimit(mut self, reset: impl Into<Option<Reset>>) -> Self {
        self.x_ratelimit = reset.into();
        self
    }

    /// Sets whether a denial has `Retry-After`.
    #[must_use]
    pub const fn retry_after(mut self, send: bool) -> Self {
        self.retry_after = send;
        self
    }

    /// Sets whether policies in shadow mode are included. By default they are not: clients that
    /// slow down for a limit that is not enforced would distort the measurement.
    #[must_use]
    pub const fn shadow(mut self, include: bool) -> Self {
        self.shadow = include;
        self
    }

    /// Sets the fields of a response and replaces those with the same names.
    ///
    /// `now` is used only for [`Reset::Epoch`].
    pub fn write(
        &self,
        decisions: &[PolicyDecision<'_>],
        now: SystemTime,
        headers: &mut HeaderMap,
    ) {
        for (name, value) in self.pairs(decisions, now) {
            headers.insert(name, value);
        }
    }

    /// Returns the fields of a response as pairs, each name once.
    pub fn pairs(
        &self,
        decisions: &[PolicyDecision<'_>],
        now: SystemTime,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let mut pairs = Pairs(Vec::with_capacity(PAIRS_MAX));
        let shown = decisions.iter().filter(|decision| self.shadow || !decision.is_shadow());
        let members = Member::all(shown);
        if let Some(tightest) = Member::tightest(&members) {
            if let Some(form) = self.ratelimit {
                pairs.ratelimit(form, tightest, &members);
            }
            if let Some(reset) = self.x_ratelimit {
                pairs.x_ratelimit(reset, tightest, now);
            }
        }
        pairs.denial(PolicyDecision::retry(decisions), self.retry_after);
        pairs.0
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self::new()
    }
}

/// Four fields of a draft, three of `X-RateLimit-*`, two of a denial.
const PAIRS_MAX: usize = 9;

/// The fields written so far.
struct Pairs(Vec<(HeaderName, HeaderValue)>);

impl Pairs {
    fn ratelimit(&mut self, form: Form, tightest: &Member<'_>, members: &[Member<'_>]) {
        let limit = cut(tightest.quota.limit());
        let remaining = cut(tightest.quota.remaining());
        let reset = cut(seconds_up(tightest.reset_after));
        let mut text = Vec::with_capacity(members.len() * MEMBER_BYTES);
        match form {
            Form::List => {
                self.list(&mut text, header::RATELIMIT, members, add_status);
                return self.list(&mut text, header::RATELIMIT_POLICY, members, add_named_quota);
            }
            Form::Dictionary => {
                let text = format!("limit={limit}, remaining={remaining}, reset={reset}");
                self.text(header::RATELIMIT, text.as_bytes());
            }
            Form::Triple => {
                self.number(header::RATELIMIT_LIMIT, limit);
                self.number(header::RATELIMIT_REMAINING, remaining);
                self.number(header::RATELIMIT_RESET, reset);
            }
        }
        self.list(&mut text, header::RATELIMIT_POLICY, members, add_quota);
    }

    fn x_ratelimit(&mut self, reset: Reset, tightest: &Member<'_>, now: SystemTime) {
        self.number(header::X_RATELIMIT_LIMIT, tightest.quota.limit());
        self.number(header::X_RATELIMIT_REMAINING, tightest.quota.remaining());
        self.number(header::X_RATELIMIT_RESET, reset.seconds(tightest.reset_after, now));
    }

    fn denial(&mut self, retry: Retry, with_retry_after: bool) {
        if retry == Retry::Allowed {
            return;
        }
        // A request that can never be allowed gets no number.
        if let Some(seconds) = retry.seconds().filter(|_| with_retry_after) {
            self.number(RETRY_AFTER, seconds);
        }
        self.0.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    }

    fn number(&mut self, name: HeaderName, number: u64) {
        self.0.push((name, header::value(number)));
    }

    /// Adds a structured list with one member per quota. `text` is a reused buffer.
    fn list(
        &mut self,
        text: &mut Vec<u8>,
        name: HeaderName,
        members: &[Member<'_>],
        add: fn(&mut Vec<u8>, &Member<'_>),
    ) {
        text.clear();
        for member in members {
            if !text.is_empty() {
                text.extend_from_slice(b", ");
            }
            add(text, member);
        }
        self.text(name, text);
    }

    /// Policy names contain only characters that are valid in a field, so nothing is omitted here.
    fn text(&mut self, name: HeaderName, text: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(text) {
            self.0.push((name, value));
        }
    }
}

/// The capacity for a typical member of a list: a name of a dozen characters and two numbers.
const MEMBER_BYTES: usize = 48;

/// Appends `"api";r=99;t=60`.
fn add_status(text: &mut Vec<u8>, member: &Member<'_>) {
    add_name(text, member);
    add_number(text, ";r=", member.quota.remaining());
    add_number(text, ";t=", seconds_up(member.reset_after));
    add_partition_key(text, member);
}

/// Appends `"api";q=100;qu="tokens";w=60`.
fn add_named_quota(text: &mut Vec<u8>, member: &Member<'_>) {
    add_name(text, member);
    add_number(text, ";q=", member.quota.limit());
    if let Some(unit) = member.unit {
        text.extend_from_slice(b";qu=\"");
        text.extend_from_slice(unit.as_str().as_bytes());
        text.push(b'"');
    }
    add_window(text, member);
    add_partition_key(text, member);
}

/// Appends `100;w=60`.
fn add_quota(text: &mut Vec<u8>, member: &Member<'_>) {
    add_number(text, "", member.quota.limit());
    add_window(text, member);
}

fn add_window(text: &mut Vec<u8>, member: &Member<'_>) {
    if let Some(window) = member.window() {
        add_number(text, ";w=", window);
    }
}

/// Appends `;pk=:YWxpY2U=:`.
fn add_partition_key(text: &mut Vec<u8>, member: &Member<'_>) {
    if let Some(key) = member.partition_key {
        text.extend_from_slice(b";pk=");
        let encoded = sfv::ItemSerializer::new().bare_item(key).finish();
        text.extend_from_slice(encoded.as_bytes());
    }
}

fn add_name(text: &mut Vec<u8>, member: &Member<'_>) {
    text.push(b'"');
    text.extend_from_slice(member.name.as_bytes());
    text.push(b'"');
}

/// Appends a number, at most the maximum of a structured field.
fn add_number(text: &mut Vec<u8>, before: &str, number: u64) {
    text.extend_from_slice(before.as_bytes());
    text.extend_from_slice(itoa::Buffer::new().format(cut(number)).as_bytes());
}
