//! Sub-windows: a ring of counts with a running sum.
//!
//! A window of `n` segments keeps `n + 1` counts. The oldest, partly covered one counts whole, so
//! it never lets too much through; a unit counts for up to one segment too long. A key takes a
//! slot of 40 bytes and `n + 1` counts of one, two, four or eight bytes, as wide as the largest
//! count needs.

use super::stamp::{Count, Stamp, window_tag};
use super::{DecodeContext, KeptSince, Limits, NEVER, QuotaStatus, TickQuota, Window};
use crate::account::Account;
use crate::coding::{Reader, Writer, damaged};
use crate::error::Error;
use crate::time::Moment;

/// Counts by segment.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    /// The tick of the latest unit, and the tag of the window's length.
    last: Stamp,
    /// Units in all segments, and half of the epoch.
    sum: Count,
    /// ```text
    /// [ count, count, ..., count | width of a count | other half of the epoch ]
    /// ```
    /// Segment `k` is at `k` modulo the number of counts; least byte first.
    ring: Box<[u8]>,
}

impl Window for Segments {
    fn new(limits: &Limits, epoch: u16) -> Self {
        let TickQuota { limit, window } = limits.quota(0);
        let [high, low] = epoch.to_be_bytes();
        Self {
            last: Stamp::new(0, window_tag(window)),
            sum: Count::new(0, high),
            ring: ring(counts_for(limits), width_for(limit), low),
        }
    }

    fn epoch(&self) -> u16 {
        u16::from_be_bytes([self.sum.rest(), self.ring.last().copied().unwrap_or(0)])
    }

    #[inline]
    fn is_foreign(&self, limits: &Limits, index: usize) -> bool {
        let tag = window_tag(limits.quota(index).window);
        self.last.rest() != tag || self.counts() != counts_for(limits)
    }

    #[inline]
    fn advance(&mut self, limits: &Limits, _: u64, account: &Account) {
        if self.is_foreign(limits, 0) {
            self.convert(limits, account);
        }
    }

    #[inline]
    fn used(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        if self.sum.get() == 0 {
            return 0;
        }
        let expired = self.expired(limits, now).map(|segment| self.get(self.place(segment)));
        expired.fold(self.sum.get(), |sum, count| sum - count)
    }

    fn kept_units(&self, _: &Limits, since: KeptSince) -> u64 {
        if self.last.tick() >= since.oldest { self.sum.get() } else { 0 }
    }

    #[inline]
    fn retry(&self, limits: &Limits, _: usize, now: u64, cost: u64) -> u64 {
        let TickQuota { limit, window } = limits.quota(0);
        let wanted = self.used(limits, 0, now).saturating_add(cost);
        if wanted <= limit {
            return 0;
        }
        if cost > limit {
            return NEVER;
        }
        let mut over = wanted - limit;
        let mut free_at = now;
        for (segment, count) in self.filled(limits, now) {
            free_at = (segment + 1) * length(limits) - 1 + window;
            if count >= over {
                break;
            }
            over -= count;
        }
        free_at.saturating_sub(now)
    }

    #[inline]
    fn reset(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        let window = limits.quota(0).window;
        let first = self.filled(limits, now).next();
        first.map_or(0, |(segment, _)| {
            ((segment + 1) * length(limits) - 1 + window).saturating_sub(now)
        })
    }

    #[inline]
    fn check_fast(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> Option<QuotaStatus> {
        if self.is_foreign(limits, 0) {
            return None;
        }
        let used = self.used(limits, 0, moment.now);
        let retry = self.retry(limits, 0, moment.now, cost);
        if retry > 0 {
            let reset = self.reset(limits, 0, moment.now);
            return Some(QuotaStatus { used, retry, reset, tick: 0 });
        }
        if used < self.sum.get() {
            self.drop_expired(limits, moment.now);
        }
        let tick = self.push(limits, moment.date, cost, account);
        let reset = self.reset(limits, 0, moment.now);
        Some(QuotaStatus { used: used + cost, retry, reset, tick })
    }

    #[inline]
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        self.advance(limits, moment.now, account);
        self.drop_expired(limits, moment.now);
        self.push(limits, moment.date, cost, account)
    }

