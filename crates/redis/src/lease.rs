//! Units that this process holds for a moment, so that a hot key is asked for once in a while.
//!
//! A lease is dated at its end by the server, and the holder counts its time from the moment it
//! sent the question, which is before the server judged it: every use comes before the date, so a
//! unit never counts for too short, and no clocks need to agree. What is left at the end goes back.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Decision, Outcome, QUOTAS_MAX, QuotaDecision, Receipt};
use tokio::time::Instant;

/// The leases of one limiter, bounded in number.
#[derive(Debug)]
pub(crate) struct Leases {
    settings: LeaseSettings,
    holders: Mutex<HashMap<u64, Arc<Holder>>>,
}

/// How leases are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseSettings {
    /// How long a lease lasts.
    pub(crate) length: Duration,
    /// Keys that may have one at a time.
    pub(crate) keys_max: usize,
    /// The largest share of a limit that one lease may take: one part of so many.
    pub(crate) share: u64,
}

/// What is known of one key.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Held by whoever asks Redis for this key, so that one lease is taken and not one a caller.
    pub(crate) turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lease: Option<Lease>,
    /// When the stretch began in which demand is counted, and what was asked for in it.
    since: Instant,
    demand: u64,
    /// What was asked for in the stretch before.
    demand_before: u64,
    /// When a caller last came.
    seen: Instant,
}

#[derive(Debug)]
struct Lease {
    left: u64,
    until: Instant,
    sent: Instant,
    tick: u64,
    epoch: u16,
    quotas: [QuotaDecision; QUOTAS_MAX],
    quotas_len: usize,
}

/// Units of an ended lease that nobody used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unused {
    pub(crate) tick: u64,
    pub(crate) units: u64,
    pub(crate) epoch: u16,
}

/// What Redis granted.
#[derive(Debug)]
pub(crate) struct Granted<'a> {
    pub(crate) units: u64,
    pub(crate) tick: u64,
    pub(crate) epoch: u16,
    pub(crate) quotas: &'a [QuotaDecision],
    pub(crate) sent: Instant,
}

/// Asked for so often in one stretch, a key is worth a lease.
const HOT: u64 = 4;

impl Leases {
    pub(crate) fn new(settings: LeaseSettings) -> Self {
        Self { settings, holders: Mutex::default() }
    }

    pub(crate) fn length(&self) -> Duration {
        self.settings.length
    }

    /// The holder of a key; none when there are too many, and then the key is asked for one by
    /// one.
    pub(crate) fn holder(&self, fingerprint: u64, now: Instant) -> Option<Arc<Holder>> {
        let mut holders = self.holders.lock();
        if let Some(holder) = holders.get(&fingerprint) {
            return Some(Arc::clone(holder));
        }
        if holders.len() >= self.settings.keys_max {
            let idle = self.settings.length * 16;
            holders.retain(|_, holder| now < holder.state.lock().seen + idle);
            if holders.len() >= self.settings.keys_max {
                return None;
            }
        }
        let holder = Arc::new(Holder::new(now));
        holders.insert(fingerprint, Arc::clone(&holder));
        Some(holder)
    }

    /// How many units a lease should ask for; none if the key is not worth one.
    pub(crate) fn wanted(&self, holder: &Holder, cost: u64, limit: u64) -> Option<u64> {
        let state = holder.state.lock();
        let demand = state.demand.max(state.demand_before);
        let most = (limit / self.settings.share.max(1)).max(1);
        // A little more than last time, so that one lease covers its stretch also when demand
        // grows; what is left goes back.
        let wanted = demand.saturating_add(demand / 4).min(most);
        (demand >= HOT.saturating_mul(cost) && wanted > cost).then_some(wanted)
    }
}

