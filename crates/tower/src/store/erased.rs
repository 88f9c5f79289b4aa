//! A store whose type is forgotten.

use core::future::Future;
use core::pin::Pin;

use slidegate::{Cost, Decision, Error, FailureMode, Limiter, Policy, Receipt, Store};

type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Store`] as a trait object. A box a call, which is little beside a network.
pub(crate) trait Erased: Send + Sync {
    fn policy(&self) -> &Policy;

    /// Always answers: if the store fails, by its policy's failure mode.
    fn check<'a>(&'a self, key: &'a [u8], cost: Cost) -> Pending<'a, Decision>;

    /// To whom the receipt is of: the store, or the limiter in this process.
    fn refund<'a>(&'a self, key: &'a [u8], receipt: Receipt) -> Pending<'a, Result<u64, Error>>;
}

/// A store, and a limiter in this process for when it fails.
pub(super) struct WithLocal<S> {
    store: S,
    local: Option<Limiter>,
}

/// What the limiter in this process may take. Enough for 600,000 keys; beyond, it over-counts.
const LOCAL_BYTES: usize = 64 << 20;

impl<S: Store> WithLocal<S> {
    pub(super) fn new(store: S) -> Result<Self, Error> {
        let policy = store.policy();
        let local = match policy.failure_mode() {
            FailureMode::Local => {
                Some(Limiter::builder(policy.clone()).memory_limit(LOCAL_BYTES).build()?)
            }
            _ => None,
        };
        Ok(Self { store, local })
    }

    fn failed(&self, key: &[u8], cost: Cost) -> Decision {
        match &self.local {
            Some(local) => local.check_cost(key, cost).into_degraded(),
            None => super::failed(self.store.policy()),
        }
    }
}

impl<S: Store> Erased for WithLocal<S> {
    fn policy(&self) -> &Policy {
        self.store.policy()
    }

    fn check<'a>(&'a self, key: &'a [u8], cost: Cost) -> Pending<'a, Decision> {
        Box::pin(async move {
            match self.store.check(key, cost).await {
                Ok(decision) => decision,
                Err(_) => self.failed(key, cost),
            }
        })
    }

    fn refund<'a>(&'a self, key: &'a [u8], receipt: Receipt) -> Pending<'a, Result<u64, Error>> {
        match &self.local {
            // The store knows nothing of what was let through without it.
            Some(local) if local.has_issued(key, &receipt) => {
                let given = local.refund(receipt);
                Box::pin(core::future::ready(Ok(given)))
            }
            _ => Box::pin(self.store.refund(key, receipt)),
        }
    }
}
