//! The trait that every store implements.

use core::any::Any;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::limiter::{Event, Limiter, Tier, Usage};
use crate::policy::Policy;
use crate::quota::Quota;
use crate::receipt::Receipt;

/// Holds the state of one policy, in this process or behind a network.
///
/// Everything above a store (the gate, the middleware, the daemon) uses only this trait, so a new
/// store is one implementation of it. Keys are bytes, because that is what is sent to a server. A
/// store that replies immediately, such as a [`Limiter`], returns [`StoreFuture::ready`] and
/// neither allocates nor waits.
///
/// `Err` means that the store failed or that a tier belongs to another store. A denial is not an
/// error. When a store fails, the policy's [`FailureMode`](crate::FailureMode) decides. A store
/// that applies the failure mode itself returns a decision that
/// [`is_degraded`](Decision::is_degraded).
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Returns the policy.
    fn policy(&self) -> &Policy;

    /// Prepares other quotas for some keys. They work only with this store.
    ///
    /// # Errors
    ///
    /// Returns an error if the quotas do not fit the policy.
    fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error>;

    /// Checks a request, and takes its units if it is allowed.
    fn check<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision>;

    /// Takes as many units as fit, at most `cost`. The receipt has their number. Denied only if not
    /// even one unit fits.
    ///
    /// The default is an error of kind [`ErrorKind::Unsupported`].
    fn check_at_most<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        let _ = (target, cost);
        unsupported("check_at_most")
    }

    /// Decides several checks independently of each other. Yields one decision per target, in
    /// order.
    ///
    /// The default checks one target after the other. A store that needs a call per check should
    /// combine them.
    fn check_many<'a>(
        &'a self,
        targets: &'a [Target<'a>],
        cost: Cost,
    ) -> StoreResult<'a, Vec<Decision>> {
        StoreFuture::pending(async move {
            let mut decisions = Vec::with_capacity(targets.len());
            for target in targets {
                decisions.push(self.check(*target, cost).await?);
            }
            Ok(decisions)
        })
    }

    /// Evaluates a request without taking units.
    fn peek<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision>;

    /// Refunds the units of a receipt. Yields the number that was still counted.
    fn refund<'a>(&'a self, target: Target<'a>, receipt: Receipt) -> StoreResult<'a, u64>;

    /// Corrects a reservation to its actual cost. Yields the total number of units charged.
    fn settle<'a>(
        &'a self,
        target: Target<'a>,
        receipt: Receipt,
        actual: u64,
    ) -> StoreResult<'a, u64>;

    /// Records units without a check, above the limit if necessary. Yields their number.
    ///
    /// The default is an error of kind [`ErrorKind::Unsupported`].
    fn charge<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64> {
        let _ = (target, units);
        unsupported("charge")
    }

    /// Refunds up to `units` without a receipt, oldest first. Yields their number.
    fn forgive<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64>;

    /// Yields the units that count against each quota now.
    fn usage<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Usage>;

    /// Yields the requests in the longest window, oldest first, if the algorithm stores them.
    fn history<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Vec<Event>>;

    /// Removes a key, and ends its block. Yields `true` if it existed.
    fn reset<'a>(&'a self, key: &'a [u8]) -> StoreResult<'a, bool>;

    /// Denies every check and wait of a key for a time, instead of an earlier block.
    ///
    /// The default is an error of the kind [`ErrorKind::Unsupported`].
    fn block<'a>(&'a self, key: &'a [u8], time: Duration) -> StoreResult<'a, ()> {
        let _ = (key, time);
        unsupported("block")
    }

    /// Ends the block of a key. Yields whether there was one.
    ///
    /// The default is an error of the kind [`ErrorKind::Unsupported`].
    fn unblock<'a>(&'a self, key: &'a [u8]) -> StoreResult<'a, bool> {
        let _ = key;
        unsupported("unblock")
    }

    /// Rebuilds a receipt from the parts that were sent to a client.
    fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt;

    /// Identifies the stores that [`check_all`](Store::check_all) can combine with this one. By
    /// default, a store cannot be combined with others.
    fn group(&self) -> StoreGroup {
        StoreGroup::alone(self.policy())
    }

    /// Decides several checks of one [group](Store::group), all or nothing: either every decision
    /// is an allowance and all units were taken, or every decision is a denial and none were.
    /// Yields one decision per check, in order.
    ///
    /// The default is an error of kind [`ErrorKind::Unsupported`], after which the caller checks
    /// one store after the other.
    fn check_all<'a>(&'a self, asks: &'a [StoreAsk<'a>]) -> StoreResult<'a, Vec<Decision>> {
        let message = format!("store decides one request at a time, not {}", asks.len());
        StoreFuture::ready(Err(Error::new(ErrorKind::Unsupported, message)))
    }

    /// Returns whether [`wait`](Store::wait) serves the callers of this process in order.
    fn waits_in_order(&self) -> bool {
        false
    }

    /// Takes units as soon as they are available, first come, first served, within `timeout`.
    ///
    /// The default is an error of kind [`ErrorKind::Unsupported`].
    fn wait<'a>(
        &'a self,
        target: Target<'a>,
        cost: Cost,
        timeout: Duration,
        sleep: &'a SleepFn,
    ) -> StoreResult<'a, Decision> {
        let _ = (target, cost, timeout, sleep);
        unsupported("wait")
    }

    /// Returns metrics of the store, for `/metrics` and dashboards.
    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }

    /// Fetches the statistics of the store's servers for [`stats`](Store::stats). Call it regularly
    /// in the background. By default there is nothing to fetch.
    fn refresh_stats(&self) -> StoreResult<'_, ()> {
        StoreFuture::ready(Ok(()))
    }

    /// Returns whether the store applies the policy's failure mode itself. If not, the caller does
    /// so whenever [`check`](Store::check) fails.
    fn applies_failure_mode(&self) -> bool {
        false
    }

    /// Returns `true` if the store is available, and `false` while a circuit breaker is open or while its
    /// servers cannot be reached.
    fn is_available(&self) -> bool {
        true
    }

    /// Returns problems that an operator should fix, such as a server that evicts keys.
    fn warnings(&self) -> StoreResult<'_, Vec<String>> {
        StoreFuture::ready(Ok(Vec::new()))
    }

    /// Returns the limiter of a store with its state in this process, for snapshots, sweeps and
    /// memory budgets. `None` also means that keys leave the process.
    fn in_process(&self) -> Option<&Limiter> {
        None
    }

    /// Returns the store, so that [`check_all`](Store::check_all) can detect its type.
    fn as_any(&self) -> &dyn Any;
}

