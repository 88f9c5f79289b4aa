//! The answer to a check.

use core::fmt;
use core::time::Duration;

use crate::degraded::DegradedReason;
use crate::policy::QUOTAS_MAX;
use crate::receipt::Receipt;

/// Allow or deny, with the status of every quota.
///
/// Holds no heap memory. Every value is from the moment of the decision, so header fields
/// need no second look. A clone has no receipt, because a receipt works once.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota, RetryAfter};
///
/// let limiter = Limiter::new(Policy::new("demo", Quota::per_minute(2))?)?;
/// assert!(limiter.check("alice").is_allowed());
/// assert_eq!(limiter.check("alice").remaining(), 0);
///
/// let decision = limiter.check("alice");
/// assert!(!decision.is_allowed());
/// assert!(matches!(decision.retry_after(), RetryAfter::After(_)));
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a decision that is not read limits nothing"]
pub struct Decision {
    quotas: QuotaDecisions,
    receipt: Option<Receipt>,
    flags: Flags,
    degraded: Option<DegradedReason>,
}

/// The boolean properties of a decision, in one byte so that they are written at once.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flags(u8);

impl Flags {
    const NONE: Self = Self(0);
    const DENIED: Self = Self(1);
    const SHADOW_DENIED: Self = Self(2);
    const ESTIMATED: Self = Self(4);
    const BLOCKED: Self = Self(8);

    #[inline]
    fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    fn add(&mut self, mark: Self) {
        self.0 |= mark.0;
    }

    fn remove(&mut self, mark: Self) {
        self.0 &= !mark.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::DENIED, "denied"),
            (Self::SHADOW_DENIED, "shadow_denied"),
            (Self::ESTIMATED, "estimated"),
            (Self::BLOCKED, "blocked"),
        ];
        let set = names.iter().filter(|(mark, _)| self.has(*mark)).map(|(_, name)| name);
        f.debug_set().entries(set).finish()
    }
}

impl From<Outcome> for Flags {
    #[inline]
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Allow => Self::NONE,
            Outcome::Deny => Self::DENIED,
        }
    }
}

/// Whether a request is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request may go on; its cost was taken.
    Allow,
    /// The request may not go on; nothing was taken.
    Deny,
}

/// When the same request would be allowed.
///
/// Ordered by time: `Now`, then `After` a shorter and a longer time, then `Never`.
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota, RetryAfter};
///
/// let limiter = Limiter::new(Policy::new("demo", Quota::per_minute(5))?)?;
/// match limiter.check_cost("alice", Cost::new(6)?).retry_after() {
///     RetryAfter::Now => println!("allowed"),
///     RetryAfter::After(time) => println!("retry in {time:?}"),
///     RetryAfter::Never => println!("6 units never fit in a limit of 5"),
/// }
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryAfter {
    /// The request fits now.
    Now,
    /// The request fits after this time, which is not zero, if no other caller takes the units.
    After(Duration),
    /// The request never fits: its cost is above a limit.
    Never,
}

impl RetryAfter {
    /// Returns the time to wait: zero for `Now`, `None` for `Never`.
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::After(time) => Some(time),
            Self::Never => None,
        }
    }
}

/// Converts a time to wait. Zero becomes [`RetryAfter::Now`].
impl From<Duration> for RetryAfter {
    fn from(time: Duration) -> Self {
        if time.is_zero() { Self::Now } else { Self::After(time) }
    }
}

/// The status of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaDecision {
    limit: u64,
    remaining: u64,
    /// Nanoseconds; [`NEVER`] when no wait would help.
    retry_after: u64,
    reset_after: u64,
}

/// A single quota has its own variant, so that most decisions write 32 bytes, not 256.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a box would allocate on every check")]
enum QuotaDecisions {
    One(QuotaDecision),
    Many([QuotaDecision; QUOTAS_MAX], usize),
}

const NEVER: u64 = u64::MAX;

impl Decision {
    /// A decision made elsewhere, for stores that are not in memory.
    ///
    /// Takes the first eight of `quotas`; with none it reads as a quota of nothing.
    pub fn new(outcome: Outcome, quotas: &[QuotaDecision], receipt: Option<Receipt>) -> Self {
        let quotas = match quotas {
            [only] => QuotaDecisions::One(*only),
            many => {
                let mut array = [QuotaDecision::NOTHING; QUOTAS_MAX];
                let len = many.len().min(QUOTAS_MAX);
                array[..len].copy_from_slice(&many[..len]);
                QuotaDecisions::Many(array, len)
            }
        };
        Self { quotas, receipt, flags: outcome.into(), degraded: None }
    }

