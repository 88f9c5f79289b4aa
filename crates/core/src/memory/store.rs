//! All shards, behind one face for every algorithm.

use core::fmt::Debug;
use core::hint::black_box;
use core::task::Waker;
use core::time::Duration;

use super::contention::Contention;
use super::decide::{CompactDecision, Request};
use super::longest::{KeptWindows, Longest};
use super::shard::{AtomicOnFull, ColdState, Counters, LockTimer, OnFull, Shard, Shared};
use super::slots::Slots;
use super::snapshot;
use super::wait_queue::{Confirm, EnqueueResult, Turn, WaiterCount, Wakers};
use crate::account::Account;
use crate::decision::Decision;
use crate::error::Error;
use crate::policy::QUOTAS_MAX;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::time::{Moment, TickScale};
use crate::window::{Limits, Log, Window};

/// The store of a limiter with any algorithm.
pub(crate) trait KeyedStore: Debug + Send + Sync {
    fn check(&self, request: &Request<'_>) -> Decision;
    /// Decides for one unit under the policy's own quotas.
    fn check_one(&self, fingerprint: u64, moment: Moment) -> Decision;
    /// Decides for many keys under the policy's own quotas.
    fn check_many(&self, requests: &[Request<'_>], decisions: &mut Vec<Decision>);
    fn peek(&self, request: &Request<'_>) -> Decision;
    fn take(&self, request: &Request<'_>);
    fn give_back(&self, request: &Request<'_>, tick: u64, epoch: u16) -> u64;
    fn forgive(&self, request: &Request<'_>) -> u64;
    fn enqueue(&self, request: &Request<'_>, within: u64) -> EnqueueResult;
    /// Registers the waker of a waiter. Returns `true` if its turn comes earlier than `turn` says.
    fn watch(&self, fingerprint: u64, turn: &Turn, waker: &Waker) -> bool;
    /// Takes the units of a waiter if its turn has come.
    fn confirm(&self, request: &Request<'_>, id: u64) -> Confirm;
    /// Removes a waiter from the queue.
    fn leave(&self, request: &Request<'_>, id: u64);
    fn used(&self, request: &Request<'_>) -> [u64; QUOTAS_MAX];
    fn history(&self, request: &Request<'_>, each: &mut dyn FnMut(u64, u64)) -> bool;
    fn reset(&self, fingerprint: u64, moment: Moment) -> bool;
    /// Denies a key for `ticks`. Returns `false` if there is no memory for it.
    fn block(&self, fingerprint: u64, ticks: u64, moment: Moment) -> bool;
    /// Ends a block. Returns `true` if there was one.
    fn unblock(&self, fingerprint: u64, moment: Moment) -> bool;
    fn shard_of(&self, fingerprint: u64) -> usize;
    /// Keeps recorded units for at least `longest` ticks from now on.
    fn keep(&self, longest: u64);
    /// Returns the longest windows that entries are kept for.
    fn kept_windows(&self) -> KeptWindows;
    /// Keeps restored units for the windows of a snapshot that was written at `saved_at`.
    fn keep_restored(&self, windows: KeptWindows, saved_at: u64);
    fn shards(&self) -> usize;
    fn capacity(&self, shard: usize) -> usize;
    fn lock(&self, shard: usize) -> Box<dyn LockedShard + '_>;
    /// Examines up to `slots` slots of a shard. Returns the number of slots examined and the number of
    /// keys dropped.
    fn sweep(&self, shard: usize, slots: usize, moment: Moment) -> (usize, usize);
    /// Sets another memory limit, and shrinks the sketches to fit it.
    fn set_memory_limit(&self, bytes: usize);
    fn set_on_full(&self, on_full: OnFull);
    fn stats(&self) -> StoreStats;
    /// Returns the latest moment of all shards.
    fn latest(&self) -> Moment;
    /// Saves one shard, in steps that each hold the lock briefly.
    fn save(
        &self,
        shard: usize,
        each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<u64, Error>;
    /// Restores a frame.
    fn restore(&self, frame: &[u8], request: &Request<'_>) -> Result<Restored, Error>;
}

/// A shard that stays locked while several keys are decided together.
pub(crate) trait LockedShard {
    fn check(&mut self, request: &Request<'_>) -> Decision;
    fn peek(&mut self, request: &Request<'_>) -> Decision;
    /// Refunds units. `wakers` must be woken after all locks are released.
    fn give_back(&mut self, request: &Request<'_>, tick: u64, epoch: u16, wakers: &mut Wakers);
}

/// Sums over all shards.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoreStats {
    pub(crate) keys: u64,
    pub(crate) blocked: u64,
    pub(crate) bytes: usize,
    pub(crate) table_bytes: usize,
    pub(crate) table_limit: usize,
    pub(crate) log_bytes: usize,
    pub(crate) log_units: u64,
    pub(crate) evictions: u64,
    pub(crate) overflowed: u64,
    pub(crate) swept: u64,
    pub(crate) longest_hold: Duration,
    pub(crate) waiters: usize,
}

/// The result of restoring a frame of a snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Restored {
    pub(crate) keys: u64,
    pub(crate) dropped: u64,
}

/// The settings of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreSettings {
    pub(crate) shards: usize,
    pub(crate) memory_limit: usize,
    pub(crate) on_full: OnFull,
    pub(crate) scale: TickScale,
    /// The policy's limits.
    pub(crate) limits: Limits,
    pub(crate) waiters_max: usize,
    pub(crate) waiters_per_key_max: usize,
}

/// Shards of windows of one algorithm.
#[derive(Debug)]
pub(crate) struct MemoryStore<W> {
    shards: Box<[Padded<Mutex<Shard<W>>>]>,
    shared: Shared,
}

/// A shard and its lock, on separate cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T, Contention);

const _: () = assert!(size_of::<Shard<Log>>() <= 240, "a shard and its lock take 256 bytes");

/// How the memory budget is divided.
struct Split {
    /// Bytes of the table and the logs.
    table: usize,
    /// Bytes of one shard's sketches.
    sketch: usize,
}

impl Split {
    /// Reserves a quarter of the budget for the sketches, so that they always fit.
    fn new(bytes: usize, shards: usize) -> Self {
        let sketches = bytes / 4;
        Self { table: bytes - sketches, sketch: sketches / shards }
    }
}

/// The number of keys that are looked up at once.
const BATCH: usize = 16;

/// Bytes of state from which batches are faster. Less fits in the processor's cache, where there are
/// no cache misses to overlap. Tests always use batches.
const BATCH_FROM: usize = if cfg!(any(test, shuttle)) { 1 } else { 2 << 20 };

impl<W: Window + Debug> MemoryStore<W> {
    pub(crate) fn new(settings: &StoreSettings) -> Self {
        let Split { table, sketch } = Split::new(settings.memory_limit, settings.shards);
        let account = Account::new(table);
        account.grow(settings.shards * (size_of::<Padded<Mutex<Shard<W>>>>() + ColdState::BYTES));
        let shards = (0..settings.shards)
            .map(|_| Padded(Mutex::new(Shard::new()), Contention::default()))
            .collect();
        let sketch_bytes = AtomicUsize::new(sketch);
        let StoreSettings { scale, limits, .. } = *settings;
        let on_full = AtomicOnFull::new(settings.on_full);
        let longest = Longest::new(limits.longest());
        let waiters = WaiterCount::new(settings.waiters_max, settings.waiters_per_key_max);
        let shared = Shared { account, on_full, scale, sketch_bytes, limits, longest, waiters };
        Self { shards, shared }
    }

    /// Decides for one unit of a policy with a single quota. `moment` converts the reading of the
    /// clock after the lock is taken.
    #[inline]
    pub(crate) fn check_single(
        &self,
        fingerprint: u64,
        moment: impl FnOnce() -> Moment,
    ) -> Decision {
        let mut shard = self.shard(fingerprint);
        shard.check_one(fingerprint, moment(), &self.shared)
    }

    #[inline]
    fn shard(&self, fingerprint: u64) -> MutexGuard<'_, Shard<W>> {
        self.shards[self.index(fingerprint)].0.lock()
    }

    /// Changes a key's recorded units. Wakes the callers that move up after the lock is released.
    fn change<R>(
        &self,
        fingerprint: u64,
        change: impl FnOnce(&mut Shard<W>, &mut Wakers) -> R,
    ) -> R {
        let mut wakers = Wakers::default();
        let result = self
            .shard(fingerprint)
            .with_slot(fingerprint, &self.shared, |shard| change(shard, &mut wakers));
        wakers.wake();
        result
    }

    /// Runs `at_window` on a key's window, advanced to now.
    fn look<R>(&self, request: &Request<'_>, at_window: impl FnOnce(&W, Moment) -> R) -> Option<R> {
        self.shard(request.fingerprint).with_slot(request.fingerprint, &self.shared, |shard| {
            shard.look(request, &self.shared, at_window)
        })
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of shards")]
    fn index(&self, fingerprint: u64) -> usize {
        fingerprint as usize & (self.shards.len() - 1)
    }

    /// Decides for up to [`BATCH`] keys with their shards locked, so that their cache misses overlap.
    ///
    /// A batch never waits for a lock while it holds others. New keys, and keys of shards that another
    /// thread uses, are checked one by one at the end.
    fn check_batch(&self, requests: &[Request<'_>], decisions: &mut Vec<Decision>) {
        let mut guards = [const { None }; BATCH];
        let holders = self.lock_idle(requests, &mut guards);
        let guesses = fetch_all(requests, &holders, &guards);
        let mut all_known = [None; BATCH];
        let places = requests.iter().zip(holders).zip(guesses).zip(&mut all_known);
        for (((request, holder), guess), known) in places {
            *known = match (&mut guards[holder], guess) {
                // The slot may hold another key with the same tag, or an earlier key of the batch
                // has moved it.
                (Some(shard), Some(at))
                    if request.limits.is_single() && shard.slots.holds(at, request.fingerprint) =>
                {
                    Some(shard.check_at(at, request, &self.shared))
                }
                _ => None,
            };
            if known.is_none() {
                // Requests for one key are decided in order, so those after this one must wait too.
                guards[holder] = None;
            }
        }
        drop(guards);
        for (request, known) in requests.iter().zip(all_known) {
            self.push(known, request, decisions);
        }
    }

    /// Decides for an existing key with one quota. Returns `None` for others.
    #[inline]
    fn check_known(&self, request: &Request<'_>) -> Option<CompactDecision> {
        if !request.limits.is_single() {
            return None;
        }
        let mut shard = self.shard(request.fingerprint);
        let at = shard.slots.find(request.fingerprint)?;
        Some(shard.check_at(at, request, &self.shared))
    }

    /// Appends the decision of a request, and decides it first if `known` is `None`.
    #[inline]
    fn push(&self, known: Option<CompactDecision>, request: &Request<'_>, to: &mut Vec<Decision>) {
        match known {
            Some(known) => known.push_to(to, request, &self.shared.scale),
            None => self.push_unknown(request, to),
        }
    }

    #[cold]
    fn push_unknown(&self, request: &Request<'_>, decisions: &mut Vec<Decision>) {
        decisions.push(self.check(request));
    }

    /// Locks the shards of up to [`BATCH`] keys, each once, if no other thread uses them. Returns for
    /// every key the index of its shard's guard. The guard there is `None` if the lock is not held.
    fn lock_idle<'a>(
        &'a self,
        requests: &[Request<'_>],
        guards: &mut [Option<MutexGuard<'a, Shard<W>>>; BATCH],
    ) -> [usize; BATCH] {
        let mut indices = [usize::MAX; BATCH];
        let mut holders: [usize; BATCH] = core::array::from_fn(|place| place);
        let mut has_skipped = false;
        for (place, request) in requests.iter().enumerate().take(BATCH) {
            let index = self.index(request.fingerprint);
            let earlier = |indices: &[usize]| indices.iter().position(|other| *other == index);
            let shard = &self.shards[index];
            let known = if has_skipped { earlier(&indices[..place]) } else { None };
            if let Some(known) = known {
                holders[place] = holders[known];
            } else if shard.1.is_busy() {
                has_skipped = true;
            } else if let Some(guard) = shard.0.try_lock() {
                guards[place] = Some(guard);
            } else if let Some(known) = earlier(&indices[..place]) {
                holders[place] = holders[known];
            } else {
                shard.1.mark();
                has_skipped = true;
            }
            indices[place] = index;
        }
        holders
    }
}

/// Fetches the memory of up to [`BATCH`] keys: the tags of all keys, then their slots, then their
/// logs. No step depends on memory that it fetches itself. Returns the slot of each key, if its tag
/// is found; the slot may hold another key with the same tag.
fn fetch_all<W: Window>(
    requests: &[Request<'_>],
    holders: &[usize; BATCH],
    guards: &[Option<MutexGuard<'_, Shard<W>>>; BATCH],
) -> [Option<usize>; BATCH] {
    let slots = |holder: usize| guards[holder].as_ref().map(|shard| &shard.slots);
    let mut touched = 0;
    for (request, &holder) in requests.iter().zip(holders) {
        touched ^= slots(holder).map_or(0, |slots| slots.touch_tag(request.fingerprint));
    }
    let mut guesses = [None; BATCH];
    for ((guess, request), &holder) in guesses.iter_mut().zip(requests).zip(holders) {
        *guess = slots(holder).and_then(|slots| slots.guess(request.fingerprint));
    }
    for (&guess, &holder) in guesses.iter().zip(holders) {
        if let (Some(at), Some(slots)) = (guess, slots(holder)) {
            touched ^= slots.touch(at);
        }
    }
    for (&guess, &holder) in guesses.iter().zip(holders) {
        if let (Some(at), Some(slots)) = (guess, slots(holder)) {
            touched ^= slots.touch_window(at);
        }
    }
    black_box(touched);
    guesses
}

impl<W: Window + Debug> KeyedStore for MemoryStore<W> {
    fn check(&self, request: &Request<'_>) -> Decision {
        self.shard(request.fingerprint).check(request, &self.shared)
    }

    fn check_one(&self, fingerprint: u64, moment: Moment) -> Decision {
        if !self.shared.limits.is_single() {
            let limits = &self.shared.limits;
            return self.check(&Request { fingerprint, limits, moment, cost: 1 });
        }
        self.check_single(fingerprint, || moment)
    }

    fn check_many(&self, requests: &[Request<'_>], decisions: &mut Vec<Decision>) {
        if self.shared.account.used() < BATCH_FROM {
            for request in requests {
                let known = self.check_known(request);
                self.push(known, request, decisions);
            }
            return;
        }
        for batch in requests.chunks(BATCH) {
            self.check_batch(batch, decisions);
        }
    }

    fn peek(&self, request: &Request<'_>) -> Decision {
        self.shard(request.fingerprint).peek(request, &self.shared)
    }

    fn take(&self, request: &Request<'_>) {
        self.change(request.fingerprint, |shard, wakers| shard.take(request, &self.shared, wakers));
    }

    fn give_back(&self, request: &Request<'_>, tick: u64, epoch: u16) -> u64 {
        self.change(request.fingerprint, |shard, wakers| {
            shard.give_back(request, tick, epoch, &self.shared, wakers)
        })
    }

    fn forgive(&self, request: &Request<'_>) -> u64 {
        self.change(request.fingerprint, |shard, wakers| {
            shard.forgive(request, &self.shared, wakers)
        })
    }

    fn enqueue(&self, request: &Request<'_>, within: u64) -> EnqueueResult {
        self.change(request.fingerprint, |shard, wakers| {
            match shard.blocked_denial(request, &self.shared) {
                Some(denial) => EnqueueResult::Denied(denial),
                None => shard.enqueue(request, within, &self.shared, wakers),
            }
        })
    }

    fn watch(&self, fingerprint: u64, turn: &Turn, waker: &Waker) -> bool {
        // The old waker is dropped after the lock is released.
        let (is_earlier, _old) = self.shard(fingerprint).watch(fingerprint, turn, waker);
        is_earlier
    }

    fn confirm(&self, request: &Request<'_>, id: u64) -> Confirm {
        self.change(request.fingerprint, |shard, wakers| {
            if !shard.is_blocked(request) {
                return shard.confirm(request, id, &self.shared, wakers);
            }
            shard.leave(request, id, &self.shared, wakers);
            Confirm::Denied(shard.peek(request, &self.shared))
        })
    }

    fn leave(&self, request: &Request<'_>, id: u64) {
        self.change(request.fingerprint, |shard, wakers| {
            shard.leave(request, id, &self.shared, wakers);
        });
    }

    fn used(&self, request: &Request<'_>) -> [u64; QUOTAS_MAX] {
        let mut used = [0; QUOTAS_MAX];
        let count = request.limits.quotas().len();
        self.look(request, |window, moment| {
            for (index, used) in used[..count].iter_mut().enumerate() {
                *used = window.used(request.limits, index, moment.now);
            }
        });
        used
    }

    fn history(&self, request: &Request<'_>, each: &mut dyn FnMut(u64, u64)) -> bool {
        let kept = self.look(request, |window, _| window.history(each));
        kept.unwrap_or_else(|| W::default().history(&mut |_, _| {}))
    }

    fn reset(&self, fingerprint: u64, moment: Moment) -> bool {
        let was_blocked = self.unblock(fingerprint, moment);
        self.change(fingerprint, |shard, wakers| {
            shard.reset(fingerprint, moment, &self.shared, wakers)
        }) || was_blocked
    }

    fn block(&self, fingerprint: u64, ticks: u64, moment: Moment) -> bool {
        self.shard(fingerprint).block(fingerprint, ticks, moment, &self.shared)
    }

    fn unblock(&self, fingerprint: u64, moment: Moment) -> bool {
        self.shard(fingerprint).unblock(fingerprint, moment, &self.shared)
    }

    fn shard_of(&self, fingerprint: u64) -> usize {
        self.index(fingerprint)
    }

    fn keep(&self, longest: u64) {
        self.shared.longest.keep(longest);
    }

    fn kept_windows(&self) -> KeptWindows {
        self.shared.longest.windows()
    }

    fn keep_restored(&self, windows: KeptWindows, saved_at: u64) {
        self.shared.longest.restore(windows, saved_at);
    }

    fn shards(&self) -> usize {
        self.shards.len()
    }

    fn capacity(&self, shard: usize) -> usize {
        self.shards[shard & (self.shards.len() - 1)].0.lock().slots.capacity()
    }

    fn lock(&self, shard: usize) -> Box<dyn LockedShard + '_> {
        Box::new(Locked { guard: self.shards[shard].0.lock(), shared: &self.shared })
    }

    fn sweep(&self, shard: usize, slots: usize, moment: Moment) -> (usize, usize) {
        let mut guard = self.shards[shard & (self.shards.len() - 1)].0.lock();
        let timer = LockTimer::start();
        guard.clamp_time(moment);
        let swept = guard.sweep(slots, &self.shared);
        guard.record_lock_time(timer);
        swept
    }

    fn set_on_full(&self, on_full: OnFull) {
        self.shared.on_full.set(on_full);
    }

    fn set_memory_limit(&self, bytes: usize) {
        let Split { table, sketch } = Split::new(bytes, self.shards.len());
        self.shared.account.set_limit(table);
        self.shared.sketch_bytes.store(sketch, Ordering::Relaxed);
        for shard in &self.shards {
            shard.0.lock().shrink_sketches(&self.shared);
        }
    }

    fn stats(&self) -> StoreStats {
        let account = &self.shared.account;
        let mut stats = StoreStats {
            bytes: account.used(),
            table_bytes: account.unavailable(),
            table_limit: account.limit(),
            waiters: self.shared.waiters.waiting.load(Ordering::Relaxed),
            ..Default::default()
        };
        let mut fixed = size_of_val(&*self.shards) + self.shards.len() * ColdState::BYTES;
        for shard in &self.shards {
            let shard = shard.0.lock();
            let Counters { evictions, overflowed, swept, longest_hold, log_units, .. } =
                shard.counters;
            stats.log_units += log_units;
            fixed += Slots::<W>::bytes(shard.slots.capacity());
            fixed += shard.cold.resets.bytes() + shard.cold.blocks.bytes();
            stats.blocked += shard.cold.blocks.len() as u64;
            stats.keys += shard.slots.len() as u64;
            stats.bytes += shard.sketch_bytes();
            stats.evictions += evictions;
            stats.overflowed += overflowed;
            stats.swept += swept;
            stats.longest_hold = stats.longest_hold.max(longest_hold);
        }
        stats.log_bytes = account.used().saturating_sub(fixed);
        stats
    }

    fn latest(&self) -> Moment {
        self.shards.iter().fold(Moment { now: 0, date: 0 }, |latest, shard| {
            let Moment { now, date } = shard.0.lock().latest;
            Moment { now: latest.now.max(now), date: latest.date.max(date) }
        })
    }

    fn save(
        &self,
        shard: usize,
        each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        snapshot::save(&self.shards[shard].0, (shard, self.shards.len()), &self.shared, each)
    }

    fn restore(&self, frame: &[u8], request: &Request<'_>) -> Result<Restored, Error> {
        let lock = |fingerprint| self.shard(fingerprint);
        // The lower bits of a fingerprint select the shard. If the snapshot had more shards than
        // this store, several of them map to one; if it had fewer, one maps to several.
        let lock_sharing = |index: u64, of: u64| {
            let mask = of.min(self.shards.len() as u64).wrapping_sub(1);
            let shares = |number: &usize| *number as u64 & mask == index & mask;
            (0..self.shards.len()).filter(shares).map(|shard| self.shards[shard].0.lock()).collect()
        };
        snapshot::restore(frame, request, &self.shared, lock, lock_sharing)
    }
}

/// A locked shard.
struct Locked<'a, W> {
    guard: MutexGuard<'a, Shard<W>>,
    shared: &'a Shared,
}

impl<W: Window> LockedShard for Locked<'_, W> {
    fn check(&mut self, request: &Request<'_>) -> Decision {
        self.guard.check(request, self.shared)
    }

    fn peek(&mut self, request: &Request<'_>) -> Decision {
        self.guard.peek(request, self.shared)
    }

    fn give_back(&mut self, request: &Request<'_>, tick: u64, epoch: u16, wakers: &mut Wakers) {
        self.guard.with_slot(request.fingerprint, self.shared, |shard| {
            shard.give_back(request, tick, epoch, self.shared, wakers);
        });
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
