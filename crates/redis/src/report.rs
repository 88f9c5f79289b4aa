//! Units that the local fallback admitted and that are not recorded in Redis yet.
//!
//! Each key has a list of admitted units with their times, so that Redis can be charged with
//! exactly those when it is back. No unit is charged twice: a charge whose reply is lost is not
//! repeated, and the key is then decided by both until the window of those units has passed.
//!
//! A check that timed out and was then admitted here may have been counted. If its reply arrives
//! late and shows that, its units are not charged again. If the reply is an error or a denial, or is
//! lost, they are charged. After a lost reply, this may deny early and never over-admits.
//!
//! Other processes report at other times, because each detects the recovery of Redis separately. If
//! the breaker was open, both decide for a grace period after the report, in which the others
//! report.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::late::{LateReply, LateResult};
use crate::script::{Charge, ScriptLimits};

/// A bounded table of units to report, by the fingerprints of the keys.
#[derive(Debug)]
pub(crate) struct Reports {
    table: Mutex<Table>,
    bytes_max: usize,
    /// The number of keys with unreported units. If it is zero, no check takes the lock.
    unreported_keys: AtomicUsize,
    /// Units that Redis was charged with.
    pub(crate) reported: AtomicU64,
    /// Units that were not reported in time, or that did not fit into the table.
    pub(crate) dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    records: HashMap<u64, Record>,
    /// Every record once, in the order of background reports.
    queue: VecDeque<u64>,
    bytes: usize,
}

/// The units that were admitted for one key.
#[derive(Debug)]
struct Record {
    /// The key's name in Redis.
    name: Box<[u8]>,
    /// The limits of the last admission.
    limits: Arc<ScriptLimits>,
    /// The longest window of all admissions.
    window: Duration,
    /// Oldest first.
    admitted: Vec<Admitted>,
    /// Held while the key is being reported.
    turn: Option<ReportLock>,
    /// Units that Redis was charged with, until their refund or the end of their window.
    reported: u64,
    reported_until: Instant,
    /// The longest grace period of the units being reported.
    grace: Duration,
    /// The time until which both decide after the report.
    both_until: Option<Instant>,
}

/// Units that were admitted instead of Redis.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) units: u64,
    pub(crate) sent: PriorCall,
    /// How long both decide after the report, so that the other processes can report theirs.
    pub(crate) grace: Duration,
}

/// The right to report a key.
pub(crate) type ReportLock = Arc<AsyncMutex<()>>;

/// Units that were admitted within a short time. They are recorded at the last of them, so that
/// they count for at least a full window.
#[derive(Debug)]
struct Admitted {
    first: Instant,
    last: Instant,
    units: u64,
    sent: PriorCall,
}

/// The call with which Redis may have counted units already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PriorCall {
    /// No call was sent, Redis refused it, or nothing will be known about it.
    None,
    /// The check, which timed out.
    Check(LateReply),
    /// A charge in flight.
    Charge,
    /// A charge that timed out or whose connection broke.
    LateCharge(LateReply),
}

impl PriorCall {
    fn is_charge(&self) -> bool {
        matches!(self, Self::Charge | Self::LateCharge(_))
    }

    /// Returns whether Redis has to be charged with the units: `None` if that is not known.
    fn is_missing(&self) -> Option<bool> {
        match self {
            Self::None => Some(true),
            Self::Check(reply) => match reply.result() {
                LateResult::Pending => None,
                result => Some(result != LateResult::Executed { has_taken: true }),
            },
            Self::Charge => None,
            Self::LateCharge(reply) => match reply.result() {
                LateResult::Executed { .. } => Some(false),
                LateResult::Refused => Some(true),
                LateResult::Pending | LateResult::Lost => None,
            },
        }
    }
}

/// The charges of one key, to be sent in one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyReport {
    pub(crate) charges: Vec<Charge>,
    units: u64,
}

/// The result of the call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReportOutcome {
    Recorded,
    /// Redis did nothing.
    Refused,
    /// There was no reply in time. It may still arrive.
    Unknown(Option<LateReply>),
}

