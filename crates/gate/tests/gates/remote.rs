//! A custom store that is not in this process, and that can be switched off.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slidegate::{
    Cost, Decision, Error, ErrorKind, Event, Limiter, Policy, Quota, Receipt, Store, StoreFuture,
    StoreResult, Target, Tier, Usage,
};

#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) is_down: Arc<AtomicBool>,
}

impl Remote {
    /// Calls the limiter later, as over a network, or fails.
    fn call<'a, T: Unpin + Send + 'a>(
        &'a self,
        call: impl FnOnce(&'a Limiter) -> StoreResult<'a, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        StoreFuture::pending(async move {
            tokio::task::yield_now().await;
            if self.is_down.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Store, "the store is down"));
            }
            call(&self.limiter).await
        })
    }
}

impl Store for Remote {
    fn policy(&self) -> &Policy {
        self.limiter.policy()
    }

    fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        self.limiter.tier(quotas)
    }

    fn check<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        self.call(move |limiter| Store::check(limiter, target, cost))
    }

    fn check_at_most<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        self.call(move |limiter| Store::check_at_most(limiter, target, cost))
    }

    fn peek<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        self.call(move |limiter| Store::peek(limiter, target, cost))
    }

    fn refund<'a>(&'a self, target: Target<'a>, receipt: Receipt) -> StoreResult<'a, u64> {
        self.call(move |limiter| Store::refund(limiter, target, receipt))
    }

    fn settle<'a>(
        &'a self,
        target: Target<'a>,
        receipt: Receipt,
        actual: u64,
    ) -> StoreResult<'a, u64> {
        self.call(move |limiter| Store::settle(limiter, target, receipt, actual))
    }

    fn charge<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64> {
        self.call(move |limiter| Store::charge(limiter, target, units))
    }

    fn forgive<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64> {
        self.call(move |limiter| Store::forgive(limiter, target, units))
    }

    fn usage<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Usage> {
        self.call(move |limiter| Store::usage(limiter, target))
    }

    fn history<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Vec<Event>> {
        self.call(move |limiter| Store::history(limiter, target))
    }

    fn reset<'a>(&'a self, key: &'a [u8]) -> StoreResult<'a, bool> {
        self.call(move |limiter| Store::reset(limiter, key))
    }

    fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        self.limiter.receipt(key, units, tick, epoch)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
