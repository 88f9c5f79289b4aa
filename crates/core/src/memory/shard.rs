//! One shard of the table: the keys whose fingerprints have the same lower bits, behind one lock.
//!
//! The caller of an operation passes its reading of the clock. If an earlier operation had a later
//! reading, that one is used instead, so that time does not go back within a shard.
//!
//! Checks, charges, refunds and resets are in this file. `overflow.rs` and `evict.rs` handle keys that
//! do not fit, `blocks.rs` handles blocked keys, and `wait_queue.rs` handles waiters.

use std::time::{Duration, Instant};

use super::blocks::Blocks;
use super::decide::{
    CompactDecision, Request, check_all_quotas, check_one_known, check_window, decide, look, seed,
};
use super::evict::{IdleBound, SWEEP_FOR_NEW};
use super::longest::Longest;
use super::overflow::permits;
use super::resets::{NoteBudget, Resets};
use super::sketch::Sketch;
use super::slots::Slots;
use super::wait_queue::{WaitQueues, WaiterCount, WaiterSelection, Wakers};
use crate::account::Account;
use crate::decision::Decision;
use crate::policy::QUOTAS_MAX;
use crate::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use crate::time::{Moment, TickScale};
use crate::window::{Limits, Window};

/// What happens to a new key that does not fit in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnFull {
    /// The overflow sketch decides. It can only over-count: no key gets more than the limit, and a
    /// few get less. Keys in the table are not affected.
    #[default]
    Overflow,
    /// The new key replaces an existing one: of the four keys nearest to its slot, the key whose units
    /// expire first. For most algorithms, that is the key that was admitted longest ago. The units of the
    /// replaced key move into the overflow sketch, so they still count when that key returns.
    Lru,
    /// The request is denied, with a `retry_after` of the longest window.
    Deny,
}

/// An [`OnFull`] that can be changed while the store is in use. It is read only if a key does not fit.
#[derive(Debug)]
pub(super) struct AtomicOnFull(AtomicU8);

impl AtomicOnFull {
    pub(super) fn new(on_full: OnFull) -> Self {
        Self(AtomicU8::new(on_full as u8))
    }

    pub(super) fn get(&self) -> OnFull {
        match self.0.load(Ordering::Relaxed) {
            1 => OnFull::Lru,
            2 => OnFull::Deny,
            _ => OnFull::Overflow,
        }
    }

    pub(super) fn set(&self, on_full: OnFull) {
        self.0.store(on_full as u8, Ordering::Relaxed);
    }
}

const _: () = assert!(OnFull::Lru as u8 == 1 && OnFull::Deny as u8 == 2);

/// The state that all shards of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) account: Account,
    pub(super) on_full: AtomicOnFull,
    pub(super) scale: TickScale,
    /// Bytes of one shard's sketches.
    pub(super) sketch_bytes: AtomicUsize,
    /// The policy's limits. They determine the resolution of the sketches.
    pub(super) limits: Limits,
    /// The longest window of the policy and its tiers. Units are kept for at least this long.
    pub(super) longest: Longest,
    pub(super) waiters: WaiterCount,
}

impl Shared {
    pub(super) fn longest(&self) -> u64 {
        self.longest.get()
    }

    /// Returns the memory budget of one shard for records of resets. Records of blocks have a separate
    /// budget of the same size.
    ///
    /// It is a quarter of the bytes of its sketches, so the budgets of all shards add up to a sixteenth of
    /// the memory limit.
    pub(super) fn note_budget(&self) -> NoteBudget<'_> {
        let bytes_max = self.sketch_bytes.load(Ordering::Relaxed) / 4;
        NoteBudget { bytes_max, account: &self.account }
    }

    /// Returns `true` if the policy or one of its tiers has a longer window than `limits`.
    ///
    /// In that case, reads advance a copy of the key's window, and charges and refunds do not advance it.
    /// [`Window::advance`] drops the entries that `limits` no longer counts, but the longer window may
    /// still count them.
    pub(super) fn has_longer(&self, limits: &Limits) -> bool {
        limits.longest() < self.longest()
    }
}

/// Measures how long a lock is held by an operation that may take long, such as growing the table,
/// placing waiters or writing a snapshot. Ordinary checks are not measured: two readings of the clock
/// take longer than the check.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockTimer(Instant);

