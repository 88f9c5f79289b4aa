//! The state of one request.

use core::time::Duration;

use slidegate::Receipt;

use crate::scope::Scope;

/// The state of one request: how often it was sent, and its position in the queue.
///
/// Created by [`Pacing::begin`](crate::Pacing::begin). Pass it to
/// [`Pacing::end`](crate::Pacing::end) when the request ends, answered or not.
#[derive(Debug)]
pub struct Ticket {
    pub(crate) scope: Scope,
    /// Its position in the order of arrival.
    pub(crate) number: u64,
    /// The time until which it may wait.
    pub(crate) deadline: Duration,
    pub(crate) attempts: u32,
    /// The earliest time, set by its own backoff and jitter.
    pub(crate) not_before: Duration,
    /// The end of the hold that jitter was drawn for, so that it is drawn once.
    pub(crate) held_until: Duration,
    /// Whether it counts as a waiting request.
    pub(crate) is_waiting: bool,
    /// The units that it took, while it is in flight.
    pub(crate) sent: Option<SentUnits>,
}

impl Ticket {
    /// Returns the number of attempts.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// The units that a request took when it was sent.
#[derive(Debug)]
pub(crate) struct SentUnits {
    pub(crate) at: Duration,
    /// The number of the scope's state, so that the response is not applied to another one.
    pub(crate) scope: u64,
    /// Whether other requests wait for its response.
    pub(crate) is_first: bool,
    pub(crate) taken: Vec<TakenUnits>,
}

/// The units that a request took from one quota.
#[derive(Debug)]
pub(crate) struct TakenUnits {
    pub(crate) tracker: u64,
    pub(crate) receipt: Option<Receipt>,
    /// Own units that the server may count, including this one.
    pub(crate) used: u64,
    /// The total number of units sent under the quota, including this one.
    pub(crate) total: u64,
    /// Whether it was sent as a probe for available units.
    pub(crate) is_probe: bool,
}
