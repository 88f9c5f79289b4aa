//! What a store must do to be put under a trace.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A limiter of one policy whose clock can be set.
///
/// Only `set_time` and `check` are a must. The rest answers [`Refusal::Unsupported`] unless it is
/// there; the runner lets that pass where a trace says that it requires the capability. A store
/// behind a network blocks until it has its answer.
pub trait Subject {
    /// What an allowed check hands out.
    type Receipt;

    /// Sets the clock, to a time since the Unix epoch that may be earlier than before.
    fn set_time(&mut self, now: Duration) -> Result<(), Refusal>;

    /// Takes `cost` units if they fit, judged by the tier if one is named.
    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<Self::Receipt>), Refusal>;

    /// Takes an estimate, to be settled later.
    fn reserve(
        &mut self,
        _key: &str,
        _cost: u64,
    ) -> Result<(Answer, Option<Self::Receipt>), Refusal> {
        Err(Refusal::Unsupported(Capability::Settle))
    }

    /// Takes as many units as fit, at most `cost`. Returns the receipt and its units.
    fn check_at_most(
        &mut self,
        _key: &str,
        _cost: u64,
    ) -> Result<AnswerAndTaken<Self::Receipt>, Refusal> {
        Err(Refusal::Unsupported(Capability::AtMost))
    }

    /// Judges and takes nothing.
    fn peek(&mut self, _key: &str, _cost: u64) -> Result<Answer, Refusal> {
        Err(Refusal::Unsupported(Capability::Peek))
    }

    /// Gives back what a receipt names and says how many units that were.
    fn refund(&mut self, _receipt: Self::Receipt) -> Result<u64, Refusal> {
        Err(Refusal::Unsupported(Capability::Refund))
    }

    /// Corrects what a receipt names to `actual` and says how many units are recorded now.
    fn settle(&mut self, _receipt: Self::Receipt, _actual: u64) -> Result<u64, Refusal> {
        Err(Refusal::Unsupported(Capability::Settle))
    }

    /// Records units without a check. Returns how many were recorded.
    fn charge(&mut self, _key: &str, _units: u64) -> Result<u64, Refusal> {
        Err(Refusal::Unsupported(Capability::Charge))
    }

    /// Denies a key for a time.
    fn block(&mut self, _key: &str, _time: Duration) -> Result<(), Refusal> {
        Err(Refusal::Unsupported(Capability::Block))
    }

    /// Ends a block. Returns whether there was one.
    fn unblock(&mut self, _key: &str) -> Result<bool, Refusal> {
        Err(Refusal::Unsupported(Capability::Block))
    }

    /// Forgets a key and says whether there was something to forget.
    fn reset(&mut self, _key: &str) -> Result<bool, Refusal> {
        Err(Refusal::Unsupported(Capability::Reset))
    }

    /// Units that count, for every quota.
    fn usage(&mut self, _key: &str) -> Result<Vec<u64>, Refusal> {
        Err(Refusal::Unsupported(Capability::Usage))
    }

    /// The admissions that count, oldest first, as time since the Unix epoch and units.
    fn history(&mut self, _key: &str) -> Result<Vec<(Duration, u64)>, Refusal> {
        Err(Refusal::Unsupported(Capability::History))
    }
}

/// The decision of a check of at most n units, and what it took.
pub type AnswerAndTaken<R> = (Answer, Option<Taken<R>>);

/// What a check of at most n units took.
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
    /// Whether the request may go on.
    pub allowed: bool,
    /// Whether it may only because the policy is in shadow mode.
    pub shadow_denied: bool,
    /// Where every quota stands.
    pub quotas: Vec<Standing>,
}

/// Where one quota stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The limit that judged.
    pub limit: u64,
    /// Units left, after the request if it was allowed.
    pub remaining: u64,
    /// How long until the cost would pass: zero when it passes, `None` for never.
    pub retry_after: Option<Duration>,
    /// How long until more units become available; zero when all are.
    pub reset_after: Duration,
}

/// What not every store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Looking without taking.
    Peek,
    /// Giving back.
    Refund,
    /// Taking an estimate and correcting it.
    Settle,
    /// Taking as many units as fit.
    AtMost,
    /// Recording units without a check.
    Charge,
    /// Denying a key for a time.
    Block,
    /// Forgetting a key.
    Reset,
    /// Saying how many units count.
    Usage,
    /// Saying which admissions count.
    History,
    /// Other quotas for some keys.
    Tiers,
    /// Judging without denying.
    Shadow,
    /// A log with a byte cap.
    BytesMax,
    /// A tick other than one millisecond.
    Tick,
    /// A clock that goes back.
    ClockBack,
}

/// Why a step was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The store cannot do this at all.
    Unsupported(Capability),
    /// The store should have done this and failed.
    Failed(String),
}

impl Answer {
    /// How long until the cost would pass every quota; `None` for never.
    pub fn retry_after(&self) -> Option<Duration> {
        self.quotas
            .iter()
            .map(|quota| quota.retry_after)
            .try_fold(Duration::ZERO, |longest, one| Some(longest.max(one?)))
    }

    /// How long until more units become available in the quota with the fewest left; of several
    /// such, in the one that frees units last.
    pub fn reset_after(&self) -> Duration {
        let fewest = self.quotas.iter().map(|quota| quota.remaining).min();
        let tightest = self.quotas.iter().filter(|quota| Some(quota.remaining) == fewest);
        tightest.map(|quota| quota.reset_after).max().unwrap_or_default()
    }

    /// Units left, for every quota.
    pub fn remaining(&self) -> Vec<u64> {
        self.quotas.iter().map(|quota| quota.remaining).collect()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(capability) => write!(f, "{capability:?} is not supported"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Refusal {}