impl LockTimer {
    #[expect(clippy::disallowed_methods, reason = "for statistics only, not for decisions")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Counters of one shard.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) evictions: u64,
    pub(super) overflowed: u64,
    pub(super) swept: u64,
    pub(super) longest_hold: Duration,
    /// Units recorded in all logs, as of the last complete pass of the sweep.
    pub(super) log_units: u64,
    /// Units recorded in the logs that the current pass has examined so far.
    pub(super) log_units_so_far: u64,
}

/// The state that a shard's lock guards. The fields that a check needs come first, in two cache lines
/// that the processor fetches together.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shard<W> {
    pub(super) slots: Slots<W>,
    /// The latest moment of any operation. An operation with an earlier moment uses this one.
    pub(super) latest: Moment,
    /// Checks until the next sweep.
    pub(super) until_sweep: u32,
    /// The number of slots that the sweep has yet to examine in this pass. It goes from high slots to
    /// low ones, so the slot before this position is next.
    pub(super) sweep_at: usize,
    /// The tick before which no key expires, so that a sweep could not drop any.
    pub(super) idle: IdleBound,
    /// Whether the table is shrinking, which takes several steps.
    pub(super) is_shrinking: bool,
    /// The last epoch given to a new key without a recorded reset. A receipt carries the epoch of its
    /// key, and is void once the key has another one.
    pub(super) last_epoch: u16,
    /// Sketches of different windows, each with the units of all keys. There are none until a key does
    /// not fit.
    pub(super) sketches: Vec<Sketch>,
    pub(super) counters: Counters,
    pub(super) cold: Box<ColdState>,
}

/// The state that a check does not need, in its own allocation, so that a shard takes 256 bytes.
#[derive(Debug, Default)]
pub(super) struct ColdState {
    pub(super) resets: Resets,
    pub(super) blocks: Blocks,
    pub(super) queues: WaitQueues,
}

impl ColdState {
    /// Bytes of the allocation, with the allocator's header.
    pub(super) const BYTES: usize = size_of::<Self>() + 16;
}

/// The number of checks of existing keys after which a shard sweeps a few slots.
const SWEEP_EVERY: u32 = 128;
/// The number of slots examined then.
const SWEEP_SLOTS: usize = 4;

impl<W: Window> Shard<W> {
    pub(super) fn new() -> Self {
        Self {
            slots: Slots::new(),
            latest: Moment { now: 0, date: 0 },
            until_sweep: SWEEP_EVERY - 1,
            sweep_at: 0,
            idle: IdleBound::new(),
            is_shrinking: false,
            last_epoch: 0,
            sketches: Vec::new(),
            counters: Counters::default(),
            cold: Box::default(),
        }
    }

    /// Decides for one unit under the policy's only quota, and takes it if allowed.
    ///
    /// This is the fast path: the key is in the table, and time does not go back. All other cases are
    /// left to functions that are not inlined. The decision is built while the lock is held, because
    /// its parts would otherwise have to be saved during the unlock.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a tenth of the check")]
    pub(super) fn check_one(
        &mut self,
        fingerprint: u64,
        moment: Moment,
        shared: &Shared,
    ) -> Decision {
        // Only `now` is compared. `date` may still be a tick earlier than in the last check. This is
        // valid: a log whose last entry is later than `date` leaves its own fast path and inserts the
        // unit in order.
        if moment.now < self.latest.now {
            return self.check_one_slowly(fingerprint, moment, shared);
        }
        self.latest = moment;
        let Some(at) = self.slots.find(fingerprint) else {
            return self.check_one_new(fingerprint, moment, shared);
        };
        let request = Request { fingerprint, limits: &shared.limits, moment, cost: 1 };
        let window = self.slots.window(at);
        let decision = match window.check_fast(request.limits, moment, 1, &shared.account) {
            Some(status) => {
                CompactDecision { status, epoch: window.epoch() }.decision(&request, &shared.scale)
            }
            None => check_one_known(window, fingerprint, moment, shared),
        };
        self.sweep_in_turn(shared);
        decision
    }