/// Returns the error of an operation that a store does not implement.
#[cold]
fn unsupported<'a, T>(operation: &str) -> StoreResult<'a, T> {
    let message = format!("store does not implement {operation}: use a Limiter or a RedisLimiter");
    StoreFuture::ready(Err(Error::new(ErrorKind::Unsupported, message)))
}

/// Converts a store, owned or shared, into a shared store.
pub trait IntoStore {
    /// Returns the shared store.
    fn into_store(self) -> Arc<dyn Store>;
}

impl<S: Store> IntoStore for S {
    fn into_store(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

impl<S: Store> IntoStore for Arc<S> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

impl IntoStore for Arc<dyn Store> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

/// Sleeps for a time, with the caller's runtime.
pub type SleepFn = dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// The quotas that a request is checked against.
#[derive(Debug, Clone, Copy, Default)]
pub enum Quotas<'a> {
    /// Those of the policy.
    #[default]
    Policy,
    /// Those of a tier. The store that created the tier accepts it; any other returns an error.
    Tier(&'a Tier),
    /// These quotas, without a tier. They have to fit the policy like those of a tier.
    Given(&'a [Quota]),
}

impl<'a> From<&'a Tier> for Quotas<'a> {
    fn from(tier: &'a Tier) -> Self {
        Self::Tier(tier)
    }
}

impl<'a> From<&'a [Quota]> for Quotas<'a> {
    fn from(quotas: &'a [Quota]) -> Self {
        Self::Given(quotas)
    }
}

impl<'a> From<Option<&'a Tier>> for Quotas<'a> {
    fn from(tier: Option<&'a Tier>) -> Self {
        tier.map_or(Self::Policy, Self::Tier)
    }
}