    /// As [`Decision::new`], without a slice.
    pub(crate) fn collect(
        outcome: Outcome,
        quotas: impl Iterator<Item = QuotaDecision>,
        receipt: Option<Receipt>,
    ) -> Self {
        let mut array = [QuotaDecision::NOTHING; QUOTAS_MAX];
        let mut len = 0;
        for (place, quota) in array.iter_mut().zip(quotas) {
            *place = quota;
            len += 1;
        }
        Self::new(outcome, &array[..len], receipt)
    }

    #[inline]
    pub(crate) fn one(outcome: Outcome, quota: QuotaDecision, receipt: Option<Receipt>) -> Self {
        let quotas = QuotaDecisions::One(quota);
        Self { quotas, receipt, flags: outcome.into(), degraded: None }
    }

    /// Returns `true` if the request is allowed. In shadow mode, every request is.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        !self.flags.has(Flags::DENIED)
    }

    /// Returns whether the request is allowed or denied.
    pub fn outcome(&self) -> Outcome {
        if self.is_allowed() { Outcome::Allow } else { Outcome::Deny }
    }

    /// Returns `true` if the policy is in shadow mode and would have denied the request.
    pub fn is_shadow_denied(&self) -> bool {
        self.flags.has(Flags::SHADOW_DENIED)
    }

    /// Returns `true` if the table was full, so that the overflow sketch decided for this key.
    pub fn is_estimated(&self) -> bool {
        self.flags.has(Flags::ESTIMATED)
    }

    /// Returns `true` if the key is blocked: see [`Limiter::block`](crate::Limiter::block).
    pub fn is_blocked(&self) -> bool {
        self.flags.has(Flags::BLOCKED)
    }

    /// Returns `true` if the store failed, so that the policy's failure mode decided.
    pub fn is_degraded(&self) -> bool {
        self.degraded.is_some()
    }

    /// Returns why the store did not decide, or `None` if it did.
    pub fn degraded_reason(&self) -> Option<DegradedReason> {
        self.degraded
    }

    /// Returns the status of every quota, in the order of the policy.
    #[inline]
    pub fn quotas(&self) -> &[QuotaDecision] {
        self.quotas.as_slice()
    }

    /// Returns the units left in the tightest quota, after this request if it was allowed.
    pub fn remaining(&self) -> u64 {
        self.quotas().iter().map(QuotaDecision::remaining).min().unwrap_or(0)
    }

    /// Returns when this cost would pass every quota.
    ///
    /// Exact: a request one tick earlier would be denied, a request at that moment is allowed if no
    /// other caller takes units in between.
    pub fn retry_after(&self) -> RetryAfter {
        let waits = self.quotas().iter().map(QuotaDecision::retry_after);
        waits.max().unwrap_or(RetryAfter::Now)
    }

    /// Returns the time until more units become available in the tightest quota.
    pub fn reset_after(&self) -> Duration {
        self.tightest().map_or(Duration::ZERO, QuotaDecision::reset_after)
    }

    /// Returns the quota with the fewest units left; of several, the one that frees units last.
    pub fn tightest(&self) -> Option<&QuotaDecision> {
        self.quotas()
            .iter()
            .min_by_key(|quota| (quota.remaining, core::cmp::Reverse(quota.reset_after)))
    }

    /// Returns the receipt of an allowed check, to refund or settle it.
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt
    }

    /// Takes the receipt out of the decision.
    pub fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take()
    }

    /// Reports no remaining units. For clients that may check but not look at a key: a check that is
    /// denied takes nothing, so it would be a look.
    pub fn hide_remaining(&mut self) {
        for quota in self.quotas.as_mut_slice() {
            quota.remaining = 0;
        }
    }

    /// Adds refunded units to the remaining units of every quota.
    pub fn return_units(&mut self, units: u64) {
        for quota in self.quotas.as_mut_slice() {
            quota.remaining = quota.remaining.saturating_add(units).min(quota.limit);
            if quota.remaining == quota.limit {
                quota.reset_after = 0;
            }
        }
    }

    /// Turns the decision into the denial of a key that is blocked for `left` more. For
    /// implementations of [`Store`](crate::Store).
    pub fn into_blocked(self, left: Duration) -> Self {
        self.into_blocked_for(u64::try_from(left.as_nanos()).unwrap_or(NEVER).min(NEVER - 1))
    }

    /// As [`into_blocked`](Self::into_blocked), from nanoseconds.
    pub(crate) fn into_blocked_for(mut self, left: u64) -> Self {
        for quota in self.quotas.as_mut_slice() {
            quota.remaining = 0;
            quota.retry_after = quota.retry_after.max(left);
            quota.reset_after = quota.reset_after.max(left);
        }
        self.flags.add(Flags::BLOCKED);
        self.into_denied()
    }

    /// Marks the decision as one of the failure mode, made because the store failed for this reason.
    pub fn into_degraded(mut self, reason: DegradedReason) -> Self {
        self.degraded = Some(reason);
        self
    }

    /// Allowed, once the wait is over.
    pub(crate) fn into_placed(mut self, receipt: Receipt) -> Self {
        self.flags.remove(Flags::DENIED);
        self.receipt = Some(receipt);
        self
    }

    /// Turns the decision into a denial, because another check of the same request was denied.
    pub fn into_denied(mut self) -> Self {
        self.flags.add(Flags::DENIED);
        self.receipt = None;
        self
    }

    /// Returns a reference to the receipt of an allowed check.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    pub(crate) fn into_estimated(mut self) -> Self {
        self.flags.add(Flags::ESTIMATED);
        self
    }

    /// The same decision under a policy in shadow mode: a denial becomes an allowance that took
    /// nothing.
    pub fn into_shadow(mut self) -> Self {
        self.make_shadow();
        self
    }

    pub(crate) fn make_shadow(&mut self) {
        if self.flags.has(Flags::DENIED) {
            self.flags.remove(Flags::DENIED);
            self.flags.add(Flags::SHADOW_DENIED);
        }
    }
}

