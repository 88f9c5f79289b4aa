//! Leases: units of a hot key, taken from Redis in one call and spent locally.
//!
//! The server records leased units at its current time *plus* the lease length. This process measures
//! the same length from the moment it *sent* the request, so its lease ends first. A unit spent
//! locally is thus spent before its recorded time and counts for at least a full window. The two
//! clocks need not agree. Unused units are refunded when the lease expires.
//!
//! Exception: the monotonic clock stops while the machine is suspended, so a process suspended
//! during a lease can still spend the rest of it after resuming.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Decision, Outcome, Policy, QuotaDecision, Receipt};
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

/// How leases are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseSettings {
    /// How long a lease lasts.
    pub(crate) length: Duration,
    /// Keys that may have one at a time.
    pub(crate) keys_max: usize,
    /// One lease takes at most the limit divided by this.
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
    /// Closes when the fetch in flight has ended. `None` if there never was one.
    fetch: Option<watch::Receiver<()>>,
    /// How often the key was reset: a lease requested before that is void.
    resets: u64,
    /// Demand is counted in stretches of a lease length. This one began at `since`.
    since: Instant,
    demand: u64,
    demand_before: u64,
    /// When a caller last came.
    seen: Instant,
}

/// A caller's part in fetching the next lease of a key.
#[derive(Debug)]
pub(crate) enum FetchRole {
    /// This caller.
    Leader(FetchGuard),
    /// Another caller; the channel closes when its fetch has ended.
    Follower(watch::Receiver<()>),
}

/// A fetch in flight. Dropping it wakes the followers.
#[derive(Debug)]
pub(crate) struct FetchGuard {
    _ends: watch::Sender<()>,
    resets: u64,
}

/// Units that Redis granted.
#[derive(Debug)]
pub(crate) struct Lease {
    left: u64,
    until: Instant,
    sent: Instant,
    tick: u64,
    epoch: u16,
    limits: ScriptLimits,
    quotas: [QuotaDecision; Policy::QUOTAS_MAX],
    quotas_len: usize,
}

/// Unspent units of an ended lease, and the limits they were taken under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnusedUnits {
    pub(crate) tick: u64,
    pub(crate) units: u64,
    pub(crate) epoch: u16,
    pub(crate) limits: ScriptLimits,
}

/// Checks within one lease length that make a key worth a lease.
const HOT: u64 = 4;

impl Leases {
    pub(crate) fn new(settings: LeaseSettings) -> Self {
        Self { settings, table: Mutex::default() }
    }

    pub(crate) fn length(&self) -> Duration {
        self.settings.length
    }

    /// The entry of a key. Returns `None` if there are too many; the key then has no lease.
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

    /// Removes idle entries. Returns `true` if there is room now. It visits all entries, so it runs
    /// once per lease length at most: a flood of keys must not make every check do so.
    fn sweep(&self, table: &mut LeaseTable, now: Instant) -> bool {
        let length = self.settings.length;
        if table.swept_at.is_some_and(|swept_at| now < swept_at + length) {
            return false;
        }
        table.swept_at = Some(now);
        table.entries.retain(|_, entry| now < entry.state.lock().seen + length * 16);
        table.entries.len() < self.settings.keys_max
    }

    /// Ends the leases of a key in all tiers, those in flight too. Returns their unused units.
    pub(crate) fn reset(&self, key: u64) -> Vec<UnusedUnits> {
        let table = self.table.lock();
        let of_key = table.entries.iter().filter(|(tiered, _)| tiered.key == key);
        of_key.filter_map(|(_, entry)| entry.reset()).collect()
    }