    fn give_back(
        &mut self,
        limits: &Limits,
        now: u64,
        tick: u64,
        units: u64,
        account: &Account,
    ) -> u64 {
        let newest = self.last.tick() / length(limits);
        let segment = tick / length(limits);
        if segment > newest || segment < first_kept(limits, now) {
            return 0;
        }
        let held = if !self.is_foreign(limits, 0) {
            if segment < self.oldest(newest) { 0 } else { self.get(self.place(segment)) }
        } else if segment == newest {
            self.sum.get()
        } else {
            0
        };
        if held.min(units) == 0 {
            return 0;
        }
        self.advance(limits, now, account);
        self.drop_expired(limits, now);
        self.take_off(segment, units)
    }

    fn forgive(&mut self, limits: &Limits, now: u64, units: u64, account: &Account) -> u64 {
        let newest = self.last.tick() / length(limits);
        let held = if !self.is_foreign(limits, 0) {
            self.used(limits, 0, now)
        } else if newest >= first_kept(limits, now) {
            self.sum.get()
        } else {
            0
        };
        if held.min(units) == 0 {
            return 0;
        }
        self.advance(limits, now, account);
        self.drop_expired(limits, now);
        let mut left = units;
        while left > 0 {
            let Some((segment, _)) = self.filled(limits, now).next() else { break };
            left -= self.take_off(segment, left);
        }
        units - left
    }

    fn idle_at(&self, longest: u64) -> u64 {
        // A segment, which counts whole, is at most a window long.
        if self.sum.get() == 0 { 0 } else { self.last.tick() + 2 * longest }
    }

    fn heap_bytes(&self) -> usize {
        if self.ring.is_empty() { 0 } else { (self.ring.len() + 8).next_multiple_of(16) }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last.tick());
        out.put_u64(u64::from(self.last.rest()));
        out.put_u64(self.counts() as u64);
        for place in 0..self.counts() {
            out.put_u64(self.get(place));
        }
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let DecodeContext { limits, epoch, account } = *context;
        let tick = input.take_tick()?;
        let tag = u16::try_from(input.take_u64()?).unwrap_or_default();
        let counts = usize::try_from(input.take_u64()?).unwrap_or(usize::MAX);
        if !(2..=COUNTS_MAX).contains(&counts) {
            return Err(damaged("the number of segments"));
        }
        let [high, low] = epoch.to_be_bytes();
        let width = width_for(limits.quota(0).limit);
        let ring = ring(counts, width, low);
        let mut segments = Self { last: Stamp::new(tick, tag), sum: Count::new(0, high), ring };
        account.grow(segments.heap_bytes());
        for place in 0..counts {
            let units = input.take_units()?;
            segments.record(place, units, account);
        }
        Ok(segments)
    }
}

impl Segments {
    fn width(&self) -> usize {
        self.ring.len().checked_sub(2).map_or(1, |at| usize::from(self.ring[at]).max(1))
    }

    fn counts(&self) -> usize {
        self.ring.len().saturating_sub(2) / self.width()
    }

    fn place(&self, segment: u64) -> usize {
        usize::try_from(segment % (self.counts() as u64).max(1)).unwrap_or(0)
    }

    /// The oldest segment that the ring can hold.
    fn oldest(&self, newest: u64) -> u64 {
        (newest + 1).saturating_sub(self.counts() as u64)
    }

    fn get(&self, place: usize) -> u64 {
        let width = self.width();
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(&self.ring[place * width..][..width]);
        u64::from_le_bytes(bytes)
    }

    /// The count fits; [`Segments::add`] sees to it.
    fn set(&mut self, place: usize, count: u64) {
        let width = self.width();
        self.ring[place * width..][..width].copy_from_slice(&count.to_le_bytes()[..width]);
    }

    /// Adds to a count and to the sum of all counts, which stays exact: units above its bound are not
    /// recorded.
    fn record(&mut self, place: usize, units: u64, account: &Account) {
        let units = units.min(Count::MAX - self.sum.get());
        self.add(place, units, account);
        self.sum.add(units);
    }

    /// Adds to a count, and makes all counts wider if that one needs it.
    fn add(&mut self, place: usize, units: u64, account: &Account) {
        let count = self.get(place).saturating_add(units);
        let width = width_for(count);
        if width > self.width() {
            let before = self.heap_bytes();
            let old: Vec<u64> = (0..self.counts()).map(|place| self.get(place)).collect();
            let [_, low] = self.epoch().to_be_bytes();
            self.ring = ring(old.len(), width, low);
            for (place, count) in old.into_iter().enumerate() {
                self.set(place, count);
            }
            // Counts must not be lost, so this may pass the budget by a few bytes a count.
            account.grow(self.heap_bytes() - before);
        }
        self.set(place, count);
    }

