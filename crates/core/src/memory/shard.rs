//! One shard of the table: the keys whose fingerprints have the same lower bits, behind one lock.
//!
//! Every operation takes a [`Request`] with the reading of the clock and clamps it first, so that time
//! does not go back within a shard. Operations on existing keys are in this file; `overflow.rs` and
//! `evict.rs` treat keys that do not fit, `blocks.rs` blocked keys, and `wait_queue.rs` waiters.

use std::time::{Duration, Instant};

use super::blocks::Blocks;
use super::decide::{
    CompactDecision, Request, check_one_known, check_window, decide, deny_full, look, seed,
};
use super::evict::{IdleBound, SWEEP_FOR_NEW};
use super::longest::Longest;
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
    /// The new key replaces another one: of the four keys next to its slot, the key whose units expire
    /// first. For most algorithms, that is the key that was admitted longest ago. The units of the
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
    /// Bytes of one shard's sketch of one quota.
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

    /// Returns the budget of a shard for its records of resets, and the same for those of blocks. It is
    /// a quarter of the bytes of a sketch: over all shards, a sixteenth of the memory limit, or less
    /// with several quotas.
    pub(super) fn note_budget(&self) -> NoteBudget<'_> {
        let bytes_max = self.sketch_bytes.load(Ordering::Relaxed) / 4;
        NoteBudget { bytes_max, account: &self.account }
    }

    /// Returns `true` if the policy or one of its tiers has a longer window than `limits`.
    ///
    /// [`Window::advance`] would drop entries that `limits` no longer counts, but that the longer window
    /// may still count. Reads therefore advance a copy. Charges and refunds do not advance.
    pub(super) fn has_longer(&self, limits: &Limits) -> bool {
        limits.longest() < self.longest()
    }
}

/// Measures how long a lock is held. It is used only for growth, sweeps, eviction and snapshots, because
/// two readings of the clock take longer than an ordinary check.
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
    /// Recorded units of all logs, as of the last complete sweep.
    pub(super) log_units: u64,
    /// The same for the slots that the current sweep has examined.
    pub(super) log_units_so_far: u64,
}

/// The state that a shard's lock guards. The fields that a check needs come first, in two cache lines
/// that the processor fetches together.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shard<W> {
    pub(super) slots: Slots<W>,
    /// The latest moment of any operation. Earlier ones are clamped to it.
    pub(super) latest: Moment,
    /// Checks until the next sweep.
    pub(super) until_sweep: u32,
    /// The position of the sweep, which goes down: it examines the slot before this one next.
    pub(super) sweep_at: usize,
    /// The tick before which a sweep cannot drop a key.
    pub(super) idle: IdleBound,
    /// Whether the table is shrinking, which takes several steps.
    pub(super) is_shrinking: bool,
    /// The last epoch given to a new key.
    pub(super) last_epoch: u16,
    /// One per quota. Empty until a key does not fit.
    pub(super) sketches: Vec<Sketch>,
    pub(super) counters: Counters,
    pub(super) cold: Box<ColdState>,
}

/// The state that a check does not need, in its own allocation, so that a shard takes 256 bytes.
#[derive(Debug, Default)]
pub(super) struct ColdState {
    /// Keys of a snapshot that did not fit, and their units per quota. Empty except during a restore.
    pub(super) unplaced: Vec<(u64, [u64; QUOTAS_MAX])>,
    pub(super) resets: Resets,
    pub(super) blocks: Blocks,
    pub(super) queues: WaitQueues,
}

impl ColdState {
    /// Bytes of the allocation, with the allocator's header.
    pub(super) const BYTES: usize = size_of::<Self>() + 16;
}

