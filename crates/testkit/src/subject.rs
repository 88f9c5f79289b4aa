//! The interface of stores for traces.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A limiter with one policy and a clock that can be set.
///
/// Only `set_time` and `check` are required. The other methods return [`SubjectError::Unsupported`] by
/// default, which the runner accepts if the trace requires the operation. A store behind a network
/// blocks until it has its reply.
pub trait Subject {
    /// The receipt of an allowed check.
    type Receipt;

    /// Sets the clock to a time since the Unix epoch, which may be earlier than before.
    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError>;

    /// Takes `cost` units if they fit, with the quotas of the tier if there is one.
    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<Self::Receipt>), SubjectError>;

    /// Takes an estimate, which is settled later.
    fn reserve(
        &mut self,
        _key: &str,
        _cost: u64,
    ) -> Result<(Answer, Option<Self::Receipt>), SubjectError> {
        Err(SubjectError::Unsupported(Capability::Settle))
    }

    /// Takes as many units as fit, at most `cost`. Returns the receipt and its units.
    fn check_at_most(
        &mut self,
        _key: &str,
        _cost: u64,
    ) -> Result<AnswerAndTaken<Self::Receipt>, SubjectError> {
        Err(SubjectError::Unsupported(Capability::AtMost))
    }

    /// Evaluates without taking units.
    fn peek(&mut self, _key: &str, _cost: u64) -> Result<Answer, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Peek))
    }

    /// Refunds the units of a receipt. Returns their number.
    fn refund(&mut self, _receipt: Self::Receipt) -> Result<u64, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Refund))
    }

    /// Refunds up to `units` without a receipt, the oldest first. Returns their number.
    fn forgive(&mut self, _key: &str, _units: u64) -> Result<u64, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Forgive))
    }

    /// Corrects the units of a receipt to `actual`. Returns the number of recorded units.
    fn settle(&mut self, _receipt: Self::Receipt, _actual: u64) -> Result<u64, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Settle))
    }

    /// Records units without a check. Returns their number.
    fn charge(&mut self, _key: &str, _units: u64) -> Result<u64, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Charge))
    }

    /// Denies a key for a time.
    fn block(&mut self, _key: &str, _time: Duration) -> Result<(), SubjectError> {
        Err(SubjectError::Unsupported(Capability::Block))
    }

    /// Ends a block. Returns `true` if there was one.
    fn unblock(&mut self, _key: &str) -> Result<bool, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Block))
    }

    /// Removes a key. Returns `true` if it existed.
    fn reset(&mut self, _key: &str) -> Result<bool, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Reset))
    }

    /// Returns the units that count, for every quota.
    fn usage(&mut self, _key: &str) -> Result<Vec<u64>, SubjectError> {
        Err(SubjectError::Unsupported(Capability::Usage))
    }

    /// Returns the admissions that count, oldest first, as time since the Unix epoch and units.
    fn history(&mut self, _key: &str) -> Result<Vec<(Duration, u64)>, SubjectError> {
        Err(SubjectError::Unsupported(Capability::History))
    }
}

/// The decision of a check of at most n units, and the units that it took.
pub type AnswerAndTaken<R> = (Answer, Option<Taken<R>>);

/// The units that a check of at most n units took.
#[derive(Debug)]
pub struct Taken<R> {
    /// The receipt.
    pub receipt: R,
    /// Its units.
    pub units: u64,
}

/// A decision, as a trace sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Whether it is allowed only because the policy is in shadow mode.
    pub shadow_denied: bool,
    /// The status of every quota.
    pub quotas: Vec<QuotaStatus>,
}

/// The status of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaStatus {
    /// The limit.
    pub limit: u64,
    /// Units left, after the request if it was allowed.
    pub remaining: u64,
    /// The time until the cost would be allowed: zero if it is, `None` for never.
    pub retry_after: Option<Duration>,
    /// The time until more units become available, or zero if all are.
    pub reset_after: Duration,
}

/// An operation that not every store supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Evaluating without taking units.
    Peek,
    /// Refunds.
    Refund,
    /// Refunds without a receipt.
    Forgive,
    /// Taking an estimate and correcting it.
    Settle,
    /// Taking as many units as fit.
    AtMost,
    /// Recording units without a check.
    Charge,
    /// Denying a key for a time.
    Block,
    /// Removing a key.
    Reset,
    /// The number of units that count.
    Usage,
    /// The list of admissions that count.
    History,
    /// Other quotas for some keys.
    Tiers,
    /// Shadow mode.
    Shadow,
    /// A log with a byte cap.
    BytesMax,
    /// A tick other than one millisecond.
    Tick,
    /// A clock that goes back.
    ClockBack,
}

/// The reason why a step was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectError {
    /// The store does not support the operation.
    Unsupported(Capability),
    /// The store failed.
    Failed(String),
}

impl Answer {
    /// Returns the time until every quota would allow the cost, or `None` for never.
    pub fn retry_after(&self) -> Option<Duration> {
        self.quotas
            .iter()
            .map(|quota| quota.retry_after)
            .try_fold(Duration::ZERO, |longest, one| Some(longest.max(one?)))
    }

    /// Returns the time until more units become available in the quota with the fewest left. Of
    /// several, uses the one that frees units last.
    pub fn reset_after(&self) -> Duration {
        let fewest = self.quotas.iter().map(|quota| quota.remaining).min();
        let tightest = self.quotas.iter().filter(|quota| Some(quota.remaining) == fewest);
        tightest.map(|quota| quota.reset_after).max().unwrap_or_default()
    }

    /// Returns the units left, for every quota.
    pub fn remaining(&self) -> Vec<u64> {
        self.quotas.iter().map(|quota| quota.remaining).collect()
    }
}

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(capability) => write!(f, "{capability:?} is not supported"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for SubjectError {}
