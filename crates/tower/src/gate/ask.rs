//! What a gate asks its store about a request.

use std::panic::{AssertUnwindSafe, catch_unwind};

use slidegate::Cost;

use super::{Gate, Missing, TierId};
use crate::head::Head;
use crate::key::{Absent, Digest, KeyBytes, fallback};

/// A question to a gate's store.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) gate: usize,
    pub(crate) key: KeyBytes,
    pub(crate) cost: Cost,
    pub(crate) tier: Option<TierId>,
    /// Whether a denial denies, as far as the gate's share of keys goes.
    pub(crate) enforced: bool,
}

/// What a gate makes of a request before any store is asked.
pub(crate) enum Asked {
    /// It is not for this request.
    Skip,
    Ask(Ask),
    /// There is nothing to count by, and the gate denies then.
    NoKey,
    /// The server does not know its peers.
    NoPeer,
    /// A function of the user's panicked.
    Panicked,
}

impl Gate {
    /// The question to ask about a request. `index` is the place of this gate.
    #[inline]
    pub(crate) fn ask(&self, index: usize, head: &Head<'_>, digest: &Digest) -> Asked {
        if !self.is_custom() {
            return self.ask_plainly(index, head, digest);
        }
        // Nothing of ours is left half done by a panic: the gate only reads.
        catch_unwind(AssertUnwindSafe(|| self.ask_filtered(index, head, digest)))
            .unwrap_or(Asked::Panicked)
    }

    fn ask_filtered(&self, index: usize, head: &Head<'_>, digest: &Digest) -> Asked {
        if self.filters.iter().any(|filter| (filter.matches)(head) != filter.wanted) {
            return Asked::Skip;
        }
        let mut asked = self.ask_plainly(index, head, digest);
        if let Asked::Ask(ask) = &mut asked {
            ask.cost = self.cost.as_ref().map_or(Cost::ONE, |cost| cost(head));
            let tier = self.tier_by.as_ref().and_then(|tier| tier(head));
            ask.tier = tier.filter(|id| self.tier_of(*id).is_some());
        }
        asked
    }

    #[inline]
    fn ask_plainly(&self, index: usize, head: &Head<'_>, digest: &Digest) -> Asked {
        match self.key.of(head, digest, self.is_shared()) {
            Ok(key) => self.ask_by(index, key),
            Err(Absent::Peer) => Asked::NoPeer,
            Err(Absent::Part) => match self.missing {
                Missing::Skip => Asked::Skip,
                Missing::Deny => Asked::NoKey,
                Missing::Peer => {
                    fallback(head).map_or(Asked::NoPeer, |key| self.ask_by(index, key))
                }
            },
        }
    }

    #[inline]
    fn ask_by(&self, index: usize, key: KeyBytes) -> Asked {
        let enforced = self.share().holds(self.store.policy().name(), key.as_slice());
        Asked::Ask(Ask { gate: index, key, cost: Cost::ONE, tier: None, enforced })
    }
}
