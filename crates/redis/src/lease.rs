//! Leases: units of a hot key, taken from Redis in one call and spent locally.
//!
//! Redis records leased units in the future: at its current time plus the lease length. This process
//! measures the same length from the moment at which it sends the request, which is before Redis
//! executes it. So the lease ends before the time at which its units are recorded, and every unit
//! counts for at least a full window after it was spent. The clocks of Redis and of this process need
//! not agree. When a lease ends, its unused units are refunded.
//!
//! There is one exception. The monotonic clock stops while the machine is suspended. So a process that
//! was suspended during a lease can spend the rest of it too late, when its units count for less than
//! a window.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Decision, Outcome, Policy, QuotaDecision, Receipt, RetryAfter};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::key::TieredKey;
use crate::script::{KeyReply, ScriptLimits};

/// The leases of one limiter, bounded in number.
#[derive(Debug)]
pub(crate) struct Leases {
    settings: LeaseSettings,
    table: Mutex<LeaseTable>,
}

/// The settings of leases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseSettings {
    /// How long a lease lasts.
    pub(crate) length: Duration,
    /// The maximum number of keys whose demand is counted. Other keys get no lease.
    pub(crate) keys_max: usize,
    /// The divisor for the size of a lease: it has at most `limit / share` units.
    pub(crate) share: u64,
}

#[derive(Debug, Default)]
struct LeaseTable {
    entries: HashMap<TieredKey, Arc<LeaseEntry>>,
    swept_at: Option<Instant>,
}

/// The demand for one key, and its lease if it has one.
#[derive(Debug)]
pub(crate) struct LeaseEntry {
    state: Mutex<LeaseState>,
}

#[derive(Debug)]
struct LeaseState {
    lease: Option<Lease>,
    /// Closes when the latest fetch ends. `None` before the first fetch.
    fetch: Option<watch::Receiver<()>>,
    /// The number of resets of the key. A lease that was requested before a reset is void.
    resets: u64,
    /// The start of the current interval. Demand is counted per interval of one lease length.
    since: Instant,
    /// The units that checks have asked for in the current interval, granted or not.
    demand: u64,
    /// The same for the previous interval.
    demand_before: u64,
    /// When the key was last checked.
    seen: Instant,
}

/// The role of a caller in fetching the next lease of a key.
#[derive(Debug)]
pub(crate) enum FetchRole {
    /// This caller fetches.
    Leader(FetchGuard),
    /// Another caller fetches. The channel closes when that fetch ends.
    Follower(watch::Receiver<()>),
}

/// A fetch in flight. Dropping it wakes the followers.
#[derive(Debug)]
pub(crate) struct FetchGuard {
    _ends: watch::Sender<()>,
    /// [`LeaseState::resets`] when the fetch started.
    resets: u64,
}

/// Units that Redis granted, and the state of the quotas in its reply.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Units that are not spent yet.
    left: u64,
    /// The end of the lease, one lease length after `sent`.
    until: Instant,
    /// When the request was sent. It also identifies the lease.
    sent: Instant,
    /// The tick at which Redis recorded the units, and the epoch of the key. Refunds need both.
    tick: u64,
    epoch: u16,
    limits: ScriptLimits,
    quotas: [QuotaDecision; Policy::QUOTAS_MAX],
    quotas_len: usize,
}

/// Unused units of an ended lease, and the limits with which they were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnusedUnits {
    pub(crate) tick: u64,
    pub(crate) units: u64,
    pub(crate) epoch: u16,
    pub(crate) limits: ScriptLimits,
}

/// A key is hot for a check if its demand in one interval is at least this many times the cost.
const HOT: u64 = 4;

impl Leases {
    pub(crate) fn new(settings: LeaseSettings) -> Self {
        Self { settings, table: Mutex::default() }
    }

    pub(crate) fn length(&self) -> Duration {
        self.settings.length
    }

    /// Returns the entry of a key, which is created if necessary. Returns `None` if there are too many
    /// entries. The key then gets no lease.
    pub(crate) fn entry(&self, key: TieredKey, now: Instant) -> Option<Arc<LeaseEntry>> {
        let mut table = self.table.lock();
        if let Some(entry) = table.entries.get(&key) {
            return Some(Arc::clone(entry));
        }
        if table.entries.len() >= self.settings.keys_max && !self.sweep(&mut table, now) {
            return None;
        }
        let entry = Arc::new(LeaseEntry::new(now));
        table.entries.insert(key, Arc::clone(&entry));
        Some(entry)
    }

    /// Removes the entries of keys that were not checked for 16 lease lengths. Returns `true` if there
    /// is space now. A sweep visits all entries, so there is at most one per lease length. Otherwise a
    /// flood of keys would make every check sweep.
    fn sweep(&self, table: &mut LeaseTable, now: Instant) -> bool {
        let length = self.settings.length;
        if table.swept_at.is_some_and(|swept_at| now < swept_at + length) {
            return false;
        }
        table.swept_at = Some(now);
        table.entries.retain(|_, entry| now < entry.state.lock().seen + length * 16);
        table.entries.len() < self.settings.keys_max
    }

    /// Ends the leases of a key in all tiers, and returns their unused units. Leases in flight will be
    /// void when they arrive.
    pub(crate) fn reset(&self, key: u64) -> Vec<UnusedUnits> {
        let table = self.table.lock();
        let of_key = table.entries.iter().filter(|(tiered, _)| tiered.key == key);
        of_key.filter_map(|(_, entry)| entry.reset()).collect()
    }

