//! Refunds of recorded units.

use super::Log;
use super::body::{Body, CAPPED_MAX};
use super::code::{Code, Entry};
use crate::account::Account;

impl Log {
    /// Removes up to `units` of the entries from tick `from` to tick `to`, oldest first. Returns their
    /// number.
    ///
    /// The units of a receipt whose entry was merged into a later one are not found. They could be
    /// looked for there, but if they were forgiven, the later entry has the units of other requests.
    pub(super) fn remove(&mut self, from: u64, to: u64, units: u64, account: &Account) -> u64 {
        if let Body::Wide(wide) = &mut self.body {
            return wide.remove(from, to, units, account);
        }
        let mut left = units;
        while left > 0 && self.units > 0 && from <= self.last() {
            let Some(given) = self.remove_once(from, to, left, account) else {
                break;
            };
            left -= given;
        }
        units - left
    }

    /// Removes up to `units` of the first of these entries that has any.
    fn remove_once(&mut self, from: u64, to: u64, units: u64, account: &Account) -> Option<u64> {
        self.body.straighten();
        let (mut at, mut before, mut here) = (0, None, self.head.tick());
        for entry in self.body.codes() {
            if here > to {
                return None;
            }
            if here >= from && entry.units > 0 {
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
        if given == 0 || here > to {
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
