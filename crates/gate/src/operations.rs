//! Operations of a gate other than checks.

use core::time::Duration;

use slidegate::{Cost, Decision, Error, Event, Receipt, Target, Usage};

use crate::gate::{Gate, GateDecision, TierId};
use crate::rollout::Rollout;

impl Gate {
    /// Evaluates a request without taking units.
    ///
    /// # Errors
    ///
    /// Returns an error if the tier belongs to another gate or the store did not reply.
    pub async fn peek(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        let target = self.target(key, tier)?;
        if self.rollout == Rollout::Off {
            return Ok(self.unlimited(tier));
        }
        let decision = self.store.peek(target, cost).await?;
        Ok(if self.is_enforced(key) { decision } else { decision.into_shadow() })
    }

    /// Refunds exactly the units of a receipt. Returns the number that was still counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the tier belongs to another gate or the store did not reply.
    pub async fn refund(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        receipt: Receipt,
    ) -> Result<u64, Error> {
        let target = self.target(key, tier)?;
        match &self.local {
            // The store does not have units that were admitted without it.
            Some(local) if local.limiter.has_issued(key, &receipt) => {
                Ok(local.with(tier).refund(receipt))
            }
            _ => self.store.refund(target, receipt).await,
        }
    }

    /// Corrects a reservation to its actual cost. Returns the total number of units charged.
    ///
    /// # Errors
    ///
    /// Returns an error if the tier belongs to another gate or the store did not reply.
    pub async fn settle(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        let target = self.target(key, tier)?;
        match &self.local {
            Some(local) if local.limiter.has_issued(key, &receipt) => {
                Ok(local.with(tier).settle(receipt, actual))
            }
            _ => self.store.settle(target, receipt, actual).await,
        }
    }

    /// Records units without a check, above the limit if necessary. Returns the number of units.
    ///
    /// # Errors
    ///
    /// Returns an error if the tier belongs to another gate or the store did not reply.
    pub async fn charge(&self, key: &[u8], tier: Option<TierId>, units: u64) -> Result<u64, Error> {
        self.store.charge(self.target(key, tier)?, units).await
    }

    /// Refunds up to `units` without a receipt. Returns the number of units refunded.
    ///
    /// # Errors
    ///
    /// Returns an error if the tier belongs to another gate or the store did not reply.
    pub async fn forgive(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        units: u64,
    ) -> Result<u64, Error> {
        self.store.forgive(self.target(key, tier)?, units).await
    }

    /// Returns the units that count against each quota now.
    ///
    /// # Errors
    ///
    /// Returns an error if the tier belongs to another gate or the store did not reply.
    pub async fn usage(&self, key: &[u8], tier: Option<TierId>) -> Result<Usage, Error> {
        self.store.usage(self.target(key, tier)?).await
    }

    /// Returns every request that is still in the longest window, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm does not store times, the tier belongs to another gate, or the
    /// store did not reply.
    pub async fn history(&self, key: &[u8], tier: Option<TierId>) -> Result<Vec<Event>, Error> {
        self.store.history(self.target(key, tier)?).await
    }

    /// Removes the key and ends its block. Returns `true` if it existed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply.
    pub async fn reset(&self, key: &[u8]) -> Result<bool, Error> {
        let local = self.local.as_ref().is_some_and(|local| local.limiter.reset(key));
        Ok(self.store.reset(key).await? || local)
    }

    /// Denies every check and wait of a key for a time. It replaces an earlier block.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply or has no space for the block.
    pub async fn block(&self, key: &[u8], time: Duration) -> Result<(), Error> {
        self.store.block(key, time).await?;
        match &self.local {
            Some(local) => local.limiter.block(key, time),
            None => Ok(()),
        }
    }

    /// Ends the block of a key. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply.
    pub async fn unblock(&self, key: &[u8]) -> Result<bool, Error> {
        let local = self.local.as_ref().is_some_and(|local| local.limiter.unblock(key));
        Ok(self.store.unblock(key).await? || local)
    }

    /// Rebuilds a receipt from the parts that were sent to a client.
    pub fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        self.store.receipt(key, units, tick, epoch)
    }

    /// Refunds the units of a request that does not count, also those of the candidate, and updates
    /// the decision. Returns the number of units that were still counted.
    pub async fn uncount(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        decided: &mut GateDecision,
    ) -> u64 {
        if let Some((candidate, decision)) = self.candidate.as_ref().zip(decided.candidate.take())
            && let Some(receipt) = decision.into_receipt()
        {
            // Units that cannot be refunded count until they expire, which never over-admits.
            let _ = candidate.store.refund(Target::new(key, candidate.own.as_ref()), receipt).await;
        }
        let returned = match decided.decision.take_receipt() {
            Some(receipt) => self.refund(key, tier, receipt).await.unwrap_or(0),
            None => 0,
        };
        decided.decision.return_units(returned);
        returned
    }
}
