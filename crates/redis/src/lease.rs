//! Units that this process holds for a moment, so that a hot key is asked for once in a while.
//!
//! A lease is dated at its end by the server, and the holder counts its time from the moment it
//! sent the question, which is before the server judged it: every use comes before the date, so a
//! unit never counts for too short, and no clocks need to agree. What is left at the end goes back.
//!
//! The clock is the system's monotonic one. It stands still while a machine sleeps, so a machine
//! that is put to sleep during a lease can use what is left of it when it wakes up.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Decision, Outcome, Policy, QuotaDecision, Receipt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::script::ScriptLimits;
use crate::who::Who;

/// The leases of one limiter, bounded in number.
#[derive(Debug)]
pub(crate) struct Leases {
    settings: LeaseSettings,
    holders: Mutex<Holders>,
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

#[derive(Debug, Default)]
struct Holders {
    of: HashMap<Who, Arc<Holder>>,
    /// When idle ones were last looked for.
    swept: Option<Instant>,
}

/// What is known of one key.
#[derive(Debug)]
pub(crate) struct Holder {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lease: Option<Lease>,
    /// Ends when whoever asks for a lease has the answer; none if nobody ever asked.
    asking: Option<watch::Receiver<()>>,
    /// How often the key was forgotten: a lease asked for before that is void.
    forgotten: u64,
    /// When the stretch began in which demand is counted, and what was asked for in it.
    since: Instant,
    demand: u64,
    /// What was asked for in the stretch before.
    demand_before: u64,
    /// When a caller last came.
    seen: Instant,
}

/// Who asks for the next lease of a key.
#[derive(Debug)]
pub(crate) enum Turn {
    Mine(Asking),
    /// Somebody else is asking; this closes when they have their answer.
    Theirs(watch::Receiver<()>),
}

/// The turn to ask for a lease. Dropped, it is over, whatever became of it.
#[derive(Debug)]
pub(crate) struct Asking {
    _ends: watch::Sender<()>,
    forgotten: u64,
}

#[derive(Debug)]
struct Lease {
    left: u64,
    until: Instant,
    sent: Instant,
    tick: u64,
    epoch: u16,
    limits: ScriptLimits,
    quotas: [QuotaDecision; Policy::QUOTAS_MAX],
    quotas_len: usize,
}

/// Units of an ended lease that nobody used, and the limits they were taken under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unused {
    pub(crate) tick: u64,
    pub(crate) units: u64,
    pub(crate) epoch: u16,
    pub(crate) limits: ScriptLimits,
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
    pub(crate) fn holder(&self, who: Who, now: Instant) -> Option<Arc<Holder>> {
        let mut holders = self.holders.lock();
        if let Some(holder) = holders.of.get(&who) {
            return Some(Arc::clone(holder));
        }
        if holders.of.len() >= self.settings.keys_max && !self.sweep(&mut holders, now) {
            return None;
        }
        let holder = Arc::new(Holder::new(now));
        holders.of.insert(who, Arc::clone(&holder));
        Some(holder)
    }

    /// Makes room among the holders; whether there is any now. Looks at all of them, and so only
    /// once in a length: a flood of keys must not make every check do so.
    fn sweep(&self, holders: &mut Holders, now: Instant) -> bool {
        let length = self.settings.length;
        if holders.swept.is_some_and(|swept| now < swept + length) {
            return false;
        }
        holders.swept = Some(now);
        holders.of.retain(|_, holder| now < holder.state.lock().seen + length * 16);
        holders.of.len() < self.settings.keys_max
    }

