//! The form of a log that is very long or has several quotas.
//!
//! Codes are divided into chunks of 4 KiB with the sum of their units. So mass expiry, a refund in
//! the middle and the `retry_after` of a large cost read sums and at most two chunks. Every quota
//! has a cursor: the start of its window, and the units from there on.

use std::collections::VecDeque;

use super::body::BLOCK_OVERHEAD;
use super::code::{CODE_MAX, Code, read};
use super::cursor::{Chunk, Cursor, OPEN};
use super::merge;
use crate::account::Account;
use crate::policy::QUOTAS_MAX;
use crate::time::Moment;
use crate::window::Limits;

/// The entries of one key, in chunks.
#[derive(Debug)]
pub(super) struct WideLog {
    chunks: VecDeque<Chunk>,
    /// The number of the front chunk since the creation of the log.
    base: u64,
    /// The tick of the open entry.
    last: u64,
    /// The units of the last entry, which has no code yet.
    open: u64,
    /// All recorded units.
    units: u64,
    /// One per quota. Empty after a change that moved codes, until the next `advance`.
    cursors: Vec<Cursor>,
    /// The block of the last removed chunk, so that there is always space for a first one.
    spare: Vec<u8>,
    /// The bytes of codes, and of their blocks.
    code_bytes: usize,
    chunk_bytes: usize,
}

const CHUNK: usize = 4096;
const CHUNK_FIRST: usize = 64;

impl WideLog {
    /// The bytes of a wide log without its chunks: the struct, and at most eight cursors.
    const FIXED_BYTES: usize =
        size_of::<Self>() + QUOTAS_MAX * size_of::<Cursor>() + 3 * BLOCK_OVERHEAD;

    pub(super) fn new(limits: &Limits) -> Self {
        let spare = Vec::with_capacity(CHUNK_FIRST);
        let mut wide = Self {
            chunks: VecDeque::new(),
            base: 0,
            last: 0,
            open: 0,
            units: 0,
            cursors: Vec::with_capacity(limits.quotas().len()),
            code_bytes: 0,
            chunk_bytes: spare.capacity() + Self::CHUNK_BYTES,
            spare,
        };
        wide.sync(limits);
        wide
    }

    pub(super) fn recorded_units(&self) -> u64 {
        self.units
    }

    pub(super) fn heap_bytes(&self) -> usize {
        Self::FIXED_BYTES + self.chunk_bytes
    }

    pub(super) fn advance(&mut self, limits: &Limits, now: u64, account: &Account) {
        self.sync(limits);
        for cursor in &mut self.cursors {
            cursor.advance(&self.chunks, self.base, self.last, now);
        }
        self.drop_front(account);
    }

    pub(super) fn used(&self, index: usize) -> u64 {
        self.cursors.get(index).map_or(self.units, |cursor| cursor.units)
    }

    /// Returns the tick of the first entry that counts in quota `index`.
    pub(super) fn first(&self, index: usize) -> Option<u64> {
        self.cursors.get(index).filter(|cursor| cursor.units > 0).map(|cursor| cursor.tick)
    }

    pub(super) fn idle_at(&self, longest: u64) -> u64 {
        if self.units == 0 { 0 } else { self.last + longest }
    }

    /// Returns the tick of the entry whose expiry frees the last of `over` units of quota `index`.
    pub(super) fn freeing(&self, index: usize, over: u64) -> u64 {
        let Some(cursor) = self.cursors.get(index) else {
            return self.last;
        };
        let Some(from) = cursor.index(self.base) else {
            return self.last;
        };
        let mut freed = 0;
        for (index, chunk) in self.chunks.iter().enumerate().skip(from) {
            if index > from && chunk.units.saturating_add(freed) < over {
                freed += chunk.units;
                continue;
            }
            let mut found = None;
            chunk.scan(|at, tick, units, _| {
                if index > from || at >= cursor.offset {
                    freed = units.saturating_add(freed);
                }
                found = (freed >= over).then_some(tick);
                found.is_none()
            });
            if let Some(tick) = found {
                return tick;
            }
        }
        self.last
    }

