//! Who is told of every decision.

use core::fmt::Debug;
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Cost, Decision};

use super::{Caller, Limit};

/// Told of every decision, on the way of the request: it must be quick and must not wait.
pub trait Witness: Debug + Send + Sync {
    /// A decision was made.
    fn saw(&self, seen: &Seen<'_>);
}

/// All of them are told, in their order.
impl Witness for Vec<Arc<dyn Witness>> {
    fn saw(&self, seen: &Seen<'_>) {
        for witness in self {
            witness.saw(seen);
        }
    }
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

impl Seen<'_> {
    /// What became of the request, in a word.
    pub fn outcome(&self) -> &'static str {
        match (self.decision.is_allowed(), self.decision.is_shadow_denied()) {
            (_, true) => "shadow_denied",
            (true, false) => "allowed",
            (false, false) => "denied",
        }
    }
}
