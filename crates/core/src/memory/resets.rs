//! Keys that were reset, until no receipt from before the reset can refund units.
//!
//! A slot has sixteen bits for its epoch and no space for the epochs that the key had before. A
//! shard therefore records each reset. The key continues with the next epoch, and after 65,536
//! resets, when no epoch is left, the receipts issued so far are rejected by their tick.
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
    /// Receipts of every key are void before this tick, because records of earlier resets were
    /// dropped.
    void_before: u64,
    /// The fingerprint at which the next sweep starts.
    sweep_at: u64,
}

/// The resets of one key.
#[derive(Debug, Clone, Copy, Default)]
struct Reset {
    /// The latest tick of a receipt from before the last reset.
    through: u64,
    /// Receipts before this tick are void, whatever their epoch.
    void_before: u64,
    /// The epoch that the last reset ended.
    epoch: u16,
    /// The number of epochs that resets have ended since `void_before` was set.
    ended: u16,
}

/// Bytes per key, with its share of a tree whose nodes are half full.
const KEY_BYTES: usize = 2 * (size_of::<u64>() + size_of::<Reset>());

/// The number of keys that are compared to find one to drop.
const DROP_FROM: usize = 16;

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
        let mut reset = self.keys.get(&fingerprint).copied().unwrap_or_default();
        reset.through = reset.through.max(through);
        reset.epoch = epoch;
        (reset.ended, reset.void_before) = match reset.ended.checked_add(1) {
            Some(ended) => (ended, reset.void_before),
            None => (0, reset.through + 1),
        };
        self.insert(fingerprint, reset, budget);
    }

    /// Returns the epoch that a key continues with, if it was reset.
    pub(super) fn next_epoch(&self, fingerprint: u64) -> Option<u16> {
        self.keys.get(&fingerprint).map(|reset| reset.epoch.wrapping_add(1))
    }

    /// Returns `true` if a receipt of `tick` is void even if its epoch is the key's.
    pub(super) fn is_void(&self, fingerprint: u64, tick: u64) -> bool {
        let of_key = || self.keys.get(&fingerprint).is_some_and(|key| tick < key.void_before);
        tick < self.void_before || of_key()
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
            out.put_u64(reset.void_before);
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
        let (through, void_before) = (input.take_tick()?, input.take_tick()?);
        let Ok(epochs) = u32::try_from(input.take_u64()?) else {
            return Err(damaged("an epoch"));
        };
        let [high, low, more, less] = epochs.to_be_bytes();
        let (epoch, ended) = (u16::from_be_bytes([high, low]), u16::from_be_bytes([more, less]));
        self.insert(fingerprint, Reset { through, void_before, epoch, ended }, budget);
        Ok(())
    }

    fn insert(&mut self, fingerprint: u64, reset: Reset, budget: NoteBudget<'_>) {
        let is_noted = self.keys.contains_key(&fingerprint);
        if is_noted || self.has_grown(budget) || (self.drop_old(budget) && self.has_grown(budget)) {
            self.keys.insert(fingerprint, reset);
        } else {
            self.raise_void_before(reset.through + 1);
        }
    }

    /// Reserves the bytes of one more key, if they are available.
    fn has_grown(&self, budget: NoteBudget<'_>) -> bool {
        self.bytes() + KEY_BYTES <= budget.bytes_max && budget.account.try_grow(KEY_BYTES)
    }

    /// Drops the oldest of a few records. Returns `false` if there is none.
    fn drop_old(&mut self, budget: NoteBudget<'_>) -> bool {
        let behind = self.keys.range(self.sweep_at..);
        let keys = behind.chain(self.keys.range(..self.sweep_at)).take(DROP_FROM);
        let oldest = keys.min_by_key(|(_, reset)| reset.through);
        let Some((&fingerprint, &Reset { through, .. })) = oldest else { return false };
        self.keys.remove(&fingerprint);
        budget.account.shrink(KEY_BYTES);
        self.raise_void_before(through + 1);
        true
    }
}

#[cfg(test)]
mod tests;
