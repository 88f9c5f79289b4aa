//! Refunds of recorded units.

use super::Log;
use super::body::CAPPED_MAX;
use super::code::{Code, Entry};
use crate::account::Account;

impl Log {
    pub(super) fn give_back_flat(&mut self, tick: u64, units: u64, account: &Account) -> u64 {
        if self.units == 0 || tick > self.last() {
            return 0;
        }
        let mut left = units;
        while left > 0 {
            let Some(given) = self.give_back_once(tick, left, account) else {
                break;
            };
            left -= given;
        }
        units - left
    }

    /// Refunds up to `units` from the first entry at or after `tick` that has any. A merged entry
    /// has a later tick than its parts, so "at or after" finds it.
    fn give_back_once(&mut self, tick: u64, units: u64, account: &Account) -> Option<u64> {
        self.body.straighten();
        let (mut at, mut before, mut here) = (0, None, self.head.tick());
        for entry in self.body.codes() {
            if here >= tick && entry.units > 0 {
                let given = entry.units.min(units);
                if !self.reduce(at, entry, before, given, account) {
                    return None;
                }
                #[expect(clippy::cast_possible_truncation, reason = "a part of the sum")]
                let given_units = given as u32;
                self.units -= given_units;
                return Some(given);
            }
            before = Some((at, entry));
            here += entry.gap;
            at += entry.len;
        }
        let given = u64::from(self.body.open()).min(units);
        if given == 0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most what is open")]
        let given_units = given as u16;
        self.body.set_open(self.body.open() - given_units);
        self.units -= u32::from(given_units);
        if self.body.open() == 0 {
            self.reopen(before);
        }
        Some(given)
    }

    /// Removes `given` units from the entry at position `at`, and the entry if none are left.
    /// Returns `false` if there is no memory for a gap that takes one more byte.
    fn reduce(
        &mut self,
        at: usize,
        entry: Entry,
        before: Option<(usize, Entry)>,
        given: u64,
        account: &Account,
    ) -> bool {
        if entry.units > given {
            let code = Code::new(entry.units - given, entry.gap);
            return self.body.splice(at, entry.len, code.as_slice());
        }
        let Some((from, previous)) = before else {
            // The first entry: the log now starts at the second.
            #[expect(clippy::cast_possible_truncation, reason = "a part of the span")]
            let gap = entry.gap as u32;
            self.head.set_tick(self.head.tick() + entry.gap);
            self.span -= gap;
            self.body.drop_to(entry.len);
            return true;
        };
        let code = Code::new(previous.units, previous.gap + entry.gap);
        let old = previous.len + entry.len;
        if self.body.splice(from, old, code.as_slice()) {
            return true;
        }
        let more = code.as_slice().len() - old;
        self.body.make_room(more, 0, CAPPED_MAX, account)
            && self.body.splice(from, old, code.as_slice())
    }

    /// Removes the last entry, which has no units left. The one before it becomes the open entry
    /// again.
    fn reopen(&mut self, before: Option<(usize, Entry)>) {
        if self.units == 0 {
            self.body.clear();
            return;
        }
        let Some((at, entry)) = before else { return };
        if let Ok(open) = u16::try_from(entry.units) {
            self.body.splice(at, entry.len, &[]);
            self.body.set_open(open);
            #[expect(clippy::cast_possible_truncation, reason = "a part of the span")]
            let gap = entry.gap as u32;
            self.span -= gap;
        }
    }
}