    /// Makes `segment` the newest. What a unit dated ahead would push out is counted as a segment
    /// later.
    fn open(&mut self, newest: u64, segment: u64, account: &Account) {
        if self.sum.get() == 0 {
            return;
        }
        let counts = self.counts() as u64;
        for next in newest + 1..=segment.min(newest + counts) {
            let place = self.place(next);
            let pushed = self.get(place);
            if pushed > 0 {
                self.set(place, 0);
                self.add(self.place(next + 1), pushed, account);
            }
        }
    }

    /// Segments in the ring that no longer count.
    #[inline]
    fn expired(&self, limits: &Limits, now: u64) -> core::ops::Range<u64> {
        let newest = self.last.tick() / length(limits);
        self.oldest(newest)..first_kept(limits, now).min(newest + 1)
    }

    fn drop_expired(&mut self, limits: &Limits, now: u64) {
        if self.sum.get() > 0 {
            for segment in self.expired(limits, now) {
                self.take_off(segment, Count::MAX);
            }
        }
    }

    /// Removes up to `units` from a segment. Returns their number.
    fn take_off(&mut self, segment: u64, units: u64) -> u64 {
        let place = self.place(segment);
        let count = self.get(place);
        let given = units.min(count);
        if given > 0 {
            self.set(place, count - given);
            self.sum.set(self.sum.get() - given);
        }
        given
    }

    /// Records units at `date`, or with the latest one if that is later. Returns the tick.
    fn push(&mut self, limits: &Limits, date: u64, cost: u64, account: &Account) -> u64 {
        let length = length(limits);
        let date = date.max(self.last.tick());
        self.open(self.last.tick() / length, date / length, account);
        self.last.set_tick(date);
        self.record(self.place(date / length), cost, account);
        date
    }

    /// Segments with units that count, oldest first.
    fn filled(&self, limits: &Limits, now: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let newest = self.last.tick() / length(limits);
        let end = if self.sum.get() == 0 { 0 } else { newest + 1 };
        (self.oldest(newest).max(first_kept(limits, now))..end)
            .map(|segment| (segment, self.get(self.place(segment))))
            .filter(|(_, count)| *count > 0)
    }

    /// Changes to another window or other segments. All units count as recorded with the latest one.
    #[cold]
    fn convert(&mut self, limits: &Limits, account: &Account) {
        let before = self.heap_bytes();
        let units = self.sum.get();
        let [_, low] = self.epoch().to_be_bytes();
        let TickQuota { limit, window } = limits.quota(0);
        self.ring = ring(counts_for(limits), width_for(limit.max(units)), low);
        account.grow(self.heap_bytes().saturating_sub(before));
        account.shrink(before.saturating_sub(self.heap_bytes()));
        self.last = Stamp::new(self.last.tick(), window_tag(window));
        self.set(self.place(self.last.tick() / length(limits)), units);
    }
}

const COUNTS_MAX: usize = 1025;

fn ring(counts: usize, width: usize, epoch: u8) -> Box<[u8]> {
    let mut ring = vec![0; counts * width + 2].into_boxed_slice();
    #[expect(clippy::cast_possible_truncation, reason = "at most eight")]
    let width = width as u8;
    ring[counts * usize::from(width)] = width;
    ring[counts * usize::from(width) + 1] = epoch;
    ring
}

/// Segments of a window, and one for the oldest, partly covered one.
fn counts_for(limits: &Limits) -> usize {
    usize::try_from(limits.segments).map_or(COUNTS_MAX, |count| (count + 1).min(COUNTS_MAX))
}

/// Ticks of a segment, rounded up: the segments cover the window.
#[inline]
fn length(limits: &Limits) -> u64 {
    limits.quota(0).window.div_ceil(limits.segments)
}

/// The first segment that has a tick later than `now - window`.
#[inline]
fn first_kept(limits: &Limits, now: u64) -> u64 {
    (now + 1).saturating_sub(limits.quota(0).window) / length(limits)
}

/// Bytes that a count of up to `count` needs.
fn width_for(count: u64) -> usize {
    match count {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}