/// A key with its quotas.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its quotas.
    pub quotas: Quotas<'a>,
}

impl<'a> Target<'a> {
    /// A key with the quotas of the policy or of a tier.
    pub fn new(key: &'a [u8], quotas: impl Into<Quotas<'a>>) -> Self {
        Self { key, quotas: quotas.into() }
    }
}

/// One of several checks that [`Store::check_all`] decides together.
#[derive(Clone, Copy)]
pub struct StoreAsk<'a> {
    /// The store that decides.
    pub store: &'a dyn Store,
    /// The key and its quotas.
    pub target: Target<'a>,
    /// The units to take.
    pub cost: Cost,
}

/// Omits the key, which may be a secret.
impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}

/// Leaves out the key, which may be a secret.
impl fmt::Debug for StoreAsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreAsk")
            .field("policy", &self.store.policy().name())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// Identifies stores that can decide together: those with equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreGroup(usize);

impl StoreGroup {
    /// All limiters in this process.
    pub(crate) const MEMORY: Self = Self(0);

    /// The stores that share `connection`, which must outlive the group.
    pub fn of<T: ?Sized>(connection: &T) -> Self {
        Self(core::ptr::from_ref(connection).addr())
    }

    fn alone(policy: &Policy) -> Self {
        Self::of(policy)
    }
}

/// One metric of a store.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Stat {
    /// The name of the metric.
    pub name: &'static str,
    /// Its description, in one sentence.
    pub help: &'static str,
    /// The value.
    pub value: StatValue,
    /// Whether all policies on the same server share the value.
    pub is_shared: bool,
    /// A label with its value, for a metric of several parts. Other stats have the same name and
    /// other values.
    pub label: Option<(&'static str, &'static str)>,
}

/// The value of a [`Stat`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StatValue {
    /// A number that only grows.
    Count(u64),
    /// A number that also falls.
    Gauge(u64),
    /// A time.
    Time(Duration),
    /// One number divided by another.
    Ratio(u64, u64),
}

impl Stat {
    /// Creates a metric of one policy.
    pub const fn new(name: &'static str, help: &'static str, value: StatValue) -> Self {
        Self { name, help, value, is_shared: false, label: None }
    }

    /// Creates a metric that all policies on the same server share.
    pub const fn shared(name: &'static str, help: &'static str, value: StatValue) -> Self {
        Self { name, help, value, is_shared: true, label: None }
    }

    /// Returns the metric with a label.
    #[must_use]
    pub const fn with_label(self, name: &'static str, value: &'static str) -> Self {
        Self { label: Some((name, value)), ..self }
    }
}

/// The result of most store calls.
pub type StoreResult<'a, T> = StoreFuture<'a, Result<T, Error>>;

/// The result of a store call: ready immediately, or a future that waits for a server.
#[must_use = "a store call does nothing until it is awaited"]
pub struct StoreFuture<'a, T>(State<'a, T>);

enum State<'a, T> {
    Ready(Option<T>),
    Pending(PendingStore<'a, T>),
}

/// A future that waits for a server.
pub type PendingStore<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<'a, T> StoreFuture<'a, T> {
    /// Wraps a result that is already known.
    #[inline]
    pub const fn ready(result: T) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// Wraps a future that waits for a server.
    pub fn pending(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self(State::Pending(Box::pin(future)))
    }

    /// Returns the result if it is already known.
    ///
    /// # Errors
    ///
    /// Returns the future that has to be awaited.
    #[inline]
    pub fn try_now(self) -> Result<T, PendingStore<'a, T>>
    where
        T: 'a,
    {
        match self.0 {
            State::Ready(Some(result)) => Ok(result),
            // Its result was taken already by polling it.
            State::Ready(None) => Err(Box::pin(core::future::pending())),
            State::Pending(future) => Err(future),
        }
    }
}

impl<T: Unpin> Future for StoreFuture<'_, T> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.get_mut().0 {
            // Polled after completion, which a caller must not do.
            State::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            State::Pending(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for StoreFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "StoreFuture(ready)",
            State::Pending(_) => "StoreFuture(pending)",
        })
    }
}