    /// Takes units without a check. The tick must not be before any other.
    pub(super) fn take(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> u64 {
        if self.units == 0 {
            self.clear(account);
            self.last = moment.date;
        } else if moment.date > self.last {
            self.close(moment.date, limits, account);
            if self.cursors.is_empty() {
                self.advance(limits, moment.now, account);
            }
        }
        self.open = self.open.saturating_add(cost);
        self.units = self.units.saturating_add(cost);
        for cursor in &mut self.cursors {
            if cursor.units == 0 {
                (cursor.chunk, cursor.offset, cursor.tick) = (OPEN, 0, self.last);
            }
            cursor.units = cursor.units.saturating_add(cost);
        }
        self.last
    }

    /// Removes up to `units` of the entries from tick `from` to tick `to`, oldest first. Returns their
    /// number.
    pub(super) fn remove(&mut self, from: u64, to: u64, units: u64, account: &Account) -> u64 {
        let mut left = units;
        while left > 0 {
            let Some(given) = self.remove_once(from, to, left, account) else {
                break;
            };
            left -= given;
            self.units = self.units.saturating_sub(given);
        }
        if left < units {
            self.cursors.clear();
        }
        units - left
    }

    /// Returns the units of the entries from tick `since` on: of all but the newest, and of the newest.
    pub(super) fn newest_from(&self, since: u64) -> (u64, u64) {
        if self.units == 0 || self.last < since {
            return (0, 0);
        }
        let mut before = 0u64;
        for chunk in self.chunks.iter().rev() {
            if chunk.first >= since {
                before = before.saturating_add(chunk.units);
                continue;
            }
            let counted = chunk.walk().filter(|(tick, _)| *tick >= since);
            return (counted.fold(before, |sum, (_, units)| sum.saturating_add(units)), self.open);
        }
        (before, self.open)
    }

    /// Removes and returns all entries at or after `tick`.
    pub(super) fn split_off(&mut self, tick: u64, account: &Account) -> Vec<(u64, u64)> {
        let mut tail = Vec::new();
        if self.units == 0 || self.last < tick {
            return tail;
        }
        let from = self.chunks.partition_point(|chunk| chunk.first < tick).saturating_sub(1);
        for chunk in self.chunks.iter_mut().skip(from) {
            let (mut cut, mut units_cut) = (chunk.codes.len(), 0);
            chunk.scan(|at, here, units, _| {
                if here >= tick {
                    cut = cut.min(at);
                    units_cut = units.saturating_add(units_cut);
                    tail.push((here, units));
                }
                true
            });
            self.code_bytes -= chunk.codes.len() - cut;
            chunk.codes.truncate(cut);
            chunk.units = chunk.units.saturating_sub(units_cut);
        }
        tail.push((self.last, self.open));
        let gone = tail.iter().fold(0u64, |sum, (_, units)| sum.saturating_add(*units));
        self.units = self.units.saturating_sub(gone);
        self.open = 0;
        self.reopen(account);
        self.cursors.clear();
        tail
    }

    pub(super) fn history(&self, each: &mut dyn FnMut(u64, u64)) {
        self.walk().for_each(|(tick, units)| each(tick, units));
    }

    /// Returns every entry with its tick, oldest first.
    pub(super) fn walk(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let entries = self.chunks.iter().flat_map(Chunk::walk);
        let open = (self.last, self.open);
        entries.chain(core::iter::once(open)).filter(|(_, units)| *units > 0)
    }

    /// Releases a spare block that is larger than a first chunk needs, if there is no chunk.
    pub(super) fn trim(&mut self, account: &Account) {
        if self.chunks.is_empty() {
            let room = self.spare.capacity();
            self.spare.shrink_to(CHUNK_FIRST);
            let freed = room - self.spare.capacity();
            self.chunk_bytes -= freed;
            account.shrink(freed);
        }
    }

    /// Returns the tick of the last entry.
    pub(super) fn end(&self) -> u64 {
        if self.units == 0 { 0 } else { self.last }
    }

    /// Creates a cursor for every quota. Cursors of a new window start at the front.
    pub(super) fn sync(&mut self, limits: &Limits) {
        let quotas = limits.quotas();
        let windows = self.cursors.iter().map(|cursor| cursor.window);
        if windows.eq(quotas.iter().map(|quota| quota.window)) {
            return;
        }
        let (chunk, offset, tick) = match self.chunks.front() {
            Some(front) => (self.base, front.start, front.first),
            None => (OPEN, 0, self.last),
        };
        let units = self.units;
        self.cursors.clear();
        self.cursors.extend(quotas.iter().map(|quota| Cursor {
            window: quota.window,
            tick,
            units,
            chunk,
            offset,
        }));
    }

    /// Drops the codes before every cursor.
    fn drop_front(&mut self, account: &Account) {
        let live = self.cursors.iter().filter(|cursor| cursor.units > 0);
        let Some(first) = live.min_by_key(|cursor| (cursor.chunk, cursor.offset)).copied() else {
            if self.units > 0 {
                self.clear(account);
            }
            return;
        };
        while let Some(front) = self.chunks.front() {
            if self.base >= first.chunk {
                break;
            }
            self.units = self.units.saturating_sub(front.units);
            self.pop_front(account);
        }
        if let Some(front) = self.chunks.front_mut()
            && self.base == first.chunk
            && front.start < first.offset
        {
            let mut dropped = 0;
            front.scan(|at, _, units, _| {
                dropped = if at < first.offset { units.saturating_add(dropped) } else { dropped };
                at < first.offset
            });
            (front.start, front.first) = (first.offset, first.tick);
            front.units = front.units.saturating_sub(dropped);
            self.units = self.units.saturating_sub(dropped);
        }
    }

    fn pop_front(&mut self, account: &Account) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.base += 1;
            self.forget(chunk, account);
        }
    }

    fn forget(&mut self, mut chunk: Chunk, account: &Account) {
        self.code_bytes -= chunk.codes.len();
        if self.spare.capacity() == 0 {
            chunk.codes.clear();
            self.spare = chunk.codes;
            return;
        }
        let bytes = chunk.codes.capacity() + Self::CHUNK_BYTES;
        self.chunk_bytes -= bytes;
        account.shrink(bytes);
    }

    /// The bytes of a chunk without its codes. The deque may be half empty.
    const CHUNK_BYTES: usize = 2 * size_of::<Chunk>() + BLOCK_OVERHEAD;

    fn clear(&mut self, account: &Account) {
        while !self.chunks.is_empty() {
            self.pop_front(account);
        }
        (self.open, self.units) = (0, 0);
        for cursor in &mut self.cursors {
            cursor.units = 0;
        }
    }

    /// Writes the code of the open entry when the gap to the next is known.
    fn close(&mut self, date: u64, limits: &Limits, account: &Account) {
        let code = Code::new(self.open, date - self.last);
        self.make_room(account);
        let number = self.base + self.chunks.len() as u64 - 1;
        if let Some(chunk) = self.chunks.back_mut() {
            let offset = chunk.codes.len();
            chunk.codes.extend_from_slice(code.as_slice());
            chunk.units = chunk.units.saturating_add(self.open);
            self.code_bytes += code.as_slice().len();
            for cursor in self.cursors.iter_mut().filter(|cursor| cursor.chunk == OPEN) {
                (cursor.chunk, cursor.offset) = (number, offset);
            }
        }
        (self.last, self.open) = (date, 0);
        if limits.bytes_max > 0 && self.code_bytes > limits.bytes_max {
            let quantum = merge::first_quantum(limits.longest(), limits.bytes_max);
            for index in 0..self.chunks.len() {
                self.squeeze(index, quantum);
            }
        }
    }

    /// Makes space for a code in the back chunk. If the budget is spent, its entries are merged. If
    /// that is not enough, the block grows by one code above the budget.
    fn make_room(&mut self, account: &Account) {
        let full = self.chunks.back().is_none_or(|chunk| chunk.codes.len() + CODE_MAX > CHUNK);
        if full && (self.spare.capacity() > 0 || account.try_grow(CHUNK + Self::CHUNK_BYTES)) {
            let mut codes = core::mem::take(&mut self.spare);
            if codes.capacity() == 0 {
                codes.reserve_exact(CHUNK);
                self.chunk_bytes += CHUNK + Self::CHUNK_BYTES;
            }
            self.chunks.push_back(Chunk { first: self.last, units: 0, start: 0, codes });
            return;
        }
        let Some(chunk) = self.chunks.back_mut() else {
            return;
        };
        let (used, room) = (chunk.codes.len(), chunk.codes.capacity());
        if used + CODE_MAX <= room {
            return;
        }
        let more = room.clamp(CODE_MAX, CHUNK);
        if !full && account.try_grow(more) {
            chunk.codes.reserve_exact(room + more - used);
            self.chunk_bytes += more;
            return;
        }
        let mut quantum = 2;
        let index = self.chunks.len() - 1;
        while self.chunks[index].codes.len() > used / 2 && quantum < 1 << 47 {
            self.squeeze(index, quantum);
            quantum *= 2;
        }
    }

    /// Merges the entries of one chunk. Cursors are created again.
    fn squeeze(&mut self, index: usize, quantum: u64) {
        let end = self.chunks.get(index + 1).map_or(self.last, |next| next.first);
        let Some(chunk) = self.chunks.get_mut(index) else {
            return;
        };
        merge::with_scratch(|scratch| {
            let first =
                merge::merge(&chunk.codes[chunk.start..], chunk.first, end, quantum, scratch);
            if scratch.len() < chunk.codes.len() {
                self.code_bytes -= chunk.codes.len() - scratch.len();
                chunk.codes.clear();
                chunk.codes.extend_from_slice(scratch);
                (chunk.first, chunk.start) = (first, 0);
                self.cursors.clear();
            }
        });
    }

    fn remove_once(&mut self, from: u64, to: u64, units: u64, account: &Account) -> Option<u64> {
        let first = self.chunks.partition_point(|chunk| chunk.first < from).saturating_sub(1);
        for index in first..self.chunks.len() {
            let (mut found, mut before) = (None, None);
            self.chunks[index].scan(|at, here, units, _| {
                if here >= from && units > 0 {
                    found = Some((at, here));
                } else {
                    before = Some(at);
                }
                found.is_none()
            });
            if let Some((at, here)) = found {
                return (here <= to).then(|| self.reduce(index, at, before, units, account));
            }
        }
        let given = self.open.min(units);
        if given == 0 || self.last < from || self.last > to {
            return None;
        }
        self.open -= given;
        if self.open == 0 && self.units > given {
            self.reopen(account);
        }
        Some(given)
    }

    /// Removes up to `units` from the entry at position `at` of a chunk, and the entry if none are
    /// left.
    fn reduce(
        &mut self,
        index: usize,
        at: usize,
        before: Option<usize>,
        units: u64,
        account: &Account,
    ) -> u64 {
        let chunk = &mut self.chunks[index];
        let room = chunk.codes.capacity();
        let entry = read(&chunk.codes[at..]);
        let given = entry.units.min(units);
        chunk.units = chunk.units.saturating_sub(given);
        let length = chunk.codes.len();
        let (from, code) = match before {
            Some(from) if given == entry.units => {
                let previous = read(&chunk.codes[from..]);
                (from, Code::new(previous.units, previous.gap + entry.gap))
            }
            // An empty entry stays if it is the first of its chunk.
            _ => (at, Code::new(entry.units - given, entry.gap)),
        };
        chunk.codes.splice(from..at + entry.len, code.as_slice().iter().copied());
        self.code_bytes = self.code_bytes + chunk.codes.len() - length;
        // A joined gap may take one byte more than there was space for.
        let more = chunk.codes.capacity() - room;
        self.chunk_bytes += more;
        account.grow(more);
        given
    }

    /// Removes the last entry. The one before it becomes the open entry again. Returns `false` if
    /// there is none.
    fn reopen(&mut self, account: &Account) -> bool {
        let Some(chunk) = self.chunks.back_mut() else {
            return false;
        };
        let mut tail = None;
        chunk.scan(|at, tick, units, len| {
            tail = Some((at, tick, units, len));
            true
        });
        if let Some((at, tick, units, len)) = tail {
            chunk.codes.truncate(at);
            chunk.units = chunk.units.saturating_sub(units);
            self.code_bytes -= len;
            (self.last, self.open) = (tick, units);
        }
        if chunk.codes.len() <= chunk.start
            && let Some(chunk) = self.chunks.pop_back()
        {
            self.forget(chunk, account);
        }
        tail.is_some() || self.reopen(account)
    }
}
