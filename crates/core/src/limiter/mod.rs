//! A limiter: a policy with its memory and clock.

mod all;
mod builder;
mod save;
mod stats;
mod store;
mod tier;
mod wait;
mod with_quotas;

pub use all::{Ask, check_all};
pub use builder::LimiterBuilder;
pub use save::RestoreReport;
pub use stats::{Event, Stats, Usage};
pub use tier::{StoreId, Tier};
use with_quotas::LimitsOf;
pub use with_quotas::WithQuotas;

use core::ops::Range;
use core::time::Duration;

use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key::{Key, Secret};
use crate::memory::{AnyStore, OnFull, Request};
use crate::policy::{Mode, Policy};
use crate::quota::Quota;
use crate::receipt::Receipt;
use crate::store::Quotas;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::{AnyClock, Moment, TickScale};
use crate::window::Limits;

/// Decides requests with one policy, in this process.
///
/// Share it by reference or in an `Arc`: every method takes `&self`. A check takes one hash and one
/// lock, and does not allocate in steady state.
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota};
///
/// let limiter = Limiter::new(Policy::new("uploads", Quota::per_hour(1000))?)?;
///
/// let decision = limiter.check_cost("alice", Cost::new(400)?);
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 600);
///
/// // The upload failed: refund exactly those units.
/// if let Some(receipt) = decision.into_receipt() {
///     assert_eq!(limiter.refund(receipt), 400);
/// }
/// assert_eq!(limiter.usage("alice").units(0), 0);
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug)]
pub struct Limiter {
    policy: Policy,
    limits: Limits,
    store: AnyStore,
    clock: AnyClock,
    scale: TickScale,
    secret: Secret,
    waits: bool,
    memory_limit: AtomicUsize,
    /// The shard at which the next call of `sweep` starts.
    sweep_at: AtomicUsize,
    /// Orders the locks of several limiters, and identifies the limiter's tiers.
    id: StoreId,
    /// The ticks between a snapshot and its restore. Units of these ticks are not recorded, so
    /// receipts for them are void.
    lost: Vec<Range<u64>>,
}

impl Limiter {
    /// The least memory limit, in bytes: 16 KiB.
    pub const MEMORY_MIN: usize = builder::MEMORY_MIN;

    /// Creates a limiter with the defaults of [`LimiterBuilder`].
    ///
    /// # Errors
    ///
    /// Returns an error if the policy does not fit the defaults.
    pub fn new(policy: Policy) -> Result<Self, Error> {
        Self::builder(policy).build()
    }

    /// Returns a builder.
    pub fn builder(policy: Policy) -> LimiterBuilder {
        LimiterBuilder::new(policy)
    }

