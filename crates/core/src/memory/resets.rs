//! Keys that were reset, until no receipt from before the reset can refund units.
//!
//! A slot has sixteen bits for its epoch and no space for the epochs that the key had before. A
//! shard therefore records each reset, and the key continues with the next epoch. After 65,535
//! resets every epoch was used. From then on, receipts up to the last reset are rejected by their
//! tick.
//!
//! Eviction and the sweep need no record: evicted units are still counted, and swept units have
//! expired.

use std::collections::BTreeMap;

use crate::account::Account;
use crate::coding::{Reader, Writer, damaged};
use crate::error::Error;

/// The resets of one shard.
#[derive(Debug, Default)]
pub(super) struct Resets {
    keys: BTreeMap<u64, Reset>,
    /// Receipts of every key are void before this tick, because records were dropped for lack of
    /// memory.
    void_before: u64,
    /// The fingerprint at which the next sweep starts.
    sweep_at: u64,
}

/// The resets of one key.
#[derive(Debug, Clone, Copy, Default)]
struct Reset {
    /// The latest tick of a receipt from before the last reset.
    through: u64,
    /// The epoch that the last reset ended.
    epoch: u16,
    /// The number of epochs that resets have ended. At the maximum, the next epoch may have been
    /// used before.
    ended: u16,
}

/// Bytes per key, with its share of a tree whose nodes are half full.
const KEY_BYTES: usize = 2 * (size_of::<u64>() + size_of::<Reset>());

/// The memory budget of the records of a shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoteBudget<'a> {
    pub(super) bytes_max: usize,
    pub(super) account: &'a Account,
}

impl Resets {
    /// Records that a key with `epoch` was reset, whose receipts have ticks up to `through`.
    pub(super) fn note(
        &mut self,
        fingerprint: u64,
        epoch: u16,
        through: u64,
        budget: NoteBudget<'_>,
    ) {
        let known = self.keys.get(&fingerprint).copied().unwrap_or_default();
        let through = known.through.max(through);
        let reset = Reset { through, epoch, ended: known.ended.saturating_add(1) };
        self.insert(fingerprint, reset, budget);
    }

    /// Returns the epoch that a key continues with, if it was reset.
    pub(super) fn next_epoch(&self, fingerprint: u64) -> Option<u16> {
        self.keys.get(&fingerprint).map(|reset| reset.epoch.wrapping_add(1))
    }

    /// Returns `true` if a receipt of `tick` is void even if its epoch is the key's.
    pub(super) fn is_void(&self, fingerprint: u64, tick: u64) -> bool {
        let is_void = |reset: &Reset| reset.ended == u16::MAX && tick <= reset.through;
        tick < self.void_before || self.keys.get(&fingerprint).is_some_and(is_void)
    }

    /// Examines up to `count` keys and drops those whose receipts have expired.
    pub(super) fn sweep(&mut self, count: usize, now: u64, longest: u64, account: &Account) {
        for _ in 0..count {
            let Some((&fingerprint, reset)) = self.keys.range(self.sweep_at..).next() else {
                self.sweep_at = 0;
                return;
            };
            // A counter counts units for up to two windows.
            if reset.through + 2 * longest <= now {
                self.keys.remove(&fingerprint);
                account.shrink(KEY_BYTES);
            }
            self.sweep_at = fingerprint.wrapping_add(1);
        }
    }

    /// Returns the bytes that the account counts.
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() * KEY_BYTES
    }

    pub(super) fn void_before(&self) -> u64 {
        self.void_before
    }

    pub(super) fn raise_void_before(&mut self, tick: u64) {
        self.void_before = self.void_before.max(tick);
    }

    /// Appends up to `count` keys from fingerprint `from` on to a snapshot. Returns the fingerprint
    /// to continue from, or `None` after the last key.
    pub(super) fn encode(&self, from: u64, count: usize, out: &mut Vec<u8>) -> Option<u64> {
        let mut keys = self.keys.range(from..);
        for (fingerprint, reset) in keys.by_ref().take(count) {
            out.put_u64(*fingerprint);
            out.put_u64(reset.through);
            out.put_u64(u64::from(reset.epoch) << 16 | u64::from(reset.ended));
        }
        keys.next().map(|(fingerprint, _)| *fingerprint)
    }

    /// Reads one key that `encode` wrote, after its fingerprint.
    pub(super) fn decode(
        &mut self,
        fingerprint: u64,
        input: &mut &[u8],
        budget: NoteBudget<'_>,
    ) -> Result<(), Error> {
        let through = input.take_tick()?;
        let Ok(epochs) = u32::try_from(input.take_u64()?) else {
            return Err(damaged("an epoch"));
        };
        let [high, low, more, less] = epochs.to_be_bytes();
        let (epoch, ended) = (u16::from_be_bytes([high, low]), u16::from_be_bytes([more, less]));
        self.insert(fingerprint, Reset { through, epoch, ended }, budget);
        Ok(())
    }

    /// Without memory for another record, drops all of them. Then the receipts that they made void
    /// are rejected by their tick, and so are others of the shard.
    fn insert(&mut self, fingerprint: u64, reset: Reset, budget: NoteBudget<'_>) {
        if !self.keys.contains_key(&fingerprint) && !self.has_grown(budget) {
            budget.account.shrink(self.bytes());
            for Reset { through, .. } in core::mem::take(&mut self.keys).into_values() {
                self.raise_void_before(through + 1);
            }
            if !self.has_grown(budget) {
                return self.raise_void_before(reset.through + 1);
            }
        }
        self.keys.insert(fingerprint, reset);
    }

    /// Reserves the bytes of one more record, if they are available.
    fn has_grown(&self, budget: NoteBudget<'_>) -> bool {
        self.bytes() + KEY_BYTES <= budget.bytes_max && budget.account.try_grow(KEY_BYTES)
    }
}

#[cfg(test)]
mod tests;
