//! The fields of one policy, with the constant parts prepared.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use slidegate::{Algorithm, Decision, Mode, Outcome, Policy, QuotaDecision, RetryAfter};

use crate::fields::{Fields, Form, Reset};
use crate::header::{self, cut, epoch_seconds, exact_wait, seconds_up};
use crate::policy_decision::PolicyDecision;
use crate::quota_unit::QuotaUnit;

/// The header fields of one policy for allowed requests, with the constant parts prepared.
///
/// The values are the same as those of [`Fields::write`].
#[derive(Debug, Clone)]
pub struct PolicyFields {
    limit: u64,
    window: Duration,
    algorithm: Algorithm,
    lists: Option<Lists>,
    x_ratelimit: Option<(HeaderValue, Reset)>,
}

/// `RateLimit` up to the first number, and `RateLimit-Policy`.
#[derive(Debug, Clone)]
struct Lists {
    before_remaining: Box<[u8]>,
    policy: HeaderValue,
}

impl PolicyFields {
    /// Prepares the fields of a policy.
    ///
    /// Returns `None` if the policy has several quotas or is in shadow mode, or if the form is not
    /// [`Form::List`]. Use [`Fields::write`] in these cases.
    pub fn new(fields: Fields, policy: &Policy) -> Option<Self> {
        Self::with_unit(fields, policy, &QuotaUnit::REQUESTS)
    }

    /// Prepares the fields of a policy whose quota counts `unit`.
    ///
    /// Returns `None` in the same cases as [`new`](Self::new).
    pub fn with_unit(fields: Fields, policy: &Policy, unit: &QuotaUnit) -> Option<Self> {
        let [quota] = policy.quotas() else { return None };
        let in_other_form = fields.ratelimit.is_some_and(|form| form != Form::List);
        if in_other_form || policy.mode() == Mode::Shadow {
            return None;
        }
        let limit = quota.limit();
        let full = QuotaDecision::new(limit, limit, RetryAfter::Now, Duration::ZERO);
        let decision = Decision::new(Outcome::Allow, &[full], None);
        let mut written = HeaderMap::new();
        let decisions = [PolicyDecision::new(policy, &decision).unit(unit)];
        fields.write(&decisions, SystemTime::UNIX_EPOCH, &mut written);
        let before_remaining = format!("\"{}\";r=", policy.name()).into_bytes().into();
        let lists = written.remove(header::RATELIMIT_POLICY);
        Some(Self {
            limit,
            window: quota.window(),
            algorithm: policy.algorithm(),
            lists: lists.map(|policy| Lists { before_remaining, policy }),
            x_ratelimit: written.remove(header::X_RATELIMIT_LIMIT).zip(fields.x_ratelimit),
        })
    }

    /// Sets the fields of a response and replaces those with the same names. Returns `false` and
    /// sets nothing if the quota is not that of the policy.
    ///
    /// `now` is used only for [`Reset::Epoch`].
    pub fn write(&self, quota: &QuotaDecision, now: SystemTime, headers: &mut HeaderMap) -> bool {
        if quota.limit() != self.limit {
            return false;
        }
        let reset_after = exact_wait(quota.reset_after(), self.window, self.algorithm);
        let seconds = seconds_up(reset_after);
        if let Some(lists) = &self.lists {
            lists.write(quota.remaining(), seconds, headers);
        }
        if let Some((limit, reset)) = &self.x_ratelimit {
            let reset = match reset {
                Reset::Delta => seconds,
                Reset::Epoch => epoch_seconds(now, reset_after),
            };
            headers.insert(header::X_RATELIMIT_LIMIT, limit.clone());
            headers.insert(header::X_RATELIMIT_REMAINING, header::value(quota.remaining()));
            headers.insert(header::X_RATELIMIT_RESET, header::value(reset));
        }
        true
    }
}

impl Lists {
    fn write(&self, remaining: u64, reset: u64, headers: &mut HeaderMap) {
        let mut text = Backward { bytes: [0; STATUS_BYTES_MAX], start: STATUS_BYTES_MAX };
        text.number(cut(reset));
        text.text(b";t=");
        text.number(cut(remaining));
        text.text(&self.before_remaining);
        // Policy names contain only characters that are valid in a field.
        if let Ok(value) = HeaderValue::from_bytes(&text.bytes[text.start..]) {
            headers.insert(header::RATELIMIT, value);
        }
        headers.insert(header::RATELIMIT_POLICY, self.policy.clone());
    }
}

/// A name of 64 characters, two numbers of 15 digits, and the characters around them.
const STATUS_BYTES_MAX: usize = 64 + 2 * 15 + r#""";r=;t="#.len();

/// A text on the stack that is written from its end, in the order in which digits are computed.
///
/// With `itoa` and copies instead, [`PolicyFields::write`] takes 5 % more instructions.
struct Backward {
    bytes: [u8; STATUS_BYTES_MAX],
    start: usize,
}

impl Backward {
    #[inline]
    fn text(&mut self, text: &[u8]) {
        let Some(start) = self.start.checked_sub(text.len()) else { return };
        self.bytes[start..self.start].copy_from_slice(text);
        self.start = start;
    }

    #[inline]
    fn number(&mut self, number: u64) {
        let (mut start, mut rest) = (self.start, number);
        while let Some(place) = self.bytes[..start].last_mut() {
            *place = b'0' + (rest % 10) as u8;
            start -= 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.start = start;
    }
}
