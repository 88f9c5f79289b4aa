//! Who is told of every decision.

use core::fmt::Debug;
use core::time::Duration;

use slidegate::{Cost, Decision};

use super::{Caller, Limit};

/// Told of every decision, on the way of the request: it must be quick and must not wait.
pub trait Witness: Debug + Send + Sync {
    /// A decision was made.
    fn saw(&self, seen: &Seen<'_>);
}

/// A decision, and what it was about.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Who decided.
    pub limit: &'a Limit,
    /// For whom.
    pub key: &'a [u8],
    /// For how much.
    pub cost: Cost,
    /// What.
    pub decision: &'a Decision,
    /// In how much time.
    pub took: Duration,
    /// Whoever asked.
    pub caller: Caller<'a>,
}