    /// Ends the leases of a key, in all tiers, also those that are being asked for; what they
    /// have left.
    pub(crate) fn forget(&self, key: u64) -> Vec<Unused> {
        let holders = self.holders.lock();
        let of_key = holders.of.iter().filter(|(who, _)| who.key == key);
        of_key.filter_map(|(_, holder)| holder.forget()).collect()
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
        let state = State {
            lease: None,
            asking: None,
            forgotten: 0,
            since: now,
            demand: 0,
            demand_before: 0,
            seen: now,
        };
        Self { state: Mutex::new(state) }
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

    /// Forgets the demand: the key has to become hot again before the next lease.
    pub(crate) fn cool(&self) {
        let mut state = self.state.lock();
        (state.demand, state.demand_before) = (0, 0);
    }

    /// The turn to ask for a lease, so that one is taken and not one a caller.
    pub(crate) fn turn(&self) -> Turn {
        let mut state = self.state.lock();
        if let Some(asking) = state.asking.as_ref().filter(|asking| asking.has_changed().is_ok()) {
            return Turn::Theirs(asking.clone());
        }
        let (ends, asking) = watch::channel(());
        state.asking = Some(asking);
        Turn::Mine(Asking { _ends: ends, forgotten: state.forgotten })
    }

    /// Takes from the lease, if it lasts and holds enough.
    pub(crate) fn take(&self, who: Who, cost: u64, now: Instant) -> Option<Decision> {
        let mut state = self.state.lock();
        let lease = state.lease.as_mut()?;
        if now >= lease.until || lease.left < cost {
            return None;
        }
        lease.left -= cost;
        Some(lease.decision(who, cost, now))
    }

    /// Puts a lease in place of the one before, without the `cost` of whoever asked for it: that
    /// is allowed by the server's answer itself, however late it is. The decision for it, and
    /// units to be given back: of the lease before, or of this one if the key was forgotten since.
    pub(crate) fn put(
        &self,
        who: Who,
        cost: u64,
        lease: (&Granted<'_>, &ScriptLimits, Duration),
        asking: &Asking,
    ) -> (Decision, Option<Unused>) {
        let lease = Lease::new(lease.0, lease.1, lease.2, cost);
        let decision = lease.decision(who, cost, Instant::now());
        let mut state = self.state.lock();
        let ended = if state.forgotten == asking.forgotten {
            state.lease.replace(lease)
        } else {
            Some(lease)
        };
        (decision, ended.and_then(Lease::unused))
    }

    /// Ends the lease that was sent for at `sent`, if it is still there.
    pub(crate) fn end(&self, sent: Instant) -> Option<Unused> {
        let mut state = self.state.lock();
        let lease = state.lease.take_if(|lease| lease.sent == sent)?;
        lease.unused()
    }

    /// Ends the lease that is there, and the one that is asked for.
    fn forget(&self) -> Option<Unused> {
        let mut state = self.state.lock();
        state.forgotten += 1;
        state.lease.take().and_then(Lease::unused)
    }
}

impl Lease {
    fn new(granted: &Granted<'_>, limits: &ScriptLimits, length: Duration, cost: u64) -> Self {
        let mut quotas = [QuotaDecision::new(0, 0, None, Duration::ZERO); Policy::QUOTAS_MAX];
        let quotas_len = granted.quotas.len().min(Policy::QUOTAS_MAX);
        quotas[..quotas_len].copy_from_slice(&granted.quotas[..quotas_len]);
        Self {
            left: granted.units.saturating_sub(cost),
            until: granted.sent + length,
            sent: granted.sent,
            tick: granted.tick,
            epoch: granted.epoch,
            limits: limits.clone(),
            quotas,
            quotas_len,
        }
    }

    fn unused(self) -> Option<Unused> {
        let Self { left, tick, epoch, limits, .. } = self;
        (left > 0).then_some(Unused { tick, units: left, epoch, limits })
    }

    /// Where the quotas stood when the lease was taken, with what is left of the lease.
    fn decision(&self, who: Who, cost: u64, now: Instant) -> Decision {
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
        let receipt = Receipt::new(who.key, self.tick, cost, self.epoch);
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
    const ALICE: Who = Who { key: 1, tier: 0 };

    fn grant(units: u64, sent: Instant, quotas: &[QuotaDecision]) -> Granted<'_> {
        Granted { units, tick: 7, epoch: 3, quotas, sent }
    }

    fn limits() -> ScriptLimits {
        let quota = Quota::per_second(100).unwrap();
        ScriptLimits::new(&[quota], Algorithm::Log, MS, quota.window()).unwrap()
    }

    fn asking(holder: &Holder) -> Asking {
        match holder.turn() {
            Turn::Mine(asking) => asking,
            Turn::Theirs(_) => panic!("somebody else is asking"),
        }
    }

    fn put(
        holder: &Holder,
        granted: &Granted<'_>,
        cost: u64,
        asking: &Asking,
    ) -> (Decision, Option<Unused>) {
        holder.put(ALICE, cost, (granted, &limits(), SETTINGS.length), asking)
    }

    fn unused(units: u64) -> Unused {
        Unused { tick: 7, units, epoch: 3, limits: limits() }
    }

    #[test]
    fn gives_what_it_holds_and_no_more() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(ALICE, now).unwrap();
        let quotas = [QuotaDecision::new(100, 60, Some(Duration::ZERO), 50 * MS)];
        let (decision, before) = put(&holder, &grant(7, now, &quotas), 2, &asking(&holder));
        assert_eq!((decision.remaining(), before), (65, None));
        assert_eq!(decision.into_receipt(), Some(Receipt::new(1, 7, 2, 3)));
        let decision = holder.take(ALICE, 3, now + MS).unwrap();
        assert_eq!((decision.remaining(), decision.reset_after()), (62, 49 * MS));
        assert_eq!(decision.into_receipt(), Some(Receipt::new(1, 7, 3, 3)));
        assert!(holder.take(ALICE, 3, now + MS).is_none());
        assert!(holder.take(ALICE, 2, now + MS).is_some());
        assert!(holder.take(ALICE, 1, now + MS).is_none());
    }

    #[test]
    fn ends_on_time_and_tells_what_is_left() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(ALICE, now).unwrap();
        let _ = put(&holder, &grant(6, now, &[]), 1, &asking(&holder));
        assert!(holder.take(ALICE, 1, now + 9 * MS).is_some());
        assert!(holder.take(ALICE, 1, now + 10 * MS).is_none());
        assert_eq!(holder.end(now + MS), None, "of another lease");
        assert_eq!(holder.end(now), Some(unused(4)));
        assert_eq!(holder.end(now), None, "told once");
    }

