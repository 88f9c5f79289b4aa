//! Saves and restores a shard, one step at a time.
//!
//! ```text
//! [keys, records ...]                                   fingerprint, epoch, window
//! [sketches, shard, number of shards, records ...]
//! [resets, shard, number of shards, tick, records ...]  see `resets.rs`
//! [blocks, records ...]                                 see `blocks.rs`
//! ```
//!
//! Keys are divided by ranges of their fingerprints and not by their places in the table, so that a
//! table that changes between two steps loses none.

use super::decide::{Request, copy};
use super::shard::{LockTimer, Shard, Shared};
use super::sketch::Sketch;
use super::store::Restored;
use crate::coding::{Reader, Writer, damaged};
use crate::error::Error;
use crate::sync::{Mutex, MutexGuard};
use crate::window::{DecodeContext, Window};

const KEYS: u64 = 1;
const SKETCHES: u64 = 2;
const BLOCKS: u64 = 4;
/// Frames of the kind 3 had other records.
const RESETS: u64 = 5;

/// The approximate number of slots that one step examines.
const STEP: usize = 128;

/// Calls `each` with the frames of one shard, which is number `place.0` of `place.1` shards. Returns the
/// number of keys. The lock is held for one step at a time, and never while `each` runs.
pub(super) fn save<W: Window>(
    shard: &Mutex<Shard<W>>,
    place: (usize, usize),
    shared: &Shared,
    each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<u64, Error> {
    let steps = (shard.lock().slots.capacity() / STEP).max(1) as u64;
    let width = (u64::MAX / steps).saturating_add(1);
    let mut frame = Vec::new();
    let mut saved = 0;
    for step in 0..steps {
        let from = step.saturating_mul(width);
        let to = if step + 1 == steps { u64::MAX } else { from + (width - 1) };
        frame.clear();
        frame.put_u64(KEYS);
        let keys = save_keys(&mut shard.lock(), from, to, shared, &mut frame);
        if keys > 0 {
            each(&frame)?;
        }
        saved += keys;
    }
    frame.clear();
    if save_sketches(&shard.lock(), place, &mut frame) {
        each(&frame)?;
    }
    save_resets(shard, place, each)?;
    save_blocks(shard, each)?;
    Ok(saved)
}

fn save_keys<W: Window>(
    shard: &mut Shard<W>,
    from: u64,
    to: u64,
    shared: &Shared,
    frame: &mut Vec<u8>,
) -> u64 {
    let timer = LockTimer::start();
    let mut keys = 0;
    shard.slots.between(from, to, |stored, window| {
        let fingerprint = shard.cold.blocks.key_of(stored);
        frame.put_u64(fingerprint);
        frame.put_u64(window.epoch().into());
        // Waiters do not survive a restart, so their units are not saved.
        let without_waiters = shard.cold.queues.has(fingerprint).then(|| {
            let mut copy = copy(window, &shared.limits, shared)?;
            shard.cold.queues.withdraw(fingerprint, &mut copy, shard.latest.now, shared);
            Some(copy)
        });
        match without_waiters.flatten() {
            Some(copy) => {
                copy.encode(frame);
                shared.account.shrink(copy.heap_bytes());
            }
            None => window.encode(frame),
        }
        keys += 1;
    });
    shard.record_lock_time(timer);
    keys
}

fn save_sketches<W>(shard: &Shard<W>, place: (usize, usize), frame: &mut Vec<u8>) -> bool {
    frame.put_u64(SKETCHES);
    frame.put_u64(place.0 as u64);
    frame.put_u64(place.1 as u64);
    frame.put_u64(shard.sketches.len() as u64);
    for sketch in &shard.sketches {
        sketch.encode(frame);
    }
    !shard.sketches.is_empty()
}

fn save_resets<W: Window>(
    shard: &Mutex<Shard<W>>,
    place: (usize, usize),
    each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut next = Some(0);
    while let Some(from) = next {
        let mut frame = Vec::new();
        let mut shard = shard.lock();
        let timer = LockTimer::start();
        frame.put_u64(RESETS);
        frame.put_u64(place.0 as u64);
        frame.put_u64(place.1 as u64);
        frame.put_u64(shard.cold.resets.void_before());
        next = shard.cold.resets.encode(from, STEP, &mut frame);
        let is_empty = shard.cold.resets.bytes() == 0 && shard.cold.resets.void_before() == 0;
        shard.record_lock_time(timer);
        drop(shard);
        if !is_empty {
            each(&frame)?;
        }
    }
    Ok(())
}

fn save_blocks<W: Window>(
    shard: &Mutex<Shard<W>>,
    each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut next = Some(0);
    while let Some(from) = next {
        let mut frame = Vec::new();
        frame.put_u64(BLOCKS);
        let shard = shard.lock();
        let is_empty = shard.cold.blocks.len() == 0;
        next = shard.cold.blocks.encode(from, STEP, &mut frame);
        drop(shard);
        if !is_empty {
            each(&frame)?;
        }
    }
    Ok(())
}

/// Restores a frame.
pub(super) fn restore<'a, W: Window + 'a>(
    mut frame: &[u8],
    request: &Request<'_>,
    shared: &Shared,
    lock: impl Fn(u64) -> MutexGuard<'a, Shard<W>>,
    lock_sharing: impl Fn(u64, u64) -> Vec<MutexGuard<'a, Shard<W>>>,
) -> Result<Restored, Error> {
    let limits = request.limits;
    let mut restored = Restored::default();
    match frame.take_u64()? {
        KEYS => {
            while !frame.is_empty() {
                let fingerprint = frame.take_u64()?;
                let mut shard = lock(fingerprint);
                let epoch = frame.take_u64()?;
                let epoch = u16::try_from(epoch).map_err(|_| damaged("an epoch"))?;
                // New keys get epochs after those of the restored keys.
                shard.last_epoch = shard.last_epoch.max(epoch);
                let context = DecodeContext { limits, epoch, account: &shared.account };
                let window = W::decode(&mut frame, &context)?;
                if shard.restore(fingerprint, window, request, shared) {
                    restored.keys += 1;
                } else {
                    restored.dropped += 1;
                }
            }
        }
        SKETCHES => {
            let (index, of) = (frame.take_u64()?, frame.take_u64()?);
            let count = frame.take_u64()?;
            let mut sketches = Vec::new();
            for _ in 0..count {
                sketches.push(Sketch::decode(&mut frame)?);
            }
            for mut shard in lock_sharing(index, of) {
                shard.clamp_time(request.moment);
                for sketch in &mut sketches {
                    shard.restore_sketch(sketch, shared);
                }
            }
        }
        RESETS => {
            let (index, of) = (frame.take_u64()?, frame.take_u64()?);
            let void_before = frame.take_tick()?;
            for mut shard in lock_sharing(index, of) {
                shard.cold.resets.raise_void_before(void_before);
            }
            while !frame.is_empty() {
                let fingerprint = frame.take_u64()?;
                let mut shard = lock(fingerprint);
                shard.cold.resets.decode(fingerprint, &mut frame, shared.note_budget())?;
            }
        }
        BLOCKS => {
            while !frame.is_empty() {
                let fingerprint = frame.take_u64()?;
                let mut shard = lock(fingerprint);
                shard.clamp_time(request.moment);
                if !shard.restore_block(fingerprint, &mut frame, shared)? {
                    restored.dropped += 1;
                }
            }
        }
        _ => return Err(damaged("the kind of a frame")),
    }
    Ok(restored)
}
