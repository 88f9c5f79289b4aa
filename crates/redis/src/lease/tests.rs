//! Tests of `lease`.

use super::*;
use slidegate::{Algorithm, Quota};

const MS: Duration = Duration::from_millis(1);
const SETTINGS: LeaseSettings =
    LeaseSettings { length: Duration::from_millis(10), keys_max: 2, share: 10 };
const ALICE: TieredKey = TieredKey { key: 1, tier: 0 };

fn limits() -> ScriptLimits {
    let quota = Quota::per_second(100);
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
    let reply = KeyReply::Decision {
        allowed: true,
        blocked: false,
        tick: 7,
        epoch: 3,
        units,
        quotas,
        used,
    };
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
    let quotas = [QuotaDecision::new(100, 60, RetryAfter::Now, 50 * MS)];
    let (decision, before) = put(&entry, (7, now, 2), &quotas, &leader(&entry));
    assert_eq!((decision.remaining(), before), (65, None));
    assert_eq!(decision.into_receipt(), Some(Receipt::new(1, 2, 7, 3)));
    let decision = entry.take(ALICE, 3, now + MS).unwrap();
    assert_eq!((decision.remaining(), decision.reset_after()), (62, 49 * MS));
    assert_eq!(decision.into_receipt(), Some(Receipt::new(1, 3, 7, 3)));
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