    #[test]
    fn a_new_lease_gives_back_the_one_before() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(ALICE, now).unwrap();
        let _ = put(&holder, &grant(6, now, &[]), 1, &asking(&holder));
        let (_, before) = put(&holder, &grant(9, now + MS, &[]), 9, &asking(&holder));
        assert_eq!(before, Some(unused(5)));
        assert_eq!(holder.end(now + MS), None, "nothing is left of it");
    }

    #[test]
    fn one_asks_at_a_time_and_a_lost_turn_is_over() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(ALICE, now).unwrap();
        let mine = asking(&holder);
        let Turn::Theirs(theirs) = holder.turn() else { panic!("two at a time") };
        assert!(theirs.has_changed().is_ok());
        drop(mine);
        assert!(theirs.has_changed().is_err());
        drop(asking(&holder));
    }

    #[test]
    fn a_forgotten_key_has_no_lease_neither_now_nor_from_an_answer_under_way() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(ALICE, now).unwrap();
        let _ = put(&holder, &grant(6, now, &[]), 1, &asking(&holder));
        let before = asking(&holder);
        assert_eq!(leases.forget(2), []);
        assert_eq!(leases.forget(ALICE.key), [unused(5)]);
        assert!(holder.take(ALICE, 1, now).is_none());
        let (decision, ended) = put(&holder, &grant(4, now, &[]), 1, &before);
        assert!(decision.is_allowed(), "asked before it was forgotten");
        assert_eq!(ended, Some(unused(3)));
        assert!(holder.take(ALICE, 1, now).is_none());
    }

    #[test]
    fn only_a_hot_key_is_worth_a_lease_and_only_a_share_of_the_limit() {
        let (leases, now) = (Leases::new(SETTINGS), Instant::now());
        let holder = leases.holder(ALICE, now).unwrap();
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
        let who = |key| Who { key, tier: 0 };
        for key in 1..=2 {
            leases.holder(who(key), now).unwrap().note(1, now, SETTINGS.length);
        }
        assert!(leases.holder(who(3), now).is_none());
        assert!(leases.holder(who(3), now + 161 * MS).is_some());
        assert!(leases.holder(who(1), now + 161 * MS).is_some(), "there is room for two");
        // They have been looked through just now.
        assert!(leases.holder(who(4), now + 170 * MS).is_none());
    }
}
