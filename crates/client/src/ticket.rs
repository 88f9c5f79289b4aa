//! One request on its way.

use core::time::Duration;

use slidegate::Receipt;

use crate::scope::Scope;

/// One request on its way: how often it was sent, and where it stands in line.
///
/// Made by [`Pacing::begin`](crate::Pacing::begin), and to be given to
/// [`Pacing::end`](crate::Pacing::end) when the request is over, answered or not.
#[derive(Debug)]
pub struct Ticket {
    pub(crate) scope: Scope,
    /// Its place in the order of arrival.
    pub(crate) number: u64,
    /// When it may wait no longer.
    pub(crate) deadline: Duration,
    pub(crate) attempts: u32,
    /// By its own backoff and jitter.
    pub(crate) not_before: Duration,
    /// The end of the hold that jitter was drawn for, so that it is drawn once.
    pub(crate) held_until: Duration,
    /// Whether it is counted among those who wait.
    pub(crate) is_waiting: bool,
    /// What it took, while it is out.
    pub(crate) sent: Option<Sent>,
}

impl Ticket {
    /// How often the request was sent.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// What a request took when it was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) at: Duration,
    /// The host's number, so that the answer finds the same one.
    pub(crate) host: u64,
    /// Whether others wait for what this one learns.
    pub(crate) is_first: bool,
    pub(crate) taken: Vec<Taken>,
}

/// What a request took from one lane.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) lane: u64,
    pub(crate) receipt: Option<Receipt>,
    /// Own units that the server may count, right after this one.
    pub(crate) used: u64,
    /// Units that the lane had ever sent, this one included.
    pub(crate) total: u64,
    /// Whether it was sent to find out if there are units again.
    pub(crate) is_probe: bool,
}
