//! Policy, memory and clock together.

mod all;
mod builder;
mod save;
mod stats;
mod tier;
mod wait;

pub use all::{Ask, check_all};
pub use builder::LimiterBuilder;
pub use save::RestoreReport;
pub use stats::{Event, Stats, Usage};
pub use tier::Tier;

use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key::{Key, Secret};
use crate::memory::{AnyStore, OnFull, Request};
use crate::policy::{Mode, Policy};
use crate::quota::Quota;
use crate::receipt::Receipt;
use crate::store::Store;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::{AnyClock, Moment, TickScale};
use crate::window::Limits;

/// Decides who may go on, under one policy, in this process.
///
/// Shared by reference or in an `Arc`; every method takes `&self`. One hash and one lock a check,
/// no allocation in steady state.
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota};
///
/// let limiter = Limiter::new(Policy::new("uploads", Quota::per_hour(1000)?)?)?;
///
/// let decision = limiter.check_cost("alice", Cost::new(400)?);
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 600);
///
/// // The upload failed: give the very units back.
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
    waiters: AtomicUsize,
    waiters_max: usize,
    memory_limit: AtomicUsize,
    /// The shard that the next call of `sweep` begins with.
    sweep_at: AtomicUsize,
    /// Its place in the order in which locks are taken.
    number: usize,
}

impl Limiter {
    /// A limiter with everything by default: see [`LimiterBuilder`] for what that is.
    ///
    /// # Errors
    ///
    /// When the policy does not fit the defaults.
    pub fn new(policy: Policy) -> Result<Self, Error> {
        Self::builder(policy).build()
    }

    /// Starts a limiter.
    pub fn builder(policy: Policy) -> LimiterBuilder {
        LimiterBuilder::new(policy)
    }