/// The approximate number of charges in which the units of a key within a window are reported.
const CHARGES_PER_WINDOW: u32 = 16;

/// The maximum number of entries of one key. Further units are added to the last entry.
const ENTRIES_MAX: usize = 64;

/// The number of records that are examined to make space for a new one.
const SWEEP: usize = 8;

/// The bytes of an entry, with the reply that it may wait for.
const ENTRY_BYTES: usize = size_of::<Admitted>() + 32;

/// The bytes of a record without its name and its entries: its share of the map and of the queue,
/// and the allocator's overhead.
const RECORD_BYTES: usize = 2 * size_of::<Record>() + 64;

impl Reports {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            table: Mutex::default(),
            bytes_max,
            unreported_keys: AtomicUsize::new(0),
            reported: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds units that were admitted now. If they do not fit, they are dropped and counted.
    pub(crate) fn add(
        &self,
        key: u64,
        name: impl FnOnce() -> Vec<u8>,
        limits: &Arc<ScriptLimits>,
        admission: Admission,
        now: Instant,
    ) {
        let Admission { units, sent, grace } = admission;
        let mut table = self.table.lock();
        if !table.records.contains_key(&key) && !table.insert(key, name(), limits, self.bytes_max) {
            self.dropped.fetch_add(units, Ordering::Relaxed);
            return;
        }
        let Some(record) = table.records.get_mut(&key) else {
            return;
        };
        if !record.is_unreported() {
            // Checks read it without the lock. A check that starts later sees it.
            self.unreported_keys.fetch_add(1, Ordering::Relaxed);
        }
        let before = record.bytes();
        record.limits = Arc::clone(limits);
        record.window = record.window.max(limits.window());
        record.grace = record.grace.max(grace);
        let dropped = record.add(units, sent, now);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        let after = record.bytes();
        table.bytes = table.bytes + after - before;
    }

    /// Returns `true` if Redis may not have all of a key's units that still count.
    pub(crate) fn is_unreported(&self, key: u64, now: Instant) -> bool {
        if self.unreported_keys.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.update(key, |record, dropped| {
            *dropped += record.expire(now);
            record.is_unreported()
        })
        .unwrap_or(false)
    }

    /// Returns the key's name and the right to report it. Returns `None` if nothing can be
    /// reported.
    pub(crate) fn turn(&self, key: u64) -> Option<(Box<[u8]>, ReportLock)> {
        self.update(key, |record, _| record.turn())?
    }

    /// Returns the limits under which the key is reported.
    pub(crate) fn limits(&self, key: u64) -> Option<Arc<ScriptLimits>> {
        self.table.lock().records.get(&key).map(|record| Arc::clone(&record.limits))
    }

    /// Starts a report. The caller holds the key's turn. Returns `None` if there is nothing to
    /// charge.
    pub(crate) fn start(&self, key: u64, now: Instant) -> Option<KeyReport> {
        self.update(key, |record, dropped| {
            *dropped += record.expire(now);
            let (mut charged, mut charges) = (0, Vec::new());
            record.admitted.retain_mut(|entry| {
                let is_missing = entry.sent.is_missing();
                match is_missing {
                    Some(true) => {
                        entry.sent = PriorCall::Charge;
                        let age = now.saturating_duration_since(entry.last);
                        charges.push(Charge { units: entry.units, age });
                    }
                    Some(false) if entry.sent.is_charge() => charged += entry.units,
                    // The report of an earlier charge was dropped.
                    None if entry.sent == PriorCall::Charge => {
                        entry.sent = PriorCall::LateCharge(LateReply::lost());
                    }
                    Some(false) | None => {}
                }
                is_missing != Some(false)
            });
            self.note_reported(record, charged, now);
            let units = charges.iter().map(|charge| charge.units).sum();
            (!charges.is_empty()).then_some(KeyReport { charges, units })
        })?
    }