    /// The number of units to request in a lease. Returns `None` if the key is not worth one.
    pub(crate) fn wanted(&self, entry: &LeaseEntry, cost: u64, limit: u64) -> Option<u64> {
        let state = entry.state.lock();
        let demand = state.demand.max(state.demand_before);
        let most = (limit / self.settings.share.max(1)).max(1);
        // A little more than last time, so that one lease suffices also when demand grows. What is
        // left is refunded.
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

    /// Counts the demand of a new caller.
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

    /// The caller's part in fetching a lease, so that one is fetched and not one per caller.
    pub(crate) fn fetch_role(&self) -> FetchRole {
        let mut state = self.state.lock();
        if let Some(fetch) = state.fetch.as_ref().filter(|fetch| fetch.has_changed().is_ok()) {
            return FetchRole::Follower(fetch.clone());
        }
        let (ends, fetch) = watch::channel(());
        state.fetch = Some(fetch);
        FetchRole::Leader(FetchGuard { _ends: ends, resets: state.resets })
    }

    /// Takes from the lease, if it lasts and holds enough.
    pub(crate) fn take(&self, key: TieredKey, cost: u64, now: Instant) -> Option<Decision> {
        let mut state = self.state.lock();
        let lease = state.lease.as_mut()?;
        if now >= lease.until || lease.left < cost {
            return None;
        }
        lease.left -= cost;
        Some(lease.decision(key, cost, now))
    }

    /// Stores a lease. Returns unused units to give back: of the lease before, or of this one if the
    /// key was reset since its fetch began.
    pub(crate) fn put(&self, lease: Lease, fetch: &FetchGuard) -> Option<UnusedUnits> {
        let mut state = self.state.lock();
        let ended =
            if state.resets == fetch.resets { state.lease.replace(lease) } else { Some(lease) };
        ended.and_then(Lease::unused)
    }

    /// Ends the lease that was requested at `sent`, if it is still there.
    pub(crate) fn end(&self, sent: Instant) -> Option<UnusedUnits> {
        let mut state = self.state.lock();
        state.lease.take_if(|lease| lease.sent == sent).and_then(Lease::unused)
    }

    /// Ends the current lease, and the one in flight.
    fn reset(&self) -> Option<UnusedUnits> {
        let mut state = self.state.lock();
        state.resets += 1;
        state.lease.take().and_then(Lease::unused)
    }
}

impl Lease {
    /// The lease of a reply, without the `cost` of the caller that requested it: the reply itself
    /// allows that, however late it is. Returns `None` if the lease was denied.
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
        let mut quotas = [QuotaDecision::new(0, 0, None, Duration::ZERO); Policy::QUOTAS_MAX];
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

    /// The quotas as they were when the lease was taken, with what is left of the lease.
    pub(crate) fn decision(&self, key: TieredKey, cost: u64, now: Instant) -> Decision {
        let age = now.saturating_duration_since(self.sent);
        let mut quotas = self.quotas;
        for quota in &mut quotas[..self.quotas_len] {
            *quota = QuotaDecision::new(
                quota.limit(),
                quota.remaining().saturating_add(self.left).min(quota.limit()),
                Some(Duration::ZERO),
                quota.reset_after().saturating_sub(age),
            );
        }
        let receipt = Receipt::new(key.key, self.tick, cost, self.epoch);
        Decision::new(Outcome::Allow, &quotas[..self.quotas_len], Some(receipt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slidegate::{Algorithm, Quota};

    const MS: Duration = Duration::from_millis(1);
    const SETTINGS: LeaseSettings =
        LeaseSettings { length: Duration::from_millis(10), keys_max: 2, share: 10 };
    const ALICE: TieredKey = TieredKey { key: 1, tier: 0 };

    fn limits() -> ScriptLimits {
        let quota = Quota::per_second(100).unwrap();
        ScriptLimits::new(&[quota], Algorithm::Log, MS, quota.window()).unwrap()
    }

    fn leader(entry: &LeaseEntry) -> FetchGuard {
        match entry.fetch_role() {
            FetchRole::Leader(guard) => guard,
            FetchRole::Follower(_) => panic!("another fetch is in flight"),
        }
    }

    /// Stores a lease of `units` in which the caller takes `cost`. Returns the caller's decision and
    /// the unused units.
    fn put(
        entry: &LeaseEntry,
        (units, sent, cost): (u64, Instant, u64),
        quotas: &[QuotaDecision],
        fetch: &FetchGuard,
    ) -> (Decision, Option<UnusedUnits>) {
        let (quotas, used) = (quotas.to_vec(), Vec::new());
        let reply = KeyReply::Decision { allowed: true, tick: 7, epoch: 3, units, quotas, used };
        let lease = Lease::granted(&reply, sent, &limits(), SETTINGS.length, cost).unwrap();
        (lease.decision(ALICE, cost, sent), entry.put(lease, fetch))
    }

    fn unused(units: u64) -> UnusedUnits {
        UnusedUnits { tick: 7, units, epoch: 3, limits: limits() }
    }

    #[test]
    fn allows_what_it_holds_and_no_more() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let entry = leases.entry(ALICE, now).unwrap();
        let quotas = [QuotaDecision::new(100, 60, Some(Duration::ZERO), 50 * MS)];
        let (decision, before) = put(&entry, (7, now, 2), &quotas, &leader(&entry));
        assert_eq!((decision.remaining(), before), (65, None));
        assert_eq!(decision.into_receipt(), Some(Receipt::new(1, 7, 2, 3)));
        let decision = entry.take(ALICE, 3, now + MS).unwrap();
        assert_eq!((decision.remaining(), decision.reset_after()), (62, 49 * MS));
        assert_eq!(decision.into_receipt(), Some(Receipt::new(1, 7, 3, 3)));
        assert!(entry.take(ALICE, 3, now + MS).is_none());
        assert!(entry.take(ALICE, 2, now + MS).is_some());
        assert!(entry.take(ALICE, 1, now + MS).is_none());
    }

    #[test]
    fn ends_on_time_and_returns_what_is_left() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let entry = leases.entry(ALICE, now).unwrap();
        let _ = put(&entry, (6, now, 1), &[], &leader(&entry));
        assert!(entry.take(ALICE, 1, now + 9 * MS).is_some());
        assert!(entry.take(ALICE, 1, now + 10 * MS).is_none());
        assert_eq!(entry.end(now + MS), None, "of another lease");
        assert_eq!(entry.end(now), Some(unused(4)));
        assert_eq!(entry.end(now), None, "reported once");
    }

    #[test]
    fn a_new_lease_gives_back_the_one_before() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let entry = leases.entry(ALICE, now).unwrap();
        let _ = put(&entry, (6, now, 1), &[], &leader(&entry));
        let (_, before) = put(&entry, (9, now + MS, 9), &[], &leader(&entry));
        assert_eq!(before, Some(unused(5)));
        assert_eq!(entry.end(now + MS), None, "nothing is left of it");
    }