    /// Asks for one unit, and takes it if allowed.
    #[inline]
    pub fn check<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_cost(key, Cost::ONE)
    }

    /// Asks for several units, and takes them all if allowed.
    #[inline]
    pub fn check_cost<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        let fingerprint = key.fingerprint(&self.secret);
        if cost == Cost::ONE {
            return self.decide_one(fingerprint);
        }
        self.decide(fingerprint, &self.limits, cost.get())
    }

    /// As [`check_cost`](Limiter::check_cost), for a key that has other quotas than the policy.
    pub fn check_tier<K: Key + ?Sized>(&self, key: &K, tier: &Tier, cost: Cost) -> Decision {
        self.decide(key.fingerprint(&self.secret), &tier.limits, cost.get())
    }

    /// Asks for many keys at once, one decision each in the same order. Takes down to half of the
    /// time of single checks once the keys do not fit the processor's cache; where several threads
    /// ask for the same few keys, it may take longer.
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

    /// Decides as if asked, and takes nothing: `remaining` is what is left now.
    pub fn peek<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.finish(self.store.peek(&self.request(key, &self.limits, cost.get())))
    }

    /// As [`peek`](Limiter::peek), for a key that has other quotas than the policy.
    pub fn peek_tier<K: Key + ?Sized>(&self, key: &K, tier: &Tier, cost: Cost) -> Decision {
        self.finish(self.store.peek(&self.request(key, &tier.limits, cost.get())))
    }

    /// Takes an estimate now; [`settle`](Limiter::settle) corrects it when the cost is known. The
    /// same as [`check_cost`](Limiter::check_cost), under the name of what it is for.
    pub fn reserve<K: Key + ?Sized>(&self, key: &K, estimate: Cost) -> Decision {
        self.check_cost(key, estimate)
    }

    /// The receipt of a key whose parts have travelled: units, tick and epoch as an earlier one of
    /// this limiter, or of the limiter whose snapshot this one restored, told them.
    pub fn receipt<K: Key + ?Sized>(&self, key: &K, units: u64, tick: u64, epoch: u16) -> Receipt {
        Receipt { fingerprint: key.fingerprint(&self.secret), tick, units, epoch }
    }

    /// Gives back the very units that a receipt names, and says how many there were to give: none
    /// after they have expired or the key was reset.
    pub fn refund(&self, receipt: Receipt) -> u64 {
        self.give_back(receipt, &self.limits)
    }

    /// As [`refund`](Limiter::refund), of a receipt from [`check_tier`](Limiter::check_tier).
    pub fn refund_tier(&self, receipt: Receipt, tier: &Tier) -> u64 {
        self.give_back(receipt, &tier.limits)
    }

    #[expect(clippy::needless_pass_by_value, reason = "a receipt works once")]
    fn give_back(&self, receipt: Receipt, limits: &Limits) -> u64 {
        let Receipt { fingerprint, tick, units, epoch } = receipt;
        self.store.give_back(&self.request_for(fingerprint, limits, units), tick, epoch)
    }

    /// Gives back up to `units` that no receipt names, and says how many there were: the oldest
    /// that count first, as they would be free again soonest anyway. Algorithms that keep no times
    /// give back of the oldest and the newest part that they count.
    ///
    /// For callers that cannot keep receipts. With one, [`refund`](Limiter::refund) is exact.
    pub fn forgive<K: Key + ?Sized>(&self, key: &K, units: u64) -> u64 {
        self.store.forgive(&self.request(key, &self.limits, units))
    }

    /// As [`forgive`](Limiter::forgive), for a key that has other quotas than the policy.
    pub fn forgive_tier<K: Key + ?Sized>(&self, key: &K, units: u64, tier: &Tier) -> u64 {
        self.store.forgive(&self.request(key, &tier.limits, units))
    }

    /// Whether it was this limiter that handed out a receipt for `key`. For who keeps a limiter
    /// beside another store and has to know where units go back to.
    pub fn has_issued<K: Key + ?Sized>(&self, key: &K, receipt: &Receipt) -> bool {
        receipt.fingerprint == key.fingerprint(&self.secret)
    }

    /// Corrects an estimate to the real cost, and says how many units were charged for it in all.
    ///
    /// What was taken too much is given back, unless it has expired. What was taken too little is recorded as debt, above
    /// the limit if need be: it was used, so it counts.
    pub fn settle(&self, receipt: Receipt, actual: u64) -> u64 {
        self.correct(receipt, actual, &self.limits)
    }

    /// As [`settle`](Limiter::settle), of a receipt from [`check_tier`](Limiter::check_tier).
    pub fn settle_tier(&self, receipt: Receipt, actual: u64, tier: &Tier) -> u64 {
        self.correct(receipt, actual, &tier.limits)
    }

    #[expect(clippy::needless_pass_by_value, reason = "a receipt works once")]
    fn correct(&self, receipt: Receipt, actual: u64, limits: &Limits) -> u64 {
        let Receipt { fingerprint, tick, units, epoch } = receipt;
        if actual < units {
            let request = self.request_for(fingerprint, limits, units - actual);
            return units - self.store.give_back(&request, tick, epoch);
        }
        let debt = (actual - units).min(Quota::LIMIT_MAX);
        if debt > 0 {
            self.store.take(&self.request_for(fingerprint, limits, debt));
        }
        units + debt
    }

    /// Units that count against each quota now.
    pub fn usage<K: Key + ?Sized>(&self, key: &K) -> Usage {
        self.used(key, &self.limits)
    }

    /// As [`usage`](Limiter::usage), for a key that has other quotas than the policy.
    pub fn usage_tier<K: Key + ?Sized>(&self, key: &K, tier: &Tier) -> Usage {
        self.used(key, &tier.limits)
    }

    fn used<K: Key + ?Sized>(&self, key: &K, limits: &Limits) -> Usage {
        let units = self.store.used(&self.request(key, limits, 1));
        Usage { units, quotas: limits.quotas().len() }
    }

    /// Every request that is still in the longest window, oldest first, for audits.
    ///
    /// Times are exact to the tick, rounded up; requests of the same tick are one event. Under
    /// memory pressure, or a byte cap, neighbours may have become one event at the later time.
    ///
    /// # Errors
    ///
    /// When the algorithm is not a log: the others keep counts and no times.
    pub fn history<K: Key + ?Sized>(&self, key: &K) -> Result<Vec<Event>, Error> {
        self.events(key, &self.limits)
    }

    /// As [`history`](Limiter::history), for a key that has other quotas than the policy.
    ///
    /// # Errors
    ///
    /// When the algorithm is not a log.
    pub fn history_tier<K: Key + ?Sized>(&self, key: &K, tier: &Tier) -> Result<Vec<Event>, Error> {
        self.events(key, &tier.limits)
    }

    fn events<K: Key + ?Sized>(&self, key: &K, limits: &Limits) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        let kept = self.store.history(&self.request(key, limits, 1), &mut |tick, units| {
            events.push(Event { at: self.scale.duration(tick), units });
        });
        if kept {
            return Ok(events);
        }
        let message = format!("{:?} keeps no history: use Algorithm::Log", self.policy.algorithm());
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Forgets a key; whether there was anything to forget. Receipts handed out for it are void.
    /// What the overflow sketch may remember of it stays until its windows have passed.
    pub fn reset<K: Key + ?Sized>(&self, key: &K) -> bool {
        self.store.reset(key.fingerprint(&self.secret))
    }

    /// Drops keys that can no longer change a decision: looks at up to `slots_max` slots and goes
    /// on where the last call stopped. Returns how many keys were dropped.
    ///
    /// Checks do this by themselves, a few slots at a time; call it where traffic may stop and
    /// memory should go back all the same. No lock is held for more than 256 slots.
    pub fn sweep(&self, slots_max: usize) -> usize {
        let moment = self.moment();
        let (mut left, mut dropped) = (slots_max, 0);
        for _ in 0..self.store.shards() {
            // Another thread may sweep the same shard: harmless, as both look at slots in turn.
            let shard = self.sweep_at.fetch_add(1, Ordering::Relaxed);
            // Twice round: the end of the table, where it may shrink, comes after the last key.
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

    /// Gives it another memory budget, while it is in use. Returns the one in force: no less than its
    /// shards need, which are as many as it was made with.
    ///
    /// More is there at once. With less, nothing that is on record is forgotten or changed: who finds
    /// no room are new keys, which are treated by [`on_full`](LimiterBuilder::on_full) until enough of
    /// the others have expired or, with [`OnFull::Lru`](crate::OnFull::Lru), were moved out. Until then
    /// [`Stats::bytes`] may be above the limit and, as whenever the budget is spent, a log that needs
    /// another block has entries merged, to the safe side.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    ///
    /// let policy = Policy::builder("api").quota(Quota::per_minute(100)?).build()?;
    /// let limiter = Limiter::builder(policy).memory_limit(64 << 20).build()?;
    /// assert_eq!(limiter.set_memory_limit(128 << 20), 128 << 20);
    /// assert_eq!(limiter.stats().memory_limit, 128 << 20);
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    pub fn set_memory_limit(&self, bytes: usize) -> usize {
        let bytes = bytes.max(builder::memory_least(self.store.shards()));
        if self.memory_limit.swap(bytes, Ordering::Relaxed) != bytes {
            self.store.set_memory_limit(bytes);
        }
        bytes
    }

    /// Treats keys that find no room in another way from now on. Those in the overflow sketch are
    /// remembered whatever it is.
    pub fn set_on_full(&self, on_full: OnFull) {
        self.store.set_on_full(on_full);
    }

    /// Where the memory stands, and what has happened to it.
    pub fn stats(&self) -> Stats {
        let store = self.store.stats();
        Stats {
            keys: store.keys,
            bytes: store.bytes,
            memory_limit: self.memory_limit.load(Ordering::Relaxed),
            evictions: store.evictions,
            overflowed: store.overflowed,
            swept: store.swept,
            longest_hold: store.longest_hold,
            waiters: self.waiters.load(Ordering::Relaxed),
        }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Other quotas for some keys, as for paying customers; made once, used often.
    ///
    /// A key may change its tier at any time and keeps what it has taken. After a change to a
    /// longer window, the promise holds from one such window later. Counter, segments and fixed
    /// date all that a key has taken at a change of the window; GCRA reads it as a share of it.
    ///
    /// # Errors
    ///
    /// When there is no quota, or more than the policy has; for other algorithms than the log also
    /// when there are fewer.
    pub fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        let tier = Tier::new(quotas, &self.policy, &self.scale)?;
        self.store.keep(tier.limits.longest());
        Ok(tier)
    }

    #[inline]
    fn moment(&self) -> Moment {
        self.scale.moment(self.clock.read().nanos())
    }

    #[inline]
    fn request<'a, K: Key + ?Sized>(&self, key: &K, limits: &'a Limits, cost: u64) -> Request<'a> {
        let fingerprint = key.fingerprint(&self.secret);
        Request { fingerprint, limits, moment: self.moment(), cost }
    }

    fn request_for<'a>(&self, fingerprint: u64, limits: &'a Limits, cost: u64) -> Request<'a> {
        Request { fingerprint, limits, moment: self.moment(), cost }
    }

    /// One unit under the policy's own quotas: the usual question. Compiled once, whatever the
    /// type of the key.
    #[inline(never)]
    fn decide_one(&self, fingerprint: u64) -> Decision {
        let reading = self.clock.read();
        let moment = || self.scale.moment(reading.nanos());
        match &self.store {
            AnyStore::FastPath(store) => store.check_one(fingerprint, moment),
            AnyStore::Other(_) => self.decide_slowly(fingerprint, &self.limits, moment(), 1),
        }
    }

    /// Any number of units under any quotas.
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

/// Keys that are hashed together.
const MANY: usize = 64;

impl Store for Limiter {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    async fn check(&self, key: &[u8], cost: Cost) -> Result<Decision, Error> {
        Ok(self.check_cost(key, cost))
    }

    async fn peek(&self, key: &[u8], cost: Cost) -> Result<Decision, Error> {
        Ok(Self::peek(self, key, cost))
    }

    async fn refund(&self, _: &[u8], receipt: Receipt) -> Result<u64, Error> {
        Ok(Self::refund(self, receipt))
    }

    async fn reset(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(Self::reset(self, key))
    }
}
