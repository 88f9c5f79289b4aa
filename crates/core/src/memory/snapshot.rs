//! State to bytes and back, a step at a time.
//!
//! A frame is `[keys, records ...]` or `[sketches, shard, of how many, records ...]`. Keys are cut by ranges of their fingerprints
//! and not by places in the table, so that a table that changes between two steps loses none.

use super::decide::Request;
use super::overflow::Sketch;
use super::shard::{Hold, Shard, Shared};
use super::store::Restored;
use crate::coding::{Reader, Writer, damaged};
use crate::error::Error;
use crate::sync::{Mutex, MutexGuard};
use crate::window::{DecodeContext, Window};

const KEYS: u64 = 1;
const SKETCHES: u64 = 2;

/// Slots that one step looks at, about.
const STEP: usize = 128;

/// Calls `each` with the frames of one shard, which is `place.0` of `place.1`, and returns how many keys they hold. The lock is
/// held for one step at a time, and never while `each` runs.
pub(super) fn save<W: Window>(
    shard: &Mutex<Shard<W>>,
    place: (usize, usize),
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
        let keys = save_keys(&mut shard.lock(), from, to, &mut frame);
        if keys > 0 {
            each(&frame)?;
        }
        saved += keys;
    }
    frame.clear();
    if save_sketches(&shard.lock(), place, &mut frame) {
        each(&frame)?;
    }
    Ok(saved)
}

fn save_keys<W: Window>(shard: &mut Shard<W>, from: u64, to: u64, frame: &mut Vec<u8>) -> u64 {
    let hold = Hold::start();
    let mut keys = 0;
    shard.slots.between(from, to, |fingerprint, window| {
        frame.put_u64(fingerprint);
        window.encode(frame);
        keys += 1;
    });
    shard.note_hold(hold);
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

/// Puts back what a frame holds.
pub(super) fn restore<'a, W: Window + 'a>(
    mut frame: &[u8],
    request: &Request<'_>,
    shift: u64,
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
                let epoch = shard.new_epoch();
                let context = DecodeContext { limits, epoch, shift, account: &shared.account };
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
            for _ in 0..count.min(limits.quotas().len() as u64) {
                sketches.push(Sketch::decode(&mut frame, shift)?);
            }
            for mut shard in lock_sharing(index, of) {
                shard.open_sketches(shared);
                for (own, sketch) in shard.sketches.iter_mut().zip(&sketches) {
                    own.absorb(sketch);
                }
            }
        }
        _ => return Err(damaged("the kind of a frame")),
    }
    Ok(restored)
}
