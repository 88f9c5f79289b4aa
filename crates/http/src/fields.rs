//! Which fields a response carries, and their values.

use std::time::{Duration, SystemTime};

use crate::header::{self, cut, epoch_seconds, seconds_up};
use crate::member::Member;
use crate::policy_decision::{PolicyDecision, Retry};
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Which fields a response carries.
///
/// By default: `RateLimit` and `RateLimit-Policy` as lists, `X-RateLimit-*` with the
/// reset in seconds from now, and on a denial `Retry-After`. A denial always carries
/// `Cache-Control: no-store`, so that no cache hands one client's denial to another.
///
/// The [crate's documentation](crate) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    pub(crate) ratelimit: Option<Form>,
    pub(crate) x_ratelimit: Option<Reset>,
    retry_after: bool,
    shadow: bool,
}

/// How `RateLimit` and `RateLimit-Policy` are written. The draft changed the form twice.
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

/// How `X-RateLimit-Reset` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now, which does not require synchronized clocks.
    #[default]
    Delta,
    /// Seconds since the epoch, by this machine's clock.
    Epoch,
}

impl Reset {
    /// The value of `X-RateLimit-Reset` for units that become available after `reset_after`.
    pub(crate) fn seconds(self, reset_after: Duration, now: SystemTime) -> u64 {
        match self {
            Self::Delta => seconds_up(reset_after),
            Self::Epoch => epoch_seconds(now, reset_after),
        }
    }
}

impl Fields {
    /// The default fields.
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

    /// Whether policies in shadow mode are included. By default they are not: clients that slow
    /// down for a limit that is not enforced would distort what shadow mode observes.
    #[must_use]
    pub const fn shadow(mut self, include: bool) -> Self {
        self.shadow = include;
        self
    }

    /// Sets the fields of a response and replaces those with the same names.
    ///
    /// `now` is only used for [`Reset::Epoch`].
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

    /// The fields of a response as pairs, each name once.
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

/// Four of a draft, three of `X-RateLimit-*`, two of a denial.
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
        // No number would be true for a request that can never pass.
        if let Some(seconds) = retry.seconds().filter(|_| with_retry_after) {
            self.number(RETRY_AFTER, seconds);
        }
        self.0.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    }

    fn number(&mut self, name: HeaderName, number: u64) {
        self.0.push((name, header::value(number)));
    }

    /// Adds a structured list with one member per quota; `text` is only reused memory.
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

    /// Policy names only contain characters that are valid in a field, so nothing is left out here.
    fn text(&mut self, name: HeaderName, text: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(text) {
            self.0.push((name, value));
        }
    }
}

/// Room for a typical member of a list: a name of a dozen characters and two numbers.
const MEMBER_BYTES: usize = 48;

/// `"api";r=99;t=60`
fn add_status(text: &mut Vec<u8>, member: &Member<'_>) {
    add_name(text, member);
    add_number(text, ";r=", member.quota.remaining());
    add_number(text, ";t=", seconds_up(member.reset_after));
    add_partition_key(text, member);
}

/// `"api";q=100;qu="tokens";w=60`
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

/// `100;w=60`
fn add_quota(text: &mut Vec<u8>, member: &Member<'_>) {
    add_number(text, "", member.quota.limit());
    add_window(text, member);
}

fn add_window(text: &mut Vec<u8>, member: &Member<'_>) {
    if let Some(window) = member.window() {
        add_number(text, ";w=", window);
    }
}

/// `;pk=:YWxpY2U=:`
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

/// Writes a number, cut to what a structured field may carry.
fn add_number(text: &mut Vec<u8>, before: &str, number: u64) {
    text.extend_from_slice(before.as_bytes());
    text.extend_from_slice(itoa::Buffer::new().format(cut(number)).as_bytes());
}