    /// Ends a report of [`start`](Reports::start).
    pub(crate) fn finish(
        &self,
        key: u64,
        report: &KeyReport,
        outcome: ReportOutcome,
        now: Instant,
    ) {
        self.update(key, |record, _| match outcome {
            ReportOutcome::Recorded => {
                let recorded = record.remove_charges().min(report.units);
                self.note_reported(record, recorded, now);
            }
            ReportOutcome::Refused => record.set_charges(&PriorCall::None),
            ReportOutcome::Unknown(reply) => {
                let reply = reply.unwrap_or_else(LateReply::lost);
                record.set_charges(&PriorCall::LateCharge(reply));
            }
        });
    }

    /// Takes back units of a key, oldest first. Returns those that were already reported, which
    /// have to be refunded in Redis.
    pub(crate) fn take_back(&self, key: u64, units: u64, now: Instant) -> u64 {
        let taken = self.update(key, |record, _| {
            let mut left = units;
            for entry in &mut record.admitted {
                if !entry.sent.is_charge() {
                    let taken = entry.units.min(left);
                    entry.units -= taken;
                    left -= taken;
                }
            }
            record.admitted.retain(|entry| entry.units > 0);
            let reported = if now < record.reported_until { record.reported.min(left) } else { 0 };
            record.reported -= reported;
            reported
        });
        taken.unwrap_or(0)
    }

    /// Drops everything about a key that was reset.
    pub(crate) fn forget(&self, key: u64) {
        self.update(key, |record, _| {
            record.admitted.clear();
            record.both_until = None;
            record.reported = 0;
        });
    }

    /// Returns up to `keys_max` keys that can be reported, different ones each time.
    pub(crate) fn next_keys(&self, keys_max: usize) -> Vec<u64> {
        let mut table = self.table.lock();
        let mut keys = Vec::new();
        for _ in 0..table.queue.len() {
            let Some(key) = table.queue.pop_front() else {
                break;
            };
            table.queue.push_back(key);
            if table.records.get(&key).is_some_and(Record::is_unreported) {
                keys.push(key);
            }
            if keys.len() >= keys_max {
                break;
            }
        }
        keys
    }

    /// Returns `true` if any key has unreported units.
    pub(crate) fn is_any_unreported(&self) -> bool {
        self.unreported_keys.load(Ordering::Relaxed) > 0
    }

    fn note_reported(&self, record: &mut Record, units: u64, now: Instant) {
        if units > 0 {
            self.reported.fetch_add(units, Ordering::Relaxed);
            record.reported += units;
            record.reported_until = now + record.window;
            record.both_until = record.both_until.max(Some(now + record.grace));
        }
    }

    /// Changes a record and updates the counters. The change adds dropped units to its second
    /// argument.
    fn update<T>(&self, key: u64, change: impl FnOnce(&mut Record, &mut u64) -> T) -> Option<T> {
        let mut table = self.table.lock();
        let record = table.records.get_mut(&key)?;
        let (was_unreported, before) = (record.is_unreported(), record.bytes());
        let mut dropped = 0;
        let result = change(record, &mut dropped);
        let (is_unreported, after) = (record.is_unreported(), record.bytes());
        table.bytes = table.bytes + after - before;
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        if was_unreported && !is_unreported {
            self.unreported_keys.fetch_sub(1, Ordering::Relaxed);
        }
        Some(result)
    }
}

impl Table {
    /// Adds an empty record. Returns `false` if it does not fit.
    fn insert(
        &mut self,
        key: u64,
        name: Vec<u8>,
        limits: &Arc<ScriptLimits>,
        bytes_max: usize,
    ) -> bool {
        self.sweep();
        let record = Record {
            name: name.into(),
            limits: Arc::clone(limits),
            window: limits.window(),
            admitted: Vec::new(),
            turn: None,
            reported: 0,
            reported_until: Instant::now(),
            grace: Duration::ZERO,
            both_until: None,
        };
        let bytes = record.bytes();
        if self.bytes + bytes > bytes_max {
            return false;
        }
        self.bytes += bytes;
        self.queue.push_back(key);
        self.records.insert(key, record);
        true
    }

