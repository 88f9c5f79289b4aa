//! A third store: not in this process, as far as the layer knows, and it can be switched off.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slidegate::{
    Cost, Decision, Error, ErrorKind, Event, Limiter, Policy, Quota, Quotas, Receipt, Store,
    StoreFuture, Tier, Usage,
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
        call: impl FnOnce(&'a Limiter) -> StoreFuture<'a, Result<T, Error>> + Send + 'a,
    ) -> StoreFuture<'a, Result<T, Error>> {
        StoreFuture::pending(async move {
            tokio::task::yield_now().await;
            if self.is_down.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Store, "the store is down"));
            }
            // The limiter in memory answers at once.
            call(&self.limiter).try_now().unwrap()
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

    fn check<'a>(
        &'a self,
        key: &'a [u8],
        quotas: Quotas<'a>,
        cost: Cost,
    ) -> StoreFuture<'a, Result<Decision, Error>> {
        self.call(move |limiter| Store::check(limiter, key, quotas, cost))
    }

    fn peek<'a>(
        &'a self,
        key: &'a [u8],
        quotas: Quotas<'a>,
        cost: Cost,
    ) -> StoreFuture<'a, Result<Decision, Error>> {
        self.call(move |limiter| Store::peek(limiter, key, quotas, cost))
    }

    fn refund<'a>(
        &'a self,
        key: &'a [u8],
        quotas: Quotas<'a>,
        receipt: Receipt,
    ) -> StoreFuture<'a, Result<u64, Error>> {
        self.call(move |limiter| Store::refund(limiter, key, quotas, receipt))
    }

    fn settle<'a>(
        &'a self,
        key: &'a [u8],
        quotas: Quotas<'a>,
        receipt: Receipt,
        actual: u64,
    ) -> StoreFuture<'a, Result<u64, Error>> {
        self.call(move |limiter| Store::settle(limiter, key, quotas, receipt, actual))
    }

    fn forgive<'a>(
        &'a self,
        key: &'a [u8],
        quotas: Quotas<'a>,
        units: u64,
    ) -> StoreFuture<'a, Result<u64, Error>> {
        self.call(move |limiter| Store::forgive(limiter, key, quotas, units))
    }

    fn usage<'a>(
        &'a self,
        key: &'a [u8],
        quotas: Quotas<'a>,
    ) -> StoreFuture<'a, Result<Usage, Error>> {
        self.call(move |limiter| Store::usage(limiter, key, quotas))
    }

    fn history<'a>(
        &'a self,
        key: &'a [u8],
        quotas: Quotas<'a>,
    ) -> StoreFuture<'a, Result<Vec<Event>, Error>> {
        self.call(move |limiter| Store::history(limiter, key, quotas))
    }

    fn reset<'a>(&'a self, key: &'a [u8]) -> StoreFuture<'a, Result<bool, Error>> {
        self.call(move |limiter| Store::reset(limiter, key))
    }

    fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        self.limiter.receipt(key, units, tick, epoch)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