    /// Checks one unit, and takes it if allowed.
    #[inline]
    pub fn check<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_cost(key, Cost::ONE)
    }

    /// Checks several units, and takes them all if allowed.
    #[inline]
    pub fn check_cost<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        let fingerprint = key.fingerprint(&self.secret);
        if cost == Cost::ONE {
            return self.decide_one(fingerprint);
        }
        self.decide(fingerprint, &self.limits, cost.get())
    }

    /// Takes as many units as fit, at most `cost`: see [`WithQuotas::check_at_most`].
    pub fn check_at_most<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.with_policy().check_at_most(key, cost)
    }

    /// Checks many keys at once, and returns one decision for each in the same order. A key that
    /// occurs several times is checked in order.
    ///
    /// It takes down to half of the time of single checks if the keys do not fit into the
    /// processor's cache, also if several threads check the same keys. With less state, it checks
    /// one key after the other.
    pub fn check_many<K: Key>(&self, keys: &[K], cost: Cost, decisions: &mut Vec<Decision>) {
        decisions.clear();
        decisions.reserve(keys.len());
        let moment = self.moment();
        let request = |key: &K| Request {
            fingerprint: key.fingerprint(&self.secret),
            limits: &self.limits,
            moment,
            cost: cost.get(),
        };
        for keys in keys.chunks(MANY) {
            let mut requests =
                [Request { fingerprint: 0, limits: &self.limits, moment, cost: cost.get() }; MANY];
            for (place, key) in requests.iter_mut().zip(keys) {
                *place = request(key);
            }
            self.store.check_many(&requests[..keys.len()], decisions);
        }
        if self.policy.mode() == Mode::Shadow {
            for decision in decisions {
                decision.make_shadow();
            }
        }
    }

    /// Evaluates [`check`](Limiter::check) without taking units.
    pub fn peek<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.peek_cost(key, Cost::ONE)
    }

    /// Evaluates [`check_cost`](Limiter::check_cost) without taking units.
    pub fn peek_cost<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.with_policy().peek_cost(key, cost)
    }

    /// Takes an estimate now, which [`settle`](Limiter::settle) corrects when the cost is known:
    /// see [`WithQuotas::reserve`].
    pub fn reserve<K: Key + ?Sized>(&self, key: &K, estimate: u64) -> Decision {
        self.with_policy().reserve(key, estimate)
    }

    /// Rebuilds a receipt from its parts: the key and the units, tick and epoch of a receipt that
    /// this limiter issued, or the limiter whose snapshot it restored. Receipts that were issued
    /// after that snapshot are void.
    ///
    /// Refund or settle each receipt once. A second refund may return units of other requests: see
    /// [`WithQuotas::forgive`].
    pub fn receipt<K: Key + ?Sized>(&self, key: &K, units: u64, tick: u64, epoch: u16) -> Receipt {
        Receipt { fingerprint: key.fingerprint(&self.secret), tick, units, epoch }
    }

    /// Refunds exactly the units of a receipt: see [`WithQuotas::refund`].
    pub fn refund(&self, receipt: Receipt) -> u64 {
        self.with_policy().refund(receipt)
    }

    /// Corrects a reservation to its actual cost: see [`WithQuotas::settle`].
    pub fn settle(&self, receipt: Receipt, actual: u64) -> u64 {
        self.with_policy().settle(receipt, actual)
    }

    /// Records units without a check, above the limit if necessary: see [`WithQuotas::charge`].
    pub fn charge<K: Key + ?Sized>(&self, key: &K, units: u64) -> u64 {
        self.with_policy().charge(key, units)
    }

    /// Refunds up to `units` without a receipt: see [`WithQuotas::forgive`].
    pub fn forgive<K: Key + ?Sized>(&self, key: &K, units: u64) -> u64 {
        self.with_policy().forgive(key, units)
    }

    /// Returns `true` if this limiter issued the receipt for `key`. Use it to find the store of a
    /// receipt if there are several.
    pub fn has_issued<K: Key + ?Sized>(&self, key: &K, receipt: &Receipt) -> bool {
        receipt.fingerprint == key.fingerprint(&self.secret)
    }

    /// Returns the units that count against each quota now. They are zero for a key that is not in the
    /// table because memory is full, although the sketch may deny it.
    pub fn usage<K: Key + ?Sized>(&self, key: &K) -> Usage {
        self.with_policy().usage(key)
    }

    /// Returns every request that is still in the longest window: see [`WithQuotas::history`].
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm is not a log, because the others do not store times.
    pub fn history<K: Key + ?Sized>(&self, key: &K) -> Result<Vec<Event>, Error> {
        self.with_policy().history(key)
    }

    /// Returns the limiter with the quotas of a tier, for the keys that have it.
    ///
    /// # Errors
    ///
    /// Returns an error if another limiter created the tier.
    #[inline]
    pub fn with<'a>(&'a self, quotas: impl Into<Quotas<'a>>) -> Result<WithQuotas<'a>, Error> {
        let limits = match quotas.into() {
            Quotas::Policy => &self.limits,
            Quotas::Tier(tier) => tier.prepared(self.id)?,
            Quotas::Given(quotas) => return self.with_quotas(quotas),
        };
        Ok(WithQuotas { limiter: self, limits: LimitsOf::Prepared(limits) })
    }

    /// Returns the limiter with quotas that are given with the request, such as a limit that a
    /// database holds for each customer. No tier has to be created before.
    ///
    /// What [`tier`](Limiter::tier) says about changes of a key's quotas applies. Keys are kept for
    /// the longest window that any request or tier ever had, so do not take windows from clients.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    ///
    /// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(10))?)?;
    /// let limit_of_bob = 500;
    /// let decision = limiter.with_quotas(&[Quota::per_minute(limit_of_bob)])?.check("bob");
    /// assert_eq!(decision.remaining(), 499);
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`tier`](Limiter::tier).
    pub fn with_quotas(&self, quotas: &[Quota]) -> Result<WithQuotas<'_>, Error> {
        let limits = LimitsOf::Given(self.prepare(quotas)?);
        Ok(WithQuotas { limiter: self, limits })
    }

    #[inline]
    fn with_policy(&self) -> WithQuotas<'_> {
        WithQuotas { limiter: self, limits: LimitsOf::Prepared(&self.limits) }
    }

    /// Removes a key and ends its block. Returns `true` if it existed. Receipts handed out for it
    /// are void.
    ///
    /// Callers that wait for units of the key stay in the queue, and those in front get theirs at once.
    /// What the overflow sketch may remember of the key stays until its windows have passed.
    pub fn reset<K: Key + ?Sized>(&self, key: &K) -> bool {
        self.store.reset(key.fingerprint(&self.secret), self.moment())
    }

    /// Denies every check and wait of a key for `time`, whatever its quotas say. It replaces an
    /// earlier block, also by a shorter one. At most ten years, rounded up to a tick.
    ///
    /// `retry_after` is the time until the block ends, or the window's if that is longer, and
    /// nothing remains. Usage, refunds and charges of the key work as before. Callers that wait are
    /// denied when their turn comes. Blocks are part of a snapshot, and [`reset`](Limiter::reset)
    /// ends them.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    /// use std::time::Duration;
    ///
    /// let limiter = Limiter::new(Policy::new("login", Quota::per_minute(10))?)?;
    /// limiter.block("mallory", Duration::from_secs(3600))?;
    /// let decision = limiter.check("mallory");
    /// assert!(!decision.is_allowed() && decision.is_blocked());
    ///
    /// assert!(limiter.unblock("mallory"));
    /// assert!(limiter.check("mallory").is_allowed());
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Memory`] if the memory limit has no room for
    /// another block: all blocks together may take a sixteenth of it.
    pub fn block<K: Key + ?Sized>(&self, key: &K, time: Duration) -> Result<(), Error> {
        let ticks = self.scale.window(time.min(Quota::WINDOW_MAX));
        if self.store.block(key.fingerprint(&self.secret), ticks, self.moment()) {
            return Ok(());
        }
        let message = "no memory for another blocked key: raise memory_limit or unblock others";
        Err(Error::new(ErrorKind::Memory, message))
    }

    /// Ends the block of a key. Returns `true` if there was one. What the key took before and
    /// during the block still counts.
    pub fn unblock<K: Key + ?Sized>(&self, key: &K) -> bool {
        self.store.unblock(key.fingerprint(&self.secret), self.moment())
    }

    /// Removes keys that can no longer affect a decision: examines up to `slots_max` slots and
    /// continues where the last call stopped. Returns the number of removed keys.
    ///
    /// Checks do this automatically, a few slots at a time. Call it if traffic may stop and memory
    /// should still be released. No lock is held for more than 256 slots.
    pub fn sweep(&self, slots_max: usize) -> usize {
        let moment = self.moment();
        let (mut left, mut dropped) = (slots_max, 0);
        for _ in 0..self.store.shards() {
            // Another thread may sweep the same shard, which is harmless: both examine slots in
            // turn.
            let shard = self.sweep_at.fetch_add(1, Ordering::Relaxed);
            // Two rounds, because the table can shrink at its end only after the last key.
            let mut whole = 2 * self.store.capacity(shard) + 2;
            while left > 0 && whole > 0 {
                let (seen, gone) = self.store.sweep(shard, left.min(whole).min(256), moment);
                dropped += gone;
                left -= seen;
                whole = if seen == 0 { 0 } else { whole.saturating_sub(seen) };
            }
            if left == 0 {
                break;
            }
        }
        dropped
    }

    /// Sets another memory limit while the limiter is in use. Returns the current limit, which is
    /// at least what its shards need.
    ///
    /// A higher limit applies immediately. With a lower one, no recorded unit is lost or changed:
    /// new keys do not fit, and are treated by [`on_full`](LimiterBuilder::on_full) until enough of
    /// the others have expired or, with [`OnFull::Lru`](crate::OnFull::Lru), were evicted. Until
    /// then [`Stats::bytes`] may be above the limit and, as with any full budget, a log that needs
    /// another block merges entries, which may deny early and never over-admits.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    ///
    /// let policy = Policy::builder("api").quota(Quota::per_minute(100)).build()?;
    /// let limiter = Limiter::builder(policy).memory_limit(64 << 20).build()?;
    /// assert_eq!(limiter.set_memory_limit(128 << 20), 128 << 20);
    /// assert_eq!(limiter.stats().memory_limit, 128 << 20);
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    pub fn set_memory_limit(&self, bytes: usize) -> usize {
        let bytes = bytes.max(self.memory_limit_min());
        if self.memory_limit.swap(bytes, Ordering::Relaxed) != bytes {
            self.store.set_memory_limit(bytes);
        }
        bytes
    }

    /// Returns the least memory limit that this limiter can be set to. It grows with the number of
    /// shards, which does not change.
    pub fn memory_limit_min(&self) -> usize {
        builder::memory_least(self.store.shards())
    }

    /// Sets how keys that do not fit are treated from now on. Usage in the overflow sketch is kept
    /// in any case.
    pub fn set_on_full(&self, on_full: OnFull) {
        self.store.set_on_full(on_full);
    }

    /// Returns the memory usage, and counters of events.
    pub fn stats(&self) -> Stats {
        let store = self.store.stats();
        Stats {
            keys: store.keys,
            bytes: store.bytes,
            table_bytes: store.table_bytes,
            table_limit: store.table_limit,
            log_bytes: store.log_bytes,
            log_units: store.log_units,
            memory_limit: self.memory_limit.load(Ordering::Relaxed),
            evictions: store.evictions,
            overflowed: store.overflowed,
            swept: store.swept,
            longest_hold: store.longest_hold,
            waiters: store.waiters,
            blocked: store.blocked,
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Prepares other quotas for some keys, such as paying customers. Create a tier once and use it
    /// often.
    ///
    /// A key may change its tier at any time, and its recorded units still count. After a change to
    /// a longer window, the guarantee holds from one such window later. Under another window, counter,
    /// segments and fixed window count all units of a key as taken with the latest one; GCRA reads
    /// them as a share of it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no quota or more than the policy has. Algorithms other than the
    /// log need the same number as the policy.
    pub fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        let limits = self.prepare(quotas)?;
        Tier::new(self.id, &self.policy, quotas, || Ok(limits))
    }

    /// Checks other quotas than the policy's, and keeps keys for their windows from now on.
    fn prepare(&self, quotas: &[Quota]) -> Result<Limits, Error> {
        Tier::check(&self.policy, quotas)?;
        let limits = Limits::new(quotas, self.policy.algorithm(), &self.scale);
        self.store.keep(limits.longest());
        Ok(limits)
    }

    #[inline]
    fn moment(&self) -> Moment {
        self.scale.moment(self.clock.read().nanos())
    }

    /// Decides one unit with the policy's quotas, the usual check. Compiled once for all types of
    /// keys.
    #[inline(never)]
    fn decide_one(&self, fingerprint: u64) -> Decision {
        let reading = self.clock.read();
        let moment = || self.scale.moment(reading.nanos());
        match &self.store {
            AnyStore::Log(store) => store.check_single(fingerprint, moment),
            AnyStore::Counter(store) => store.check_single(fingerprint, moment),
            AnyStore::Other(store) if self.policy.mode() == Mode::Enforce => {
                store.check_one(fingerprint, moment())
            }
            AnyStore::Other(_) => self.decide_slowly(fingerprint, &self.limits, moment(), 1),
        }
    }

    /// Decides any number of units with any quotas.
    #[inline(never)]
    fn decide(&self, fingerprint: u64, limits: &Limits, cost: u64) -> Decision {
        self.decide_slowly(fingerprint, limits, self.moment(), cost)
    }

    #[inline(never)]
    fn decide_slowly(
        &self,
        fingerprint: u64,
        limits: &Limits,
        moment: Moment,
        cost: u64,
    ) -> Decision {
        let mut decision = self.store.check(&Request { fingerprint, limits, moment, cost });
        if self.policy.mode() == Mode::Shadow {
            decision.make_shadow();
        }
        decision
    }

    fn finish(&self, mut decision: Decision) -> Decision {
        if self.policy.mode() == Mode::Shadow {
            decision.make_shadow();
        }
        decision
    }
}

/// The number of keys that are hashed together.
const MANY: usize = 64;
