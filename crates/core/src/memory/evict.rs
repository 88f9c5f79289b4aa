//! Makes room for new keys: drops expired keys, grows the table, or evicts.

use super::decide::Request;
use super::shard::{LockTimer, Shard, Shared};
use super::slots::Slots;
use crate::window::Window;

/// Slots swept for every new key: more than one, so that expired keys do not accumulate.
pub(super) const SWEEP_FOR_NEW: usize = 4;

/// Slots swept before a new key that does not fit is treated by `OnFull`.
const SWEEP_WHEN_FULL: usize = 64;

/// The least number of blocked keys that a sweep examines.
const SWEEP_BLOCKS: usize = 16;

/// Slots that a table shrinks by in one step.
const SHRINK_STEP: usize = 1024;

/// Keys compared to find one to evict.
const EVICT_FROM: usize = 4;

/// The tick before which no key of a shard expires: until then new keys need no sweep.
///
/// A lower bound of [`Window::idle_at`] of all keys. New keys and refunds lower it. A complete pass of
/// the sweep raises it to the lowest value found in the pass.
#[derive(Debug)]
pub(super) struct IdleBound {
    tick: u64,
    /// The lowest value since the current pass began; zero if the pass may miss a key.
    pass: u64,
}

impl IdleBound {
    /// The bound of a shard without keys.
    pub(super) fn new() -> Self {
        Self { tick: u64::MAX, pass: 0 }
    }

    /// Includes a key that is new, or that now expires earlier than before.
    pub(super) fn include(&mut self, idle_at: u64) {
        self.tick = self.tick.min(idle_at);
        self.pass = self.pass.min(idle_at);
    }

    fn is_reached(&self, now: u64) -> bool {
        self.tick <= now
    }

    /// Includes a key that the sweep has kept.
    fn include_kept(&mut self, idle_at: u64) {
        self.pass = self.pass.min(idle_at);
    }

    /// Keys have moved, perhaps from slots that the sweep has yet to examine to others.
    pub(super) fn keys_moved(&mut self) {
        self.pass = 0;
    }

    fn end_pass(&mut self) {
        self.tick = self.tick.max(self.pass);
        self.pass = u64::MAX;
    }
}

impl<W: Window> Shard<W> {
    /// Sweeps up to `slots` slots on behalf of a new key, unless that cannot free anything.
    pub(super) fn sweep_for_new(&mut self, slots: usize, shared: &Shared) {
        let is_over_budget = self.is_shrinking || !shared.account.fits();
        if self.idle.is_reached(self.latest.now) || is_over_budget {
            self.sweep(slots, shared);
        }
    }

    /// Includes a key in the bound that may now expire earlier than before.
    pub(super) fn include_idle(&mut self, fingerprint: u64, shared: &Shared) {
        if let Some(at) = self.slots.find(fingerprint) {
            let idle_at = self.slots.window(at).idle_at(shared.longest());
            self.idle.include(idle_at);
        }
    }

    /// Examines up to `slots` slots and drops the keys that can no longer change a decision. Returns
    /// the number of slots examined and the number of keys dropped.
    ///
    /// Goes from high slots to low ones. Dropping a key moves up the keys behind it, and in this order
    /// the expired ones among them are already gone. In the other order, a run of expired keys would
    /// be moved once for each of them, which takes milliseconds.
    pub(super) fn sweep(&mut self, slots: usize, shared: &Shared) -> (usize, usize) {
        let (mut seen, mut dropped) = (0, 0);
        let longest = shared.longest();
        self.cold.resets.sweep(slots, self.latest.now, longest, &shared.account);
        self.sweep_blocks(slots.max(SWEEP_BLOCKS), shared);
        while seen < slots {
            if self.sweep_at == 0 {
                if self.shrink(shared) {
                    // The next sweep continues to shrink.
                    seen += 1;
                    break;
                }
                self.idle.end_pass();
                self.drop_sketches();
                shared.longest.expire(self.latest.now);
                self.counters.log_units = core::mem::take(&mut self.counters.log_units_so_far);
                self.sweep_at = self.slots.capacity();
            }
            self.sweep_at = self.sweep_at.min(self.slots.capacity());
            let Some(at) = self.sweep_at.checked_sub(1) else { break };
            if let Some(window) = self.slots.get_mut(at) {
                let idle_at = window.idle_at(longest);
                if idle_at <= self.latest.now {
                    self.drop_slot(at, shared);
                    dropped += 1;
                } else {
                    window.trim(&shared.limits, &shared.account);
                    self.counters.log_units_so_far += window.recorded_units();
                    self.idle.include_kept(idle_at);
                }
            }
            self.sweep_at = at;
            seen += 1;
        }
        self.counters.swept += dropped as u64;
        (seen, dropped)
    }

    /// Returns `true` if a new key would get a slot. Drops expired keys if necessary.
    pub(super) fn has_room_now(&mut self, shared: &Shared) -> bool {
        self.has_room(shared) || {
            self.sweep_for_new(SWEEP_WHEN_FULL, shared);
            self.has_room(shared)
        }
    }

