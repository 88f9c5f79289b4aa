//! Units of waiting callers, recorded in the future.

use core::iter::Peekable;

use super::Log;
use super::body::Body;
use super::code::Code;
use crate::account::Account;
use crate::time::Moment;
use crate::window::{Limits, Place, Window};

/// A tick, and the units recorded at it.
type UnitsAtTick = (u64, u64);

impl Log {
    /// Removes the units of `places`, in one pass.
    pub(super) fn withdraw_places<'a>(
        &mut self,
        limits: &[Limits],
        places: impl Iterator<Item = &'a Place>,
        now: u64,
        account: &Account,
    ) {
        let mut places: Vec<&Place> = places.collect();
        places.sort_by_key(|place| place.tick);
        let Some(&&Place { tick, limits: index, .. }) = places.first() else { return };
        let mut tail = self.split_off(tick, account);
        let mut at = 0;
        for place in places {
            let mut left = place.cost;
            while left > 0 && at < tail.len() {
                let (tick, units) = &mut tail[at];
                // Units in the future have not expired, but may have been merged into a later
                // entry. A place in the past may have expired. Then a later entry belongs to
                // another request, and if the units were merged after all, they stay: they count
                // too long rather than too short.
                if place.tick <= now && *tick > place.tick {
                    break;
                }
                if *tick >= place.tick {
                    let some = left.min(*units);
                    (*units, left) = (*units - some, left - some);
                }
                if left > 0 {
                    at += 1;
                }
            }
        }
        self.append(tail, &limits[index], now, account);
    }

    /// Decides when `places` are due, without recording them. Returns copies of them.
    ///
    /// It reads the log once per window length, because later waiters never wait for entries that
    /// expire earlier.
    pub(super) fn plan<'a>(
        &self,
        limits: &[Limits],
        places: impl Iterator<Item = &'a mut Place>,
        moment: Moment,
    ) -> Vec<Place> {
        let expiries =
            |limits: &Limits| limits.quotas().iter().map(|q| self.expiry(q.window)).collect();
        let mut expiries: Vec<Vec<_>> = limits.iter().map(expiries).collect();
        let mut placed: Vec<Place> = Vec::new();
        let (mut units, mut due) = (self.recorded_units(), moment.now);
        for place in places {
            units = units.saturating_add(place.cost);
            let quotas = limits[place.limits].quotas().iter();
            for (quota, expiry) in quotas.zip(&mut expiries[place.limits]) {
                due = due.max(expiry.freed_at(units.saturating_sub(quota.limit), &placed));
            }
            (place.due, place.tick) = (due, due.max(moment.date));
            placed.push(*place);
        }
        placed
    }

    fn expiry(&self, window: u64) -> Expiry<Entries<'_>> {
        let entries: Entries<'_> = match &self.body {
            Body::Wide(wide) => Box::new(wide.walk()),
            _ if self.units == 0 => Box::new(core::iter::empty()),
            _ => Box::new(self.walk()),
        };
        Expiry { window, entries: entries.peekable(), placed: 0, freed: 0, at: 0 }
    }

    /// Records units before the units of waiting callers.
    #[cold]
    pub(super) fn insert(
        &mut self,
        limits: &Limits,
        moment: Moment,
        units: u64,
        account: &Account,
    ) -> u64 {
        let mut tail = self.split_off(moment.date + 1, account);
        tail.insert(0, (moment.date, units));
        self.append(tail, limits, moment.now, account);
        moment.date
    }

    fn append(&mut self, tail: Vec<UnitsAtTick>, limits: &Limits, now: u64, account: &Account) {
        for (date, units) in tail.into_iter().filter(|(_, units)| *units > 0) {
            self.take(limits, Moment { now, date }, units, account);
        }
    }

    /// Removes and returns all entries at or after `tick`.
    fn split_off(&mut self, tick: u64, account: &Account) -> Vec<UnitsAtTick> {
        if let Body::Wide(wide) = &mut self.body {
            return wide.split_off(tick, account);
        }
        let mut tail = Vec::new();
        if self.units == 0 || self.last() < tick {
            return tail;
        }
        self.body.straighten();
        let (mut at, mut here, mut before) = (0, self.head.tick(), None);
        for entry in self.body.codes() {
            if here < tick {
                before = Some((at, here, entry.units));
            } else {
                tail.push((here, entry.units));
            }
            at += entry.len;
            here += entry.gap;
        }
        tail.push((here, self.body.open().into()));
        match before {
            Some((at, last, units)) => self.truncate(at, last, units),
            None => self.body.clear(),
        }
        let gone: u64 = tail.iter().map(|(_, units)| units).sum();
        self.units = self.units.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
        tail
    }

    /// Drops all codes from position `at` on. The entry there becomes the open one.
    fn truncate(&mut self, at: usize, last: u64, units: u64) {
        let len = self.body.len() - at;
        match u16::try_from(units) {
            Ok(open) => {
                self.body.splice(at, len, &[]);
                self.body.set_open(open);
            }
            // More units than fit in an open entry: all but one get a code with the same tick.
            Err(_) => {
                self.body.splice(at, len, Code::new(units - 1, 0).as_slice());
                self.body.set_open(1);
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "a part of the span")]
        let span = (last - self.head.tick()) as u32;
        self.span = span;
    }
}

type Entries<'a> = Box<dyn Iterator<Item = UnitsAtTick> + 'a>;

/// The expiry of a log's entries for one window length, oldest first.
struct Expiry<I: Iterator> {
    window: u64,
    entries: Peekable<I>,
    /// The number of places that have expired.
    placed: usize,
    /// The units that have expired, and the tick at which the last of them did.
    freed: u64,
    at: u64,
}

impl<I: Iterator<Item = UnitsAtTick>> Expiry<I> {
    /// Returns the tick at which `over` units of the log and of `placed` have expired. Each call
    /// must have at least as many units as the one before.
    fn freed_at(&mut self, over: u64, placed: &[Place]) -> u64 {
        while self.freed < over {
            let place = placed.get(self.placed).map(|place| (place.tick, place.cost));
            let (tick, units) = match (self.entries.peek().copied(), place) {
                (Some(entry), Some(place)) if place.0 < entry.0 => {
                    self.placed += 1;
                    place
                }
                (Some(entry), _) => {
                    self.entries.next();
                    entry
                }
                (None, Some(place)) => {
                    self.placed += 1;
                    place
                }
                (None, None) => break,
            };
            self.freed = self.freed.saturating_add(units);
            self.at = tick.saturating_add(self.window);
        }
        self.at
    }
}