    #[test]
    fn one_fetch_at_a_time_and_a_dropped_one_has_ended() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let entry = leases.entry(ALICE, now).unwrap();
        let mine = leader(&entry);
        let FetchRole::Follower(theirs) = entry.fetch_role() else { panic!("two at a time") };
        assert!(theirs.has_changed().is_ok());
        drop(mine);
        assert!(theirs.has_changed().is_err());
        drop(leader(&entry));
    }

    #[test]
    fn reset_discards_current_and_in_flight_leases() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let entry = leases.entry(ALICE, now).unwrap();
        let _ = put(&entry, (6, now, 1), &[], &leader(&entry));
        let before = leader(&entry);
        assert_eq!(leases.reset(2), []);
        assert_eq!(leases.reset(ALICE.key), [unused(5)]);
        assert!(entry.take(ALICE, 1, now).is_none());
        let (decision, ended) = put(&entry, (4, now, 1), &[], &before);
        assert!(decision.is_allowed(), "requested before the reset");
        assert_eq!(ended, Some(unused(3)));
        assert!(entry.take(ALICE, 1, now).is_none());
    }

    #[test]
    fn only_a_hot_key_is_worth_a_lease_and_only_a_share_of_the_limit() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let entry = leases.entry(ALICE, now).unwrap();
        entry.note_demand(1, now, SETTINGS.length);
        assert_eq!(leases.wanted(&entry, 1, 1000), None);
        for _ in 0..39 {
            entry.note_demand(1, now, SETTINGS.length);
        }
        assert_eq!(leases.wanted(&entry, 1, 1000), Some(50));
        assert_eq!(leases.wanted(&entry, 1, 100), Some(10), "a tenth of the limit");
        assert_eq!(leases.wanted(&entry, 1, 10), None, "a tenth is one unit: no lease");
        // Two stretches later there is no demand.
        entry.note_demand(1, now + 30 * MS, SETTINGS.length);
        assert_eq!(leases.wanted(&entry, 1, 1000), None);
    }

    #[test]
    fn entries_are_bounded_and_idle_ones_make_room() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let numbered = |key| TieredKey { key, tier: 0 };
        for key in 1..=2 {
            leases.entry(numbered(key), now).unwrap().note_demand(1, now, SETTINGS.length);
        }
        assert!(leases.entry(numbered(3), now).is_none());
        assert!(leases.entry(numbered(3), now + 161 * MS).is_some());
        assert!(leases.entry(numbered(1), now + 161 * MS).is_some(), "there is room for two");
        // A sweep has just been done.
        assert!(leases.entry(numbered(4), now + 170 * MS).is_none());
    }
}