    fn has_room(&self, shared: &Shared) -> bool {
        if !self.slots.is_full() {
            return shared.account.fits();
        }
        let more = self.bytes_to_grow(self.slots.least_next_capacity());
        let granted = shared.account.try_grow(more);
        if granted {
            shared.account.shrink(more);
        }
        granted
    }

    fn bytes_to_grow(&self, capacity: usize) -> usize {
        Slots::<W>::bytes(capacity) - Slots::<W>::bytes(self.slots.capacity())
    }

    /// Provides a slot for one more key, and takes `bytes` from the account for its window. Drops
    /// expired keys if necessary. Returns `false`, and takes nothing, if there is no room.
    pub(super) fn make_room(&mut self, bytes: usize, shared: &Shared) -> bool {
        self.try_make_room(bytes, shared) || {
            self.sweep_for_new(SWEEP_WHEN_FULL, shared);
            // If all keys had expired, the sweep has freed the table.
            self.try_make_room(bytes, shared)
        }
    }

    fn try_make_room(&mut self, bytes: usize, shared: &Shared) -> bool {
        (!self.slots.is_full() || self.grow(shared)) && shared.account.try_grow(bytes)
    }

    /// Makes the table larger, by as much as the budget allows. Returns `false` if it cannot grow.
    pub(super) fn grow(&mut self, shared: &Shared) -> bool {
        let before = self.slots.capacity();
        let capacities = [self.slots.next_capacity(), self.slots.least_next_capacity()];
        let granted = |capacity: &usize| shared.account.try_grow(self.bytes_to_grow(*capacity));
        let Some(capacity) = capacities.into_iter().find(granted) else {
            return false;
        };
        let timer = LockTimer::start();
        self.slots.grow(capacity);
        // Keys stay in order, so the sweep continues at the same relative position.
        self.sweep_at = self.sweep_at * capacity / before.max(1);
        self.idle.keys_moved();
        self.is_shrinking = false;
        self.record_lock_time(timer);
        true
    }

    /// Makes the table smaller by one step if it is mostly empty, or has empty slots while the budget
    /// is exceeded. Returns `false` if it did nothing. Shrinking a large table in a single step would
    /// hold the lock for milliseconds.
    fn shrink(&mut self, shared: &Shared) -> bool {
        let (fitting, before) = (self.slots.fitting_capacity(), self.slots.capacity());
        let goes_on = fitting < before && (self.is_shrinking || !shared.account.fits());
        if !goes_on && !self.slots.is_sparse() {
            self.is_shrinking = false;
            return false;
        }
        let timer = LockTimer::start();
        self.slots.shrink(fitting.max(before.saturating_sub(SHRINK_STEP)));
        let after = self.slots.capacity();
        shared.account.shrink(Slots::<W>::bytes(before) - Slots::<W>::bytes(after));
        self.is_shrinking = after > fitting;
        self.record_lock_time(timer);
        true
    }

    /// Drops the sketches when both windows of each have passed.
    fn drop_sketches(&mut self) {
        let now = self.latest.now;
        if self.sketches.iter().all(|sketch| sketch.is_over(now)) {
            self.sketches = Vec::new();
        }
    }

    pub(super) fn drop_slot(&mut self, at: usize, shared: &Shared) {
        let (window, moved_round_end) = self.slots.remove(at);
        if moved_round_end {
            self.idle.keys_moved();
        }
        shared.account.shrink(window.heap_bytes());
    }

    /// Moves a key into the sketches, and takes `bytes` from the account for the window of the key
    /// that replaces it. Returns the slot, which still holds the evicted key.
    ///
    /// Compares only keys next to the home slot of the new key: these are a few adjacent cache lines,
    /// and the new key can use the slot without moving any other. Keys with waiters are not evicted.
    pub(super) fn evict(
        &mut self,
        bytes: usize,
        request: &Request<'_>,
        shared: &Shared,
    ) -> Option<usize> {
        let idle_at = |at: usize| {
            let (fingerprint, window) = self.slots.get(at)?;
            let idle_at = window.idle_at(shared.longest());
            let key = self.cold.blocks.key_of(fingerprint);
            (!self.cold.queues.has(key)).then_some((idle_at, at))
        };
        let nearest = self.slots.near(request.fingerprint).filter_map(idle_at);
        let (_, at) = nearest.take(EVICT_FROM).min()?;
        // Taken out while the sketches read it. The slot stays the evicted key's until it is replaced.
        let stored = self.slots.get(at)?.0;
        let window = core::mem::take(self.slots.window(at));
        self.remember(self.cold.blocks.key_of(stored), &window, shared);
        *self.slots.window(at) = window;
        self.counters.evictions += 1;
        shared.account.shrink(self.slots.window(at).heap_bytes());
        if shared.account.try_grow(bytes) {
            return Some(at);
        }
        let (_, moved_round_end) = self.slots.remove(at);
        if moved_round_end {
            self.idle.keys_moved();
        }
        None
    }
}
