//! Making room: what can no longer matter is swept, the rest is moved out or grown for.

use super::decide::Request;
use super::shard::{Hold, OnFull, SWEEP_WHEN_FULL, Shard, Shared};
use super::slots::Slots;
use crate::window::Window;

/// Slots that a table loses at once.
const SHRINK_STEP: usize = 1024;

/// Keys compared to find one to evict.
const EVICT_FROM: usize = 16;

impl<W: Window> Shard<W> {
    /// Looks at up to `slots` slots and drops those that can no longer change a decision: how many
    /// were looked at, and how many of them dropped.
    ///
    /// Goes down: when a key is dropped, those behind it move up, and the expired ones among them are
    /// already gone, so that few are left to move. Going up, a run of expired keys would be moved
    /// once for each of them, which takes milliseconds.
    pub(super) fn sweep(&mut self, slots: usize, shared: &Shared) -> (usize, usize) {
        let (mut seen, mut dropped) = (0, 0);
        let longest = shared.longest();
        self.resets.sweep(slots, self.latest.now, longest, &shared.account);
        while seen < slots {
            if self.sweep_at == 0 {
                if self.shrink(shared) {
                    // The rest of it next time.
                    seen += 1;
                    break;
                }
                self.drop_sketches();
                shared.longest.expire(self.latest.now);
                self.counters.log_units = core::mem::take(&mut self.counters.log_units_so_far);
                self.sweep_at = self.slots.capacity();
            }
            self.sweep_at = self.sweep_at.min(self.slots.capacity());
            let Some(at) = self.sweep_at.checked_sub(1) else { break };
            match self.slots.get_mut(at) {
                Some(window) if window.idle_at(longest) <= self.latest.now => {
                    self.drop_slot(at, shared);
                    dropped += 1;
                }
                Some(window) => {
                    window.trim(&shared.limits, &shared.account);
                    self.counters.log_units_so_far += window.recorded_units();
                }
                None => {}
            }
            self.sweep_at = at;
            seen += 1;
        }
        self.counters.swept += dropped as u64;
        (seen, dropped)
    }

    /// Whether a new key would find a slot, after those that no longer matter have gone if need be.
    pub(super) fn has_room_now(&mut self, shared: &Shared) -> bool {
        self.has_room(shared) || {
            self.sweep(SWEEP_WHEN_FULL, shared);
            self.has_room(shared)
        }
    }

    fn has_room(&self, shared: &Shared) -> bool {
        if !self.slots.is_full() {
            return shared.account.fits();
        }
        let more = Slots::<W>::bytes(self.slots.next_capacity())
            - Slots::<W>::bytes(self.slots.capacity());
        let granted = shared.account.try_grow(more);
        if granted {
            shared.account.shrink(more);
        }
        granted
    }

    /// Makes the table larger by an eighth.
    pub(super) fn grow(&mut self, shared: &Shared) -> bool {
        let hold = Hold::start();
        let capacity = self.slots.next_capacity();
        let more = Slots::<W>::bytes(capacity) - Slots::<W>::bytes(self.slots.capacity());
        if !shared.account.try_grow(more) {
            return false;
        }
        self.slots.resize(capacity);
        self.sweep_at = 0;
        self.is_shrinking = false;
        self.note_hold(hold);
        true
    }

    /// Makes a table smaller that is mostly empty, or that has empty slots while the budget is
    /// exceeded. By a step: to free all of a large one at once would hold the lock for milliseconds.
    /// False if there is nothing to do, or no more.
    fn shrink(&mut self, shared: &Shared) -> bool {
        let (fitting, before) = (self.slots.fitting_capacity(), self.slots.capacity());
        let goes_on = fitting < before && (self.is_shrinking || !shared.account.fits());
        if !goes_on && !self.slots.is_sparse() {
            self.is_shrinking = false;
            return false;
        }
        let hold = Hold::start();
        self.slots.resize(fitting.max(before.saturating_sub(SHRINK_STEP)));
        let after = self.slots.capacity();
        shared.account.shrink(Slots::<W>::bytes(before) - Slots::<W>::bytes(after));
        self.is_shrinking = after > fitting;
        self.note_hold(hold);
        true
    }

    /// Drops the sketches once both windows of each have passed.
    fn drop_sketches(&mut self) {
        let now = self.latest.now;
        if self.sketches.iter().all(|sketch| sketch.is_over(now)) {
            self.sketches = Vec::new();
        }
    }

    pub(super) fn drop_slot(&mut self, at: usize, shared: &Shared) {
        let (_, window) = self.slots.remove(at);
        shared.account.shrink(window.heap_bytes());
    }

    /// Under `lru`, makes room by moving the key that was idle longest into the sketch. A key that
    /// callers wait for stays.
    pub(super) fn evict(&mut self, request: &Request<'_>, shared: &Shared) -> bool {
        if shared.on_full.get() != OnFull::Lru || self.slots.len() == 0 {
            return false;
        }
        let capacity = self.slots.capacity();
        let mut oldest: Option<(u64, usize)> = None;
        let mut seen = 0;
        for step in 0..capacity {
            // The sweep's place moves on, so every key has its turn.
            let at = (self.sweep_at + step) % capacity;
            if let Some((fingerprint, window)) = self.slots.get(at)
                && !self.lines.has(fingerprint)
            {
                let idle_at = window.idle_at(shared.longest());
                if oldest.is_none_or(|(least, _)| idle_at < least) {
                    oldest = Some((idle_at, at));
                }
                seen += 1;
            }
            if seen == EVICT_FROM {
                self.sweep_at = (at + 1) % capacity;
                break;
            }
        }
        let Some((_, at)) = oldest else { return false };
        self.remember(at, request, shared);
        self.drop_slot(at, shared);
        self.counters.evictions += 1;
        true
    }

    /// Adds what a key has taken to the sketches.
    pub(super) fn remember(&mut self, at: usize, request: &Request<'_>, shared: &Shared) {
        self.open_sketches(shared);
        let now = request.moment.now;
        let Some((fingerprint, _)) = self.slots.get(at) else {
            return;
        };
        let window = self.slots.window(at);
        for (index, sketch) in self.sketches.iter_mut().enumerate() {
            // The key may have had other quotas than the one that pushes it out, so all that is on
            // record counts, for as long as the longest window.
            sketch.advance(shared.longest(), now);
            sketch.raise(fingerprint, window.on_record(request.limits, index, now));
        }
    }
}