    /// Removes some of the records with nothing left to report. Later refunds of their units are
    /// not sent to Redis, which may deny early.
    fn sweep(&mut self) {
        for _ in 0..SWEEP.min(self.queue.len()) {
            let Some(key) = self.queue.pop_front() else {
                return;
            };
            match self.records.get(&key) {
                Some(record) if !record.is_unreported() => {
                    self.bytes -= record.bytes();
                    self.records.remove(&key);
                }
                Some(_) => self.queue.push_back(key),
                None => {}
            }
        }
    }
}

impl Record {
    fn bytes(&self) -> usize {
        let turn = if self.turn.is_some() { 64 } else { 0 };
        RECORD_BYTES + self.name.len() + turn + self.admitted.len() * ENTRY_BYTES
    }

    fn is_unreported(&self) -> bool {
        !self.admitted.is_empty() || self.both_until.is_some()
    }

    fn turn(&mut self) -> Option<(Box<[u8]>, ReportLock)> {
        // A reply that is pending arrives before that of the next call.
        let is_reportable = |entry: &Admitted| match &entry.sent {
            PriorCall::None | PriorCall::Check(_) => true,
            PriorCall::Charge => false,
            PriorCall::LateCharge(reply) => reply.result() != LateResult::Lost,
        };
        let is_any_reportable = self.admitted.iter().any(is_reportable);
        is_any_reportable
            .then(|| (self.name.clone(), Arc::clone(self.turn.get_or_insert_default())))
    }

    /// Adds units to the last entry if it is recent, otherwise to a new one. Returns the units that
    /// were dropped.
    fn add(&mut self, units: u64, sent: PriorCall, now: Instant) -> u64 {
        self.resolve_checks();
        let is_full = self.admitted.len() >= ENTRIES_MAX;
        let span = self.window / CHARGES_PER_WINDOW;
        if let Some(entry) = self.admitted.last_mut()
            && !entry.sent.is_charge()
            && (is_full || entry.sent == sent && now <= entry.first + span)
        {
            entry.units = entry.units.saturating_add(units);
            entry.last = entry.last.max(now);
            if entry.sent != sent {
                // Not known for all of them, so they are charged.
                entry.sent = PriorCall::None;
            }
            return 0;
        }
        // Full of charges without a reply, which happens if connections break continuously.
        let dropped = if is_full { self.admitted.remove(0).units } else { 0 };
        self.admitted.push(Admitted { first: now, last: now, units, sent });
        dropped
    }

    /// Applies the late replies to checks that have arrived, so that entries of one key do not accumulate.
    fn resolve_checks(&mut self) {
        self.admitted.retain_mut(|entry| {
            let is_check = matches!(entry.sent, PriorCall::Check(_));
            match entry.sent.is_missing() {
                Some(true) if is_check => entry.sent = PriorCall::None,
                Some(false) if is_check => return false,
                _ => {}
            }
            true
        });
    }

    /// Removes entries that no longer count. Returns the units that were not reported in time.
    fn expire(&mut self, now: Instant) -> u64 {
        let window = self.window;
        let is_expired = |entry: &Admitted| now >= entry.last + window;
        let expired = self.admitted.iter().filter(|entry| is_expired(entry));
        let units = expired.map(|entry| entry.units).sum();
        self.admitted.retain(|entry| !is_expired(entry));
        self.both_until = self.both_until.filter(|until| now < *until);
        if !self.is_unreported() {
            self.grace = Duration::ZERO;
        }
        units
    }

    /// Removes the entries of the charge in flight. Returns their units.
    fn remove_charges(&mut self) -> u64 {
        let is_removed = |entry: &Admitted| entry.sent == PriorCall::Charge;
        let removed = self.admitted.iter().filter(|entry| is_removed(entry));
        let units = removed.map(|entry| entry.units).sum();
        self.admitted.retain(|entry| !is_removed(entry));
        units
    }

    /// Records what is known about the charge in flight.
    fn set_charges(&mut self, sent: &PriorCall) {
        for entry in self.admitted.iter_mut().filter(|entry| entry.sent == PriorCall::Charge) {
            entry.sent = sent.clone();
        }
    }
}

#[cfg(test)]
mod tests;
