//! What a gate can do with a key besides checking it.

use slidegate::{Cost, Decision, Error, Event, Receipt, Target, Usage};

use crate::gate::{Decided, Gate, TierId};
use crate::rollout::Rollout;

impl Gate {
    /// Decides without taking anything.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn peek(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        if self.rollout == Rollout::Off {
            return Ok(self.unlimited(tier));
        }
        let decision = self.store.peek(self.target(key, tier), cost).await?;
        Ok(if self.is_enforced(key) { decision } else { decision.into_shadow() })
    }

    /// Returns the exact units of a receipt. Returns how many were still counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn refund(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        receipt: Receipt,
    ) -> Result<u64, Error> {
        match &self.local {
            // The store knows nothing of units that were admitted without it.
            Some(local) if local.limiter.has_issued(key, &receipt) => {
                Ok(local.with(tier).refund(receipt))
            }
            _ => self.store.refund(self.target(key, tier), receipt).await,
        }
    }

    /// Corrects a reservation to its actual cost. Returns how many units are charged in all.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn settle(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        match &self.local {
            Some(local) if local.limiter.has_issued(key, &receipt) => {
                Ok(local.with(tier).settle(receipt, actual))
            }
            _ => self.store.settle(self.target(key, tier), receipt, actual).await,
        }
    }

    /// Charges a denied request of which only a part fits, above the limit: for callers that ask
    /// after the fact. If nothing fits, nothing is charged, so that repeated requests do not delay
    /// the moment when units are available again.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn charge_denied(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        cost: Cost,
    ) -> Result<(), Error> {
        let target = self.target(key, tier);
        let taken = self.store.check_at_most(target, cost).await?;
        if let Some(receipt) = taken.into_receipt() {
            self.store.settle(target, receipt, cost.get()).await?;
        }
        Ok(())
    }

    /// Records units without a check, above the limit if necessary. Returns how many.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn charge(&self, key: &[u8], tier: Option<TierId>, units: u64) -> Result<u64, Error> {
        self.store.charge(self.target(key, tier), units).await
    }

    /// Returns up to `units` without a receipt. Returns how many there were.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn forgive(
        &self,
        key: &[u8],
        tier: Option<TierId>,
        units: u64,
    ) -> Result<u64, Error> {
        self.store.forgive(self.target(key, tier), units).await
    }

    /// Returns the units that count against each quota now.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn usage(&self, key: &[u8], tier: Option<TierId>) -> Result<Usage, Error> {
        self.store.usage(self.target(key, tier)).await
    }

    /// Returns every request that is still in the longest window, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm keeps no times, or if the store did not answer.
    pub async fn history(&self, key: &[u8], tier: Option<TierId>) -> Result<Vec<Event>, Error> {
        self.store.history(self.target(key, tier)).await
    }

    /// Forgets a key. Returns whether there was anything to forget.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not answer.
    pub async fn reset(&self, key: &[u8]) -> Result<bool, Error> {
        let local = self.local.as_ref().is_some_and(|local| local.limiter.reset(key));
        Ok(self.store.reset(key).await? || local)
    }

    /// Rebuilds a receipt from the parts that were sent to a client.
    pub fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        self.store.receipt(key, units, tick, epoch)
    }

    /// Returns the units of a request that turned out not to count, the candidate's too, and
    /// updates the decision to what remains afterwards. Returns how many units were still counted.
    pub async fn uncount(&self, key: &[u8], tier: Option<TierId>, decided: &mut Decided) -> u64 {
        if let Some((candidate, decision)) = self.candidate.as_ref().zip(decided.candidate.take())
            && let Some(receipt) = decision.into_receipt()
        {
            // Units that cannot be returned count until they expire, which is the safe side.
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