    /// Returns the number of units to request in a lease. Returns `None` if the key is not hot, or if
    /// the largest lease would only cover this check.
    pub(crate) fn wanted(&self, entry: &LeaseEntry, cost: u64, limit: u64) -> Option<u64> {
        let state = entry.state.lock();
        let demand = state.demand.max(state.demand_before);
        let most = (limit / self.settings.share.max(1)).max(1);
        // A quarter more than the recent demand, so that one lease suffices if demand grows. Unused
        // units are refunded.
        let wanted = demand.saturating_add(demand / 4).min(most);
        (demand >= HOT.saturating_mul(cost) && wanted > cost).then_some(wanted)
    }
}

impl LeaseEntry {
    fn new(now: Instant) -> Self {
        let state = LeaseState {
            lease: None,
            fetch: None,
            resets: 0,
            since: now,
            demand: 0,
            demand_before: 0,
            seen: now,
        };
        Self { state: Mutex::new(state) }
    }

    /// Adds the cost of a check to the demand. `length` is the lease length.
    pub(crate) fn note_demand(&self, cost: u64, now: Instant, length: Duration) {
        let mut state = self.state.lock();
        state.seen = now;
        let passed = now.saturating_duration_since(state.since);
        if passed >= length {
            state.demand_before = if passed < length * 2 { state.demand } else { 0 };
            state.demand = 0;
            state.since = now;
        }
        state.demand = state.demand.saturating_add(cost);
    }

    /// Clears the demand: the key has to become hot again before the next lease.
    pub(crate) fn cool(&self) {
        let mut state = self.state.lock();
        (state.demand, state.demand_before) = (0, 0);
    }

    /// Returns the caller's role in fetching a lease, so that only one caller fetches at a time.
    pub(crate) fn fetch_role(&self) -> FetchRole {
        let mut state = self.state.lock();
        // `Ok` means that the channel is open, so the fetch is in flight. No value is ever sent.
        if let Some(fetch) = state.fetch.as_ref().filter(|fetch| fetch.has_changed().is_ok()) {
            return FetchRole::Follower(fetch.clone());
        }
        let (ends, fetch) = watch::channel(());
        state.fetch = Some(fetch);
        FetchRole::Leader(FetchGuard { _ends: ends, resets: state.resets })
    }

    /// Takes `cost` from the lease. Returns `None` if the lease has ended or has too few units.
    pub(crate) fn take(&self, key: TieredKey, cost: u64, now: Instant) -> Option<Decision> {
        let mut state = self.state.lock();
        let lease = state.lease.as_mut()?;
        if now >= lease.until || lease.left < cost {
            return None;
        }
        lease.left -= cost;
        Some(lease.decision(key, cost, now))
    }

    /// Stores a lease. If the key was reset since its fetch started, the lease is void instead.
    /// Returns the unused units of the previous lease or of the void one, which must be refunded.
    pub(crate) fn put(&self, lease: Lease, fetch: &FetchGuard) -> Option<UnusedUnits> {
        let mut state = self.state.lock();
        let ended =
            if state.resets == fetch.resets { state.lease.replace(lease) } else { Some(lease) };
        ended.and_then(Lease::unused)
    }

    /// Ends the lease that was requested at `sent`, unless another one has replaced it. Returns its
    /// unused units.
    pub(crate) fn end(&self, sent: Instant) -> Option<UnusedUnits> {
        let mut state = self.state.lock();
        state.lease.take_if(|lease| lease.sent == sent).and_then(Lease::unused)
    }

    /// Ends the current lease, and returns its unused units. A lease in flight will be void.
    fn reset(&self) -> Option<UnusedUnits> {
        let mut state = self.state.lock();
        state.resets += 1;
        state.lease.take().and_then(Lease::unused)
    }
}

impl Lease {
    /// Returns the lease that a reply grants, or `None` if the reply is a denial.
    ///
    /// The lease does not contain the `cost` of the caller that requested it: the reply itself allows
    /// that, even if it arrives after the end of the lease.
    pub(crate) fn granted(
        reply: &KeyReply,
        sent: Instant,
        limits: &ScriptLimits,
        length: Duration,
        cost: u64,
    ) -> Option<Self> {
        let KeyReply::Decision { allowed: true, tick, epoch, units, quotas: of_reply, .. } = reply
        else {
            return None;
        };
        let mut quotas =
            [QuotaDecision::new(0, 0, RetryAfter::Never, Duration::ZERO); Policy::QUOTAS_MAX];
        let quotas_len = of_reply.len().min(Policy::QUOTAS_MAX);
        quotas[..quotas_len].copy_from_slice(&of_reply[..quotas_len]);
        Some(Self {
            left: units.saturating_sub(cost),
            until: sent + length,
            sent,
            tick: *tick,
            epoch: *epoch,
            limits: limits.clone(),
            quotas,
            quotas_len,
        })
    }

    fn unused(self) -> Option<UnusedUnits> {
        let Self { left, tick, epoch, limits, .. } = self;
        (left > 0).then_some(UnusedUnits { tick, units: left, epoch, limits })
    }

    /// Returns a decision that allows `cost`. Its quotas are those of the reply with two changes: the
    /// units left in the lease are added to `remaining`, and the time since the request was sent is
    /// subtracted from `reset_after`.
    pub(crate) fn decision(&self, key: TieredKey, cost: u64, now: Instant) -> Decision {
        let age = now.saturating_duration_since(self.sent);
        let mut quotas = self.quotas;
        for quota in &mut quotas[..self.quotas_len] {
            *quota = QuotaDecision::new(
                quota.limit(),
                quota.remaining().saturating_add(self.left).min(quota.limit()),
                RetryAfter::Now,
                quota.reset_after().saturating_sub(age),
            );
        }
        let receipt = Receipt::new(key.key, cost, self.tick, self.epoch);
        Decision::new(Outcome::Allow, &quotas[..self.quotas_len], Some(receipt))
    }
}

#[cfg(test)]
mod tests;
