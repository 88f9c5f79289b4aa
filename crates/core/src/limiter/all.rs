//! Several keys, all or nothing.

use super::{Limiter, LimitsOf, StoreId, WithQuotas};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::memory::{LockedShard, Request, Wakers};
use crate::policy::Mode;

/// One of several checks that are decided together.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    limiter: &'a Limiter,
    limits: LimitsOf<'a>,
    fingerprint: u64,
    cost: u64,
}

impl<'a> Ask<'a> {
    /// Creates a check of `cost` units of `key`, with the policy's quotas or, after
    /// [`Limiter::with`], those of a tier.
    pub fn new<K: Key + ?Sized>(limiter: impl Into<WithQuotas<'a>>, key: &K, cost: Cost) -> Self {
        let WithQuotas { limiter, limits } = limiter.into();
        let fingerprint = key.fingerprint(&limiter.secret);
        Self { limiter, limits, fingerprint, cost: cost.get() }
    }

    fn request(&self, cost: u64) -> Request<'_> {
        let moment = self.limiter.moment();
        Request { fingerprint: self.fingerprint, limits: self.limits.get(), moment, cost }
    }

    /// Returns the position of its lock in the global order.
    fn place(&self) -> (StoreId, usize) {
        (self.limiter.id, self.limiter.store.shard_of(self.fingerprint))
    }
}

/// The maximum number of checks that are decided together.
const ASKS_MAX: usize = 64;

/// Checks several limiters, or one for several keys, all or nothing and atomically: either every
/// decision is an allowance and all units were taken, or every one is a denial and none were.
///
/// The decisions are in the order of `asks`. In a denial, the checks that denied are those
/// whose `retry_after` is not zero. Costs of a repeated key are summed. A policy in shadow mode
/// never denies.
///
/// ```
/// use slidegate::{Ask, Cost, Limiter, Policy, Quota, check_all};
///
/// let by_address = Limiter::new(Policy::new("address", Quota::per_minute(2))?)?;
/// let by_user = Limiter::new(Policy::new("user", Quota::per_minute(1))?)?;
/// let ask = || {
///     check_all(&[
///         Ask::new(&by_address, "192.0.2.1", Cost::ONE),
///         Ask::new(&by_user, "alice", Cost::ONE),
///     ])
/// };
///
/// assert!(ask()?.iter().all(|decision| decision.is_allowed()));
/// assert!(ask()?.iter().all(|decision| !decision.is_allowed()));
/// // The address was not charged for the request that the user's quota denied.
/// assert_eq!(by_address.usage("192.0.2.1").units(0), 1);
/// # Ok::<(), slidegate::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if there are more than 64 checks.
pub fn check_all(asks: &[Ask<'_>]) -> Result<Vec<Decision>, Error> {
    if asks.len() > ASKS_MAX {
        let (value, allowed) = (asks.len(), "64 or fewer");
        return Err(Error::out_of_range(ErrorKind::Setting, "number of asks", value, allowed));
    }
    let mut locks = Locks::new(asks);
    let looks: Vec<Decision> = asks.iter().map(|ask| locks.peek(ask, sum(ask, asks))).collect();
    let denied = asks.iter().zip(&looks).any(|(ask, look)| !ask.is_shadow() && !look.is_allowed());
    if denied {
        return Ok(deny_all(asks, looks));
    }
    let mut wakers = Wakers::default();
    let decisions = take_all(asks, looks, &mut locks, &mut wakers);
    drop(locks);
    wakers.wake();
    Ok(decisions)
}

impl Ask<'_> {
    fn is_shadow(&self) -> bool {
        self.limiter.policy.mode() == Mode::Shadow
    }
}

/// Returns the sum of all costs for the same key.
fn sum(ask: &Ask<'_>, asks: &[Ask<'_>]) -> u64 {
    let same = |other: &&Ask<'_>| {
        other.fingerprint == ask.fingerprint && core::ptr::eq(other.limiter, ask.limiter)
    };
    asks.iter().filter(same).fold(0, |sum: u64, other| sum.saturating_add(other.cost))
}

fn take_all(
    asks: &[Ask<'_>],
    mut looks: Vec<Decision>,
    locks: &mut Locks<'_>,
    wakers: &mut Wakers,
) -> Vec<Decision> {
    let mut taken = Vec::with_capacity(asks.len());
    for (ask, look) in asks.iter().zip(&mut looks) {
        // Only a policy in shadow mode is denied here, and takes no units.
        let decision = if look.is_allowed() { locks.check(ask) } else { look.clone() };
        if !decision.is_allowed() && !ask.is_shadow() {
            // A full table can still deny: then the taken units are refunded.
            for (ask, decision) in asks.iter().zip(&taken) {
                locks.give_back(ask, decision, wakers);
            }
            *look = decision;
            return deny_all(asks, looks);
        }
        taken.push(decision);
    }
    asks.iter().zip(taken).map(|(ask, decision)| ask.limiter.finish(decision)).collect()
}

fn deny_all(asks: &[Ask<'_>], looks: Vec<Decision>) -> Vec<Decision> {
    let denied = asks.iter().zip(looks);
    denied
        .map(
            |(ask, look)| {
                if ask.is_shadow() { ask.limiter.finish(look) } else { look.into_denied() }
            },
        )
        .collect()
}

/// All locks that some checks need, taken in one global order.
struct Locks<'a> {
    held: Vec<((StoreId, usize), Box<dyn LockedShard + 'a>)>,
}

impl<'a> Locks<'a> {
    fn new(asks: &[Ask<'a>]) -> Self {
        let mut order: Vec<_> = asks.iter().map(|ask| (ask.place(), ask.limiter)).collect();
        order.sort_unstable_by_key(|(place, _)| *place);
        order.dedup_by_key(|(place, _)| *place);
        let lock = |(place, limiter): ((StoreId, usize), &'a Limiter)| {
            (place, limiter.store.lock(place.1))
        };
        Self { held: order.into_iter().map(lock).collect() }
    }

    fn peek(&mut self, ask: &Ask<'_>, cost: u64) -> Decision {
        self.of(ask).peek(&ask.request(cost))
    }

    fn check(&mut self, ask: &Ask<'_>) -> Decision {
        self.of(ask).check(&ask.request(ask.cost))
    }

    fn give_back(&mut self, ask: &Ask<'_>, decision: &Decision, wakers: &mut Wakers) {
        if let Some(receipt) = decision.receipt() {
            let (tick, epoch) = (receipt.tick, receipt.epoch);
            self.of(ask).give_back(&ask.request(ask.cost), tick, epoch, wakers);
        }
    }

    fn of(&mut self, ask: &Ask<'_>) -> &mut (dyn LockedShard + 'a) {
        let place = ask.place();
        let found = self.held.partition_point(|(held, _)| *held < place);
        &mut *self.held[found].1
    }
}
