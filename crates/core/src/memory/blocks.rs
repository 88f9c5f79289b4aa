//! Blocked keys: denied until a given time, independently of their windows.
//!
//! Blocks must not slow down checks of other keys. So the slot of a blocked key has one bit of its
//! fingerprint inverted: a check does not find it and takes the path of a new key, which looks for a
//! block. All other operations restore the fingerprint while they run.

use std::collections::BTreeMap;

use super::decide::Request;
use super::resets::NoteBudget;
use super::shard::{Shard, Shared};
use crate::account::Account;
use crate::coding::{Reader, Writer};
use crate::decision::Decision;
use crate::error::Error;
use crate::time::Moment;
use crate::window::Window;

/// The blocked keys of one shard.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Fingerprints, and the tick at which each block ends.
    ends: BTreeMap<u64, u64>,
    /// The fingerprint at which the next sweep starts.
    sweep_at: u64,
}

/// The bit that is inverted. It does not select the shard, so the slot stays in its table.
const BIT: u64 = 1 << 20;

/// Bytes per key, with its share of a tree whose nodes are half full.
const KEY_BYTES: usize = 2 * (size_of::<u64>() + size_of::<u64>());

/// Blocks that are examined for ended ones if there is no memory for another.
const SWEEP_WHEN_FULL: usize = 16;

impl Blocks {
    /// Returns the tick at which the block of a key ends.
    #[inline]
    fn end(&self, fingerprint: u64) -> Option<u64> {
        self.ends.get(&fingerprint).copied()
    }

    /// Returns the fingerprint of the key whose slot has the fingerprint `stored`.
    pub(super) fn key_of(&self, stored: u64) -> u64 {
        if self.ends.contains_key(&(stored ^ BIT)) { stored ^ BIT } else { stored }
    }

    /// Returns `false` if there is no memory for it.
    fn insert(&mut self, fingerprint: u64, end: u64, budget: NoteBudget<'_>) -> bool {
        let has_room = self.ends.contains_key(&fingerprint)
            || (self.bytes() + KEY_BYTES <= budget.bytes_max && budget.account.try_grow(KEY_BYTES));
        if has_room {
            self.ends.insert(fingerprint, end);
        }
        has_room
    }

    fn remove(&mut self, fingerprint: u64, account: &Account) -> Option<u64> {
        let end = self.ends.remove(&fingerprint)?;
        account.shrink(KEY_BYTES);
        Some(end)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes that the account counts.
    pub(super) fn bytes(&self) -> usize {
        self.ends.len() * KEY_BYTES
    }

    /// Appends up to `count` keys from fingerprint `from` on to a snapshot. Returns the fingerprint
    /// to continue from, or `None` after the last key.
    pub(super) fn encode(&self, from: u64, count: usize, out: &mut Vec<u8>) -> Option<u64> {
        let mut ends = self.ends.range(from..);
        for (fingerprint, end) in ends.by_ref().take(count) {
            out.put_u64(*fingerprint);
            out.put_u64(*end);
        }
        ends.next().map(|(fingerprint, _)| *fingerprint)
    }
}

impl<W: Window> Shard<W> {
    /// Denies a key for `ticks`, and replaces an earlier block. Returns `false` if there is no memory
    /// for it.
    pub(super) fn block(
        &mut self,
        fingerprint: u64,
        ticks: u64,
        moment: Moment,
        shared: &Shared,
    ) -> bool {
        let end = self.clamp_time(moment).date.saturating_add(ticks);
        self.block_until(fingerprint, end, shared)
    }

    fn block_until(&mut self, fingerprint: u64, end: u64, shared: &Shared) -> bool {
        let is_blocked = self.cold.blocks.end(fingerprint).is_some();
        if !self.cold.blocks.insert(fingerprint, end, shared.note_budget()) {
            self.sweep_blocks(SWEEP_WHEN_FULL, shared);
            if !self.cold.blocks.insert(fingerprint, end, shared.note_budget()) {
                return false;
            }
        }
        if !is_blocked {
            self.rename(fingerprint, fingerprint ^ BIT, shared);
        }
        true
    }

