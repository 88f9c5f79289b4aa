//! The fields of one policy, with what never changes written beforehand.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use slidegate::{Decision, Mode, Outcome, Policy, QuotaDecision};

use crate::backward::Backward;
use crate::fields::{DIGITS_MAX, Fields, Form, Reset};
use crate::judged::Judged;
use crate::name;
use crate::number;
use crate::seconds::{cut, since_epoch, up};

/// The fields of one policy on responses of allowed requests. They are the same as [`Fields::write`]
/// sets; what is the same on every response is written once.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::HeaderMap;
/// use slidegate::{Limiter, ManualClock, Policy, Quota};
/// use slidegate_http::{Fields, PolicyFields};
///
/// let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
/// let policy = Policy::new("api", Quota::per_minute(100)?)?;
/// let fields = PolicyFields::new(Fields::new(), &policy).ok_or("one quota, so it can be")?;
/// let limiter = Limiter::builder(policy).clock(clock).build()?;
///
/// let mut headers = HeaderMap::new();
/// let decision = limiter.check("alice");
/// assert!(fields.write(&decision.quotas()[0], SystemTime::UNIX_EPOCH, &mut headers));
/// assert_eq!(headers["ratelimit"], r#""api";r=99;t=60"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct PolicyFields {
    limit: u64,
    lists: Option<Lists>,
    x_ratelimit: Option<(HeaderValue, Reset)>,
}

/// `RateLimit` up to the first number, and `RateLimit-Policy`.
#[derive(Debug, Clone)]
struct Lists {
    standing: Box<[u8]>,
    policy: HeaderValue,
}

impl PolicyFields {
    /// Of a policy with a single quota that is enforced, in no other form than [`Form::List`]. For all
    /// else there is [`Fields::write`].
    pub fn new(fields: Fields, policy: &Policy) -> Option<Self> {
        let [quota] = policy.quotas() else { return None };
        let in_other_form = fields.form().is_some_and(|form| form != Form::List);
        if in_other_form || policy.mode() == Mode::Shadow {
            return None;
        }
        let limit = quota.limit();
        let full = QuotaDecision::new(limit, limit, Some(Duration::ZERO), Duration::ZERO);
        let decision = Decision::new(Outcome::Allow, &[full], None);
        let mut written = HeaderMap::new();
        fields.write(&[Judged::new(policy, &decision)], SystemTime::UNIX_EPOCH, &mut written);
        let standing = format!("\"{}\";r=", policy.name()).into_bytes().into();
        let lists = written.remove(name::RATELIMIT_POLICY);
        Some(Self {
            limit,
            lists: lists.map(|policy| Lists { standing, policy }),
            x_ratelimit: written.remove(name::X_RATELIMIT_LIMIT).zip(fields.reset()),
        })
    }

    /// Sets the fields of a response, in place of those of the same names. Nothing is set and the
    /// answer is no if the quota is not the policy's.
    ///
    /// `now` matters for [`Reset::Epoch`] only.
    pub fn write(&self, quota: &QuotaDecision, now: SystemTime, headers: &mut HeaderMap) -> bool {
        if quota.limit() != self.limit {
            return false;
        }
        let seconds = up(quota.reset_after());
        if let Some(lists) = &self.lists {
            lists.write(quota.remaining(), seconds, headers);
        }
        if let Some((limit, reset)) = &self.x_ratelimit {
            let reset = match reset {
                Reset::Delta => seconds,
                Reset::Epoch => since_epoch(now, quota.reset_after()),
            };
            headers.insert(name::X_RATELIMIT_LIMIT, limit.clone());
            headers.insert(name::X_RATELIMIT_REMAINING, number::value(quota.remaining()));
            headers.insert(name::X_RATELIMIT_RESET, number::value(reset));
        }
        true
    }
}

impl Lists {
    fn write(&self, remaining: u64, reset: u64, headers: &mut HeaderMap) {
        let mut text = Backward::<STANDING_MAX>::new();
        text.number(cut(reset));
        text.text(b";t=");
        text.number(cut(remaining));
        text.text(&self.standing);
        // Names of policies are of characters that may stand in a field: this leaves nothing out.
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.insert(name::RATELIMIT, value);
        }
        headers.insert(name::RATELIMIT_POLICY, self.policy.clone());
    }
}

/// A name of 64 characters, two numbers, and what stands around them.
const STANDING_MAX: usize = 64 + 2 * DIGITS_MAX + r#""";r=;t="#.len();