    #[cold]
    #[inline(never)]
    fn check_one_slowly(&mut self, fingerprint: u64, moment: Moment, shared: &Shared) -> Decision {
        self.check(&Request { fingerprint, limits: &shared.limits, moment, cost: 1 }, shared)
    }

    #[cold]
    #[inline(never)]
    fn check_one_new(&mut self, fingerprint: u64, moment: Moment, shared: &Shared) -> Decision {
        self.check_new(&Request { fingerprint, limits: &shared.limits, moment, cost: 1 }, shared)
    }

    /// Counts a check, and sweeps once every [`SWEEP_EVERY`] checks.
    #[inline]
    fn sweep_in_turn(&mut self, shared: &Shared) {
        let (left, is_due) = self.until_sweep.overflowing_sub(1);
        self.until_sweep = left;
        if is_due {
            self.until_sweep = SWEEP_EVERY - 1;
            self.sweep(SWEEP_SLOTS, shared);
        }
    }

    /// Decides for the key in slot `at` under a single quota, and takes the units if allowed.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a tenth of the check")]
    pub(super) fn check_at(
        &mut self,
        at: usize,
        request: &Request<'_>,
        shared: &Shared,
    ) -> CompactDecision {
        let moment = self.clamp_time(request.moment);
        let decision = check_window(self.slots.window(at), request, moment, shared);
        self.sweep_in_turn(shared);
        decision
    }

    /// Decides, and takes the units if allowed.
    pub(super) fn check(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        let Some(at) = self.slots.find(request.fingerprint) else {
            let request = self.with_clamped_time(request);
            return self.check_new(&request, shared);
        };
        if request.limits.is_single() {
            return self.check_at(at, request, shared).decision(request, &shared.scale);
        }
        let request = self.with_clamped_time(request);
        let window = self.slots.window(at);
        let decision = check_all_quotas(window, &request, shared);
        self.sweep_in_turn(shared);
        decision
    }

    /// Decides without taking units.
    pub(super) fn peek(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        if let Some(denial) = self.blocked_denial(request, shared) {
            return denial;
        }
        // The block may be over, but not removed yet. The key's slot is then still hidden.
        self.with_slot(request.fingerprint, shared, |shard| {
            shard.peek_ignoring_blocks(request, shared)
        })
    }

    /// Decides without taking units, and ignores blocks.
    pub(super) fn peek_ignoring_blocks(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
    ) -> Decision {
        let request = self.with_clamped_time(request);
        let is_possible = request.limits.quotas().iter().all(|quota| request.cost <= quota.limit);
        match self.slots.find(request.fingerprint) {
            Some(at) => look(self.slots.window(at), &request, shared, |window| {
                decide(window, &request, shared, false)
            }),
            None if shared.on_full.get() != OnFull::Lru
                && is_possible
                && !self.has_room_now(shared) =>
            {
                self.decide_without_slot(&request, shared, false)
            }
            None => {
                let estimates = self.estimates(&request, shared);
                if is_possible && !permits(&request, &estimates) {
                    return self.decide_by_sketches(&request, shared, false);
                }
                let mut window = W::new(request.limits, 0);
                shared.account.grow(window.heap_bytes());
                seed(&mut window, &request, &estimates, shared);
                let decision = decide(&mut window, &request, shared, false);
                shared.account.shrink(window.heap_bytes());
                decision
            }
        }
    }

    /// Takes the units without a check, even above the limit. If the key does not fit, the sketches count
    /// them.
    pub(super) fn take(&mut self, request: &Request<'_>, shared: &Shared, wakers: &mut Wakers) {
        let request = self.with_clamped_time(request);
        let fingerprint = request.fingerprint;
        self.set_aside(fingerprint, WaiterSelection::NotDue, shared);
        let found = self.slots.find(request.fingerprint);
        let Some(at) = found.or_else(|| self.add_key(&request, shared)) else {
            self.open_sketches(shared);
            // Called only because it advances the sketches to now.
            let _ = self.estimates(&request, shared);
            self.add_to_sketches(fingerprint, request.cost);
            return;
        };
        let window = self.slots.window(at);
        if !shared.has_longer(request.limits) {
            window.advance(request.limits, request.moment.now, &shared.account);
        }
        window.charge(request.limits, request.moment, request.cost, &shared.account);
        self.place_again(fingerprint, shared, wakers);
        self.sweep_in_turn(shared);
    }