impl QuotaDecision {
    const NOTHING: Self = Self { limit: 0, remaining: 0, retry_after: NEVER, reset_after: 0 };

    /// Creates the status of one quota. Durations above 584 years are cut to that.
    pub fn new(limit: u64, remaining: u64, retry_after: RetryAfter, reset_after: Duration) -> Self {
        let nanos = |duration: Duration| {
            u64::try_from(duration.as_nanos()).map_or(NEVER - 1, |nanos| nanos.min(NEVER - 1))
        };
        Self {
            limit,
            remaining,
            retry_after: retry_after.duration().map_or(NEVER, nanos),
            reset_after: nanos(reset_after),
        }
    }

    /// As [`QuotaDecision::new`], from nanoseconds; `u64::MAX` for never.
    #[inline]
    pub(crate) fn from_nanos(limit: u64, remaining: u64, retry: u64, reset: u64) -> Self {
        Self { limit, remaining, retry_after: retry, reset_after: reset }
    }

    /// Returns the status after `age` has passed without other requests: every wait is shorter by it,
    /// but not below zero.
    #[inline]
    #[must_use]
    pub fn aged(&self, age: Duration) -> Self {
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let retry_after = match self.retry_after {
            NEVER => NEVER,
            wait => wait.saturating_sub(age),
        };
        Self { retry_after, reset_after: self.reset_after.saturating_sub(age), ..*self }
    }

    /// Returns the limit that was applied.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the units left, after this request if it was allowed.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns when this cost would pass this quota.
    pub fn retry_after(&self) -> RetryAfter {
        match self.retry_after {
            NEVER => RetryAfter::Never,
            nanos => Duration::from_nanos(nanos).into(),
        }
    }

    /// Returns the time until more units become available, or zero if all are available.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_after)
    }
}

/// Copies everything except the receipt, which works once and stays with the original.
impl Clone for Decision {
    fn clone(&self) -> Self {
        let (flags, degraded) = (self.flags, self.degraded);
        Self { quotas: self.quotas.clone(), receipt: None, flags, degraded }
    }
}

impl PartialEq for QuotaDecisions {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for QuotaDecisions {}

impl QuotaDecisions {
    fn as_mut_slice(&mut self) -> &mut [QuotaDecision] {
        match self {
            Self::One(quota) => core::slice::from_mut(quota),
            Self::Many(array, len) => &mut array[..*len],
        }
    }

    #[inline]
    fn as_slice(&self) -> &[QuotaDecision] {
        match self {
            Self::One(quota) => core::slice::from_ref(quota),
            Self::Many(array, len) => &array[..*len],
        }
    }
}