impl Holder {
    fn new(now: Instant) -> Self {
        let state = State { lease: None, since: now, demand: 0, demand_before: 0, seen: now };
        Self { turn: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    /// Counts the demand of a new caller in stretches of `length`.
    pub(crate) fn note(&self, cost: u64, now: Instant, length: Duration) {
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

    /// Takes from the lease, if it lasts and holds enough.
    pub(crate) fn take(&self, fingerprint: u64, cost: u64, now: Instant) -> Option<Decision> {
        let mut state = self.state.lock();
        let lease = state.lease.as_mut()?;
        if now >= lease.until || lease.left < cost {
            return None;
        }
        lease.left -= cost;
        Some(lease.decision(fingerprint, cost, now))
    }

    /// Puts a lease in place of the one before; what that one has left is to be given back.
    pub(crate) fn put(&self, granted: &Granted<'_>, length: Duration) -> Option<Unused> {
        let mut quotas = [QuotaDecision::new(0, 0, None, Duration::ZERO); QUOTAS_MAX];
        let quotas_len = granted.quotas.len().min(QUOTAS_MAX);
        quotas[..quotas_len].copy_from_slice(&granted.quotas[..quotas_len]);
        let lease = Lease {
            left: granted.units,
            until: granted.sent + length,
            sent: granted.sent,
            tick: granted.tick,
            epoch: granted.epoch,
            quotas,
            quotas_len,
        };
        let before = self.state.lock().lease.replace(lease);
        before.and_then(Lease::unused)
    }

    /// Ends the lease that was sent for at `sent`, if it is still there.
    pub(crate) fn end(&self, sent: Instant) -> Option<Unused> {
        let mut state = self.state.lock();
        let lease = state.lease.take_if(|lease| lease.sent == sent)?;
        lease.unused()
    }
}

impl Lease {
    fn unused(self) -> Option<Unused> {
        let Self { left, tick, epoch, .. } = self;
        (left > 0).then_some(Unused { tick, units: left, epoch })
    }

    /// Where the quotas stood when the lease was taken, with what is left of the lease.
    fn decision(&self, fingerprint: u64, cost: u64, now: Instant) -> Decision {
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
        let receipt = Receipt::new(fingerprint, self.tick, cost, self.epoch);
        Decision::new(Outcome::Allow, &quotas[..self.quotas_len], Some(receipt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SETTINGS: LeaseSettings =
        LeaseSettings { length: Duration::from_millis(10), keys_max: 2, share: 10 };

    fn grant(units: u64, sent: Instant, quotas: &[QuotaDecision]) -> Granted<'_> {
        Granted { units, tick: 7, epoch: 3, quotas, sent }
    }

    #[test]
    fn gives_what_it_holds_and_no_more() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(1, now).unwrap();
        let quotas = [QuotaDecision::new(100, 60, Some(Duration::ZERO), 50 * MS)];
        assert!(holder.put(&grant(5, now, &quotas), SETTINGS.length).is_none());
        let decision = holder.take(1, 3, now + MS).unwrap();
        assert_eq!((decision.remaining(), decision.reset_after()), (62, 49 * MS));
        assert_eq!(decision.into_receipt(), Some(Receipt::new(1, 7, 3, 3)));
        assert!(holder.take(1, 3, now + MS).is_none());
        assert!(holder.take(1, 2, now + MS).is_some());
        assert!(holder.take(1, 1, now + MS).is_none());
    }

    #[test]
    fn ends_on_time_and_tells_what_is_left() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(1, now).unwrap();
        holder.put(&grant(5, now, &[]), SETTINGS.length);
        assert!(holder.take(1, 1, now + 9 * MS).is_some());
        assert!(holder.take(1, 1, now + 10 * MS).is_none());
        assert_eq!(holder.end(now + MS), None, "of another lease");
        assert_eq!(holder.end(now), Some(Unused { tick: 7, units: 4, epoch: 3 }));
        assert_eq!(holder.end(now), None, "told once");
    }

    #[test]
    fn only_a_hot_key_is_worth_a_lease_and_only_a_share_of_the_limit() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(1, now).unwrap();
        holder.note(1, now, SETTINGS.length);
        assert_eq!(leases.wanted(&holder, 1, 1000), None);
        for _ in 0..39 {
            holder.note(1, now, SETTINGS.length);
        }
        assert_eq!(leases.wanted(&holder, 1, 1000), Some(50));
        assert_eq!(leases.wanted(&holder, 1, 100), Some(10), "a tenth of the limit");
        assert_eq!(leases.wanted(&holder, 1, 10), None, "a tenth is one unit: no lease");
        // Two stretches later nobody is asking any more.
        holder.note(1, now + 30 * MS, SETTINGS.length);
        assert_eq!(leases.wanted(&holder, 1, 1000), None);
    }

    #[test]
    fn holders_are_bounded_and_idle_ones_make_room() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        for key in 1..=2 {
            leases.holder(key, now).unwrap().note(1, now, SETTINGS.length);
        }
        assert!(leases.holder(3, now).is_none());
        assert!(leases.holder(3, now + 161 * MS).is_some());
    }
}