/// Checks of a shard between two sweeps.
const SWEEP_EVERY: u32 = 128;
/// Slots that such a sweep examines.
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
    /// This is the fast path: the key is in the table, and time does not go back. The decision is
    /// written while the lock is held, so that its parts need not be saved across the unlock.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a tenth of the check")]
    pub(super) fn check_one(
        &mut self,
        fingerprint: u64,
        moment: Moment,
        shared: &Shared,
    ) -> Decision {
        // Only `now` is compared. `date` may be a tick earlier than before, which is valid: a log whose
        // last entry is later than `date` does not use its fast path.
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

    /// Decides for a key with one quota whose slot is `at`, and takes the units if allowed.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a tenth of the check")]
    pub(super) fn check_at(
        &mut self,
        at: usize,
        request: &Request<'_>,
        shared: &Shared,
    ) -> CompactDecision {
        let moment = self.clamp_time(request.moment);
        let known = check_window(self.slots.window(at), request, moment, shared);
        self.sweep_in_turn(shared);
        known
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
        window.advance(request.limits, request.moment.now, &shared.account);
        decide(window, &request, shared, true)
    }

    /// Decides without taking units.
    pub(super) fn peek(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        if let Some(denial) = self.blocked_denial(request, shared) {
            return denial;
        }
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
        match self.slots.find(request.fingerprint) {
            Some(at) => look(self.slots.window(at), &request, shared, |window| {
                decide(window, &request, shared, false)
            }),
            None if shared.on_full.get() == OnFull::Deny
                && request.limits.quotas().iter().all(|quota| request.cost <= quota.limit)
                && !self.has_room_now(shared) =>
            {
                deny_full(&request, shared)
            }
            None => {
                let estimates = self.estimates(&request);
                let mut window = W::new(request.limits, 0);
                shared.account.grow(window.heap_bytes());
                seed(&mut window, &request, &estimates, shared);
                let decision = decide(&mut window, &request, shared, false);
                shared.account.shrink(window.heap_bytes());
                decision
            }
        }
    }

    /// Takes the units without a check, also above the limit. The sketches count them if the key does
    /// not fit.
    pub(super) fn take(&mut self, request: &Request<'_>, shared: &Shared, wakers: &mut Wakers) {
        let request = self.with_clamped_time(request);
        let fingerprint = request.fingerprint;
        self.set_aside(fingerprint, WaiterSelection::NotDue, shared);
        let found = self.slots.find(request.fingerprint);
        let Some(at) = found.or_else(|| self.add_key(&request, shared)) else {
            self.open_sketches(shared);
            let _ = self.estimates(&request);
            for sketch in &mut self.sketches {
                sketch.add(request.fingerprint, request.cost);
            }
            return;
        };
        let window = self.slots.window(at);
        if !shared.has_longer(request.limits) {
            window.advance(request.limits, request.moment.now, &shared.account);
        }
        window.take(request.limits, request.moment, request.cost, &shared.account);
        self.place_again(fingerprint, shared, wakers);
    }

    /// Refunds the units of a receipt. Returns their number.
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

    /// Refunds units without a receipt: the oldest that count, then the newest. Returns their number.
    pub(super) fn forgive(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
        wakers: &mut Wakers,
    ) -> u64 {
        let Request { fingerprint, limits, cost, .. } = *request;
        let now = self.clamp_time(request.moment).now;
        // Waiters have not used their units yet, even if they are due. So their units are not forgiven.
        self.set_aside(fingerprint, WaiterSelection::ALL, shared);
        let given = self.window_to_reduce(request, shared).map_or(0, |window| {
            let oldest = (now + 1).saturating_sub(limits.longest());
            let limits = limits.keeping(shared.longest());
            let given = window.give_back(&limits, now, oldest, cost, &shared.account);
            let left = cost - given.min(cost);
            given + window.give_back(&limits, now, now, left, &shared.account)
        });
        self.place_again(fingerprint, shared, wakers);
        self.include_idle(fingerprint, shared);
        given
    }

    /// Returns the window of a key whose units are about to be refunded. Advances it to now, unless that
    /// would drop entries that another tier still counts.
    fn window_to_reduce(&mut self, request: &Request<'_>, shared: &Shared) -> Option<&mut W> {
        let at = self.slots.find(request.fingerprint)?;
        let window = self.slots.window(at);
        if !shared.has_longer(request.limits) {
            window.advance(request.limits, self.latest.now, &shared.account);
        }
        Some(window)
    }

    /// Runs `at_window` on a key's window, advanced to now.
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

    /// Removes a key, and places its waiters again. Receipts that were issued for it are void. Returns
    /// `true` if it existed.
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

    /// Returns the epoch of a new key.
    pub(super) fn new_epoch(&mut self, fingerprint: u64) -> u16 {
        self.cold.resets.next_epoch(fingerprint).unwrap_or_else(|| {
            self.last_epoch = self.last_epoch.wrapping_add(1);
            self.last_epoch
        })
    }

    /// Shrinks the sketches to the current limit. Estimates are rounded up: of two counts that become
    /// one, the higher is kept.
    pub(super) fn shrink_sketches(&mut self, shared: &Shared) {
        let timer = LockTimer::start();
        let bytes = shared.sketch_bytes.load(Ordering::Relaxed);
        for (sketch, quota) in self.sketches.iter_mut().zip(shared.limits.quotas()) {
            if sketch.exceeds(bytes) {
                let mut smaller = Sketch::new(bytes, quota.limit);
                smaller.absorb(sketch);
                *sketch = smaller;
            }
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

    /// Returns the later of `moment` and the latest moment of the shard, and records it as the latest.
    #[inline]
    pub(super) fn clamp_time(&mut self, moment: Moment) -> Moment {
        self.latest.now = self.latest.now.max(moment.now);
        self.latest.date = self.latest.date.max(moment.date);
        self.latest
    }

    /// Decides for a key that is not in the table, and adds it if allowed.
    #[cold]
    fn check_new(&mut self, request: &Request<'_>, shared: &Shared) -> Decision {
        if let Some(denial) = self.blocked_denial(request, shared) {
            return denial;
        }
        if self.end_block_in_time(request.fingerprint, shared) {
            // A blocked key is stored under another fingerprint. Now it is found under its own again.
            return self.check(request, shared);
        }
        let possible = request.limits.quotas().iter().all(|quota| request.cost <= quota.limit);
        if !possible {
            return self.peek_ignoring_blocks(request, shared);
        }
        self.sweep_for_new(SWEEP_FOR_NEW, shared);
        let Some(at) = self.place_key(request, shared) else {
            return match shared.on_full.get() {
                OnFull::Deny => deny_full(request, shared),
                OnFull::Overflow | OnFull::Lru => self.check_overflow(request, shared),
            };
        };
        let window = self.slots.window(at);
        let decision = decide(window, request, shared, true);
        let idle_at = window.idle_at(shared.longest());
        if idle_at <= request.moment.now {
            // A denied key without recorded units must not take memory.
            self.drop_slot(at, shared);
        } else {
            self.idle.include(idle_at);
        }
        decision
    }

    /// Adds a key whose units the caller records next. Returns `None` if it does not fit.
    pub(super) fn add_key(&mut self, request: &Request<'_>, shared: &Shared) -> Option<usize> {
        // The tick at which the key expires is not known yet.
        self.idle.include(0);
        self.place_key(request, shared)
    }

    /// Adds a key with the units that the sketches estimate for it. Returns `None`, and counts an
    /// overflow, if it does not fit.
    fn place_key(&mut self, request: &Request<'_>, shared: &Shared) -> Option<usize> {
        let placed = self.try_place_key(request, shared);
        self.counters.overflowed += u64::from(placed.is_none());
        placed
    }

    fn try_place_key(&mut self, request: &Request<'_>, shared: &Shared) -> Option<usize> {
        let may_evict = shared.on_full.get() == OnFull::Lru;
        // Checked before the window is created, which may allocate: in a flood, most keys do not fit.
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
        let estimates = self.estimates(request);
        seed(&mut window, request, &estimates, shared);
        Some(match replaced {
            Some(at) => self.slots.replace(at, request.fingerprint, window),
            None => self.slots.insert(request.fingerprint, window),
        })
    }
}