    /// Refunds the units of a receipt. Returns the number of units refunded: zero if the receipt is void.
    pub(super) fn give_back(
        &mut self,
        request: &Request<'_>,
        tick: u64,
        epoch: u16,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> u64 {
        let Request { fingerprint, limits, cost, .. } = *request;
        let now = self.clamp_time(request.moment).now;
        let is_void = self.cold.resets.is_void(fingerprint, tick);
        self.set_aside(fingerprint, WaiterSelection::NotDue, shared);
        let given = match self.window_to_reduce(request, shared) {
            Some(window) if !is_void && window.epoch() == epoch => {
                let limits = limits.keeping(shared.longest());
                window.give_back(&limits, now, tick, cost, &shared.account)
            }
            _ => 0,
        };
        self.place_again(fingerprint, shared, wakers);
        self.include_idle(fingerprint, shared);
        given
    }

    /// Refunds units without a receipt, the oldest first. Returns the number of units refunded.
    pub(super) fn forgive(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> u64 {
        let Request { fingerprint, limits, cost, .. } = *request;
        let now = self.clamp_time(request.moment).now;
        // All waiters are set aside, even those that are due. They have not used their units yet, so
        // those must not be forgiven.
        self.set_aside(fingerprint, WaiterSelection::ALL, shared);
        let given = self
            .window_to_reduce(request, shared)
            .map_or(0, |window| window.forgive(limits, now, cost, &shared.account));
        self.place_again(fingerprint, shared, wakers);
        self.include_idle(fingerprint, shared);
        given
    }

    /// Returns the window of a key whose units are about to be refunded, or `None` if the key is not in
    /// the table. Advances it to now, unless that would drop entries that another tier still counts, or
    /// date units again although none may be refunded.
    fn window_to_reduce(&mut self, request: &Request<'_>, shared: &Shared) -> Option<&mut W> {
        let at = self.slots.find(request.fingerprint)?;
        let window = self.slots.window(at);
        if !shared.has_longer(request.limits) && !window.is_foreign(request.limits, 0) {
            window.advance(request.limits, self.latest.now, &shared.account);
        }
        Some(window)
    }

    /// Runs `at_window` on a key's window, or on a copy of it, advanced to now. Returns `None` if the key
    /// is not in the table.
    pub(super) fn look<R>(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
        at_window: impl FnOnce(&W, Moment) -> R,
    ) -> Option<R> {
        let request = self.with_clamped_time(request);
        let at = self.slots.find(request.fingerprint)?;
        let window = self.slots.window(at);
        Some(look(window, &request, shared, |window| at_window(window, request.moment)))
    }

    /// Removes a key and places its waiters again. Receipts that were issued for it become void. Returns
    /// `true` if the key existed.
    pub(super) fn reset(
        &mut self,
        fingerprint: u64,
        moment: Moment,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> bool {
        self.clamp_time(moment);
        let Some(at) = self.slots.find(fingerprint) else { return false };
        let epoch = self.slots.window(at).epoch();
        self.drop_slot(at, shared);
        self.cold.resets.note(fingerprint, epoch, self.latest.date, shared.note_budget());
        self.enqueue_again(fingerprint, shared, wakers);
        true
    }

    /// Returns the epoch for a new key. If a reset of the key is recorded, it is the epoch that follows
    /// the reset, and otherwise the next one of the shard.
    pub(super) fn new_epoch(&mut self, fingerprint: u64) -> u16 {
        self.cold.resets.next_epoch(fingerprint).unwrap_or_else(|| {
            self.last_epoch = self.last_epoch.wrapping_add(1);
            self.last_epoch
        })
    }

    /// Shrinks the sketches to the current memory limit.
    pub(super) fn shrink_sketches(&mut self, shared: &Shared) {
        let timer = LockTimer::start();
        let bytes = shared.sketch_bytes.load(Ordering::Relaxed) / self.sketches.len().max(1);
        for sketch in &mut self.sketches {
            sketch.shrink(bytes);
        }
        self.record_lock_time(timer);
    }

    pub(super) fn sketch_bytes(&self) -> usize {
        self.sketches.iter().map(Sketch::bytes).sum()
    }

    pub(super) fn record_lock_time(&mut self, timer: LockTimer) {
        self.counters.longest_hold = self.counters.longest_hold.max(timer.elapsed());
    }

    /// Returns the request with its time clamped.
    #[inline]
    pub(super) fn with_clamped_time<'a>(&mut self, request: &Request<'a>) -> Request<'a> {
        Request { moment: self.clamp_time(request.moment), ..*request }
    }

    /// Returns `moment`, or the latest moment of the shard if time has gone back since, and records it as the
    /// latest.
    #[inline]
    pub(super) fn clamp_time(&mut self, moment: Moment) -> Moment {
        if moment.now >= self.latest.now {
            self.latest = moment;
        }
        self.latest
    }

    /// Decides for a key that is not in the table, and adds it if allowed.
    #[cold]
    fn check_new(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        if let Some(denial) = self.blocked_denial(request, shared) {
            return denial;
        }
        if self.end_block_if_over(request.fingerprint, shared) {
            // The key was not found because a blocked key is stored under another fingerprint. Now it
            // has its own again.
            return self.check(request, shared);
        }
        let possible = request.limits.quotas().iter().all(|quota| request.cost <= quota.limit);
        if !possible {
            // The cost exceeds a limit, so no wait helps, and the key needs no slot.
            return self.peek_ignoring_blocks(request, shared);
        }
        let estimates = self.estimates(request, shared);
        if !permits(request, &estimates) {
            // A slot would date the units at now, so that each denied request extended the denial.
            return self.decide_by_sketches(request, shared, false);
        }
        let Some(at) = self.place_key(request, &estimates, shared) else {
            return self.decide_without_slot(request, shared, true);
        };
        let window = self.slots.window(at);
        let decision = decide(window, request, shared, true);
        if decision.is_allowed() {
            let idle_at = window.idle_at(shared.longest());
            self.idle.include(idle_at);
        } else {
            // Nothing was taken, so the key must not take memory.
            self.drop_slot(at, shared);
        }
        decision
    }

    /// Adds a key whose units the caller records next. Returns `None` if it does not fit, or if the
    /// sketches know units of it that a slot would lose or date at now.
    pub(super) fn add_key(&mut self, request: &Request<'_>, shared: &Shared) -> Option<usize> {
        let estimates = self.estimates(request, shared);
        if self.knows_more(request.fingerprint, &estimates)
            || (!permits(request, &estimates) && estimates.iter().any(|units| *units > 0))
        {
            return None;
        }
        let at = self.place_key(request, &estimates, shared);
        // When the key expires depends on the units that the caller records. Until they are known, zero
        // is the only safe lower bound.
        self.idle.include(0);
        at
    }

    /// Adds a key with the units that the sketches estimate for it. Returns `None`, and counts an
    /// overflow, if it does not fit.
    fn place_key(
        &mut self,
        request: &Request<'_>,
        estimates: &[u64; QUOTAS_MAX],
        shared: &Shared,
    ) -> Option<usize> {
        self.sweep_for_new(SWEEP_FOR_NEW, shared);
        let placed = self.try_place_key(request, estimates, shared);
        self.counters.overflowed += u64::from(placed.is_none());
        placed
    }

    fn try_place_key(
        &mut self,
        request: &Request<'_>,
        estimates: &[u64; QUOTAS_MAX],
        shared: &Shared,
    ) -> Option<usize> {
        let may_evict = shared.on_full.get() == OnFull::Lru;
        // In a flood of new keys, most do not fit. So this is checked before a window is created, which
        // may allocate.
        if self.slots.is_full() && !may_evict && !self.make_room(0, shared) {
            return None;
        }
        let epoch = self.new_epoch(request.fingerprint);
        let mut window = W::new(request.limits, epoch);
        let bytes = window.heap_bytes();
        let replaced = if self.make_room(bytes, shared) {
            None
        } else if may_evict {
            Some(self.evict(bytes, request, shared)?)
        } else {
            return None;
        };
        seed(&mut window, request, estimates, shared);
        let Some(at) = replaced else {
            return Some(self.slots.insert(request.fingerprint, window));
        };
        let (at, moved_round_end) = self.slots.replace(at, request.fingerprint, window);
        if moved_round_end {
            self.idle.keys_moved();
        }
        Some(at)
    }
}