    /// Ends a block. Returns `true` if there was one.
    pub(super) fn unblock(&mut self, fingerprint: u64, moment: Moment, shared: &Shared) -> bool {
        let now = self.clamp_time(moment).now;
        self.end_block(fingerprint, shared).is_some_and(|end| end > now)
    }

    fn end_block(&mut self, fingerprint: u64, shared: &Shared) -> Option<u64> {
        let end = self.cold.blocks.remove(fingerprint, &shared.account)?;
        self.rename(fingerprint ^ BIT, fingerprint, shared);
        Some(end)
    }

    /// Returns `true` if a request is for a blocked key.
    pub(super) fn is_blocked(&mut self, request: &Request<'_>) -> bool {
        let now = self.clamp_time(request.moment).now;
        self.cold.blocks.end(request.fingerprint).is_some_and(|end| end > now)
    }

    /// Returns the denial of a request for a blocked key, or `None` if the key is not blocked.
    pub(super) fn blocked_denial(
        &mut self,
        request: &Request<'_>,
        shared: &Shared,
    ) -> Option<Decision> {
        let end = self.cold.blocks.end(request.fingerprint)?;
        let request = self.with_clamped_time(request);
        let left = end.checked_sub(request.moment.now).filter(|left| *left > 0)?;
        let looked = self.with_slot(request.fingerprint, shared, |shard| {
            shard.peek_ignoring_blocks(&request, shared)
        });
        Some(looked.into_blocked_for(shared.scale.nanos(left)))
    }

    /// Ends the block of a key if its time is over. Returns `true` if it was.
    pub(super) fn end_block_if_over(&mut self, fingerprint: u64, shared: &Shared) -> bool {
        let is_over = |end: u64| end <= self.latest.now;
        self.cold.blocks.end(fingerprint).is_some_and(is_over)
            && self.end_block(fingerprint, shared).is_some()
    }

    /// Runs an operation that has to find the key's slot, blocked or not.
    pub(super) fn with_slot<R>(
        &mut self,
        fingerprint: u64,
        shared: &Shared,
        run: impl FnOnce(&mut Self) -> R,
    ) -> R {
        if self.cold.blocks.end(fingerprint).is_none() {
            return run(self);
        }
        self.rename(fingerprint ^ BIT, fingerprint, shared);
        let result = run(self);
        // The operation may have swept the block.
        if self.cold.blocks.end(fingerprint).is_some() {
            self.rename(fingerprint, fingerprint ^ BIT, shared);
        }
        result
    }

    /// Examines up to `count` blocks and ends those whose time is over.
    pub(super) fn sweep_blocks(&mut self, count: usize, shared: &Shared) {
        for _ in 0..count {
            let blocks = &mut self.cold.blocks;
            let Some((&fingerprint, &end)) = blocks.ends.range(blocks.sweep_at..).next() else {
                blocks.sweep_at = 0;
                return;
            };
            blocks.sweep_at = fingerprint.wrapping_add(1);
            if end <= self.latest.now {
                self.end_block(fingerprint, shared);
            }
        }
    }

    /// Reads one block that `encode` wrote, after its fingerprint. Returns `false` if there is no
    /// memory for it.
    pub(super) fn restore_block(
        &mut self,
        fingerprint: u64,
        input: &mut &[u8],
        shared: &Shared,
    ) -> Result<bool, Error> {
        let end = input.take_tick()?;
        Ok(end <= self.latest.now || self.block_until(fingerprint, end, shared))
    }

    /// Gives the slot of `from` the fingerprint `to`, if there is such a slot.
    fn rename(&mut self, from: u64, to: u64, shared: &Shared) {
        let Some(at) = self.slots.find(from) else {
            return;
        };
        let (window, moved_round_end) = self.slots.remove(at);
        if moved_round_end {
            self.idle.keys_moved();
        }
        self.idle.include(window.idle_at(shared.longest()));
        self.slots.insert(to, window);
    }
}
