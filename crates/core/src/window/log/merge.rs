//! Makes a log smaller without over-admitting: neighboring entries become one entry at the later
//! tick.

use std::cell::RefCell;

use super::code::{Code, read};

/// Merges all entries in the same aligned interval of `quantum` ticks, and returns the tick of the
/// first entry, which may now be later.
///
/// `first` is the tick of the first entry, `end` the tick after the last gap. Intervals are
/// aligned, and quanta are powers of two, so repeated merging does not accumulate: no unit is ever
/// recorded `quantum` ticks or more too late.
pub(super) fn merge(codes: &[u8], first: u64, end: u64, quantum: u64, out: &mut Vec<u8>) -> u64 {
    out.clear();
    let mut merged_first = end;
    let mut done: Option<(u64, u64)> = None;
    let mut group = (first, 0);
    let mut tick = first;
    let mut rest = codes;
    let mut close = |group: (u64, u64), out: &mut Vec<u8>| {
        match done {
            Some((tick, units)) => {
                out.extend_from_slice(Code::new(units, group.0 - tick).as_slice());
            }
            None => merged_first = group.0,
        }
        done = Some(group);
    };
    while !rest.is_empty() {
        let entry = read(rest);
        if tick / quantum != group.0 / quantum {
            close(group, out);
            group.1 = 0;
        }
        group = (tick, group.1 + entry.units);
        tick += entry.gap;
        rest = &rest[entry.len.min(rest.len())..];
    }
    if !codes.is_empty() {
        close(group, out);
        // Closes the last group with the tick after it.
        close((end, 0), out);
    }
    merged_first
}

/// Returns the quantum with which a log of `window` ticks takes less than half of `bytes_max`. A
/// merged entry takes up to six bytes.
pub(super) fn first_quantum(window: u64, bytes_max: usize) -> u64 {
    (window.saturating_mul(12) / (bytes_max.max(1) as u64)).max(1).next_power_of_two()
}

/// Runs `work` with a buffer of the thread, so that merging does not allocate in steady state.
pub(super) fn with_scratch<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => work(&mut scratch),
        Err(_) => work(&mut Vec::new()),
    })
}
