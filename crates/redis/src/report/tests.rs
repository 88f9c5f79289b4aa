//! Tests of `report`.

use redis::Value;
use slidegate::{Algorithm, DegradedReason, Quota};

use super::*;
use crate::servers::Failure;

const KEY: u64 = 7;
const SECOND: Duration = Duration::from_secs(1);

fn limits() -> Arc<ScriptLimits> {
    let quota = Quota::per_minute(100);
    let tick = Duration::from_millis(1);
    Arc::new(ScriptLimits::new(&[quota], Algorithm::Log, tick, quota.window()).unwrap())
}

fn add(reports: &Reports, key: u64, units: u64, sent: PriorCall, now: Instant) {
    let admission = Admission { units, sent, grace: Duration::ZERO };
    reports.add(key, || b"name".to_vec(), &limits(), admission, now);
}

fn charges(reports: &Reports, now: Instant) -> Vec<(u64, Duration)> {
    let report = reports.start(KEY, now);
    let charges = report.map_or_else(Vec::new, |report| {
        reports.finish(KEY, &report, ReportOutcome::Refused, now);
        report.charges
    });
    charges.into_iter().map(|charge| (charge.units, charge.age)).collect()
}

fn counts(reports: &Reports) -> (u64, u64) {
    (reports.reported.load(Ordering::Relaxed), reports.dropped.load(Ordering::Relaxed))
}

#[test]
fn charges_are_recorded_at_the_last_of_their_units() {
    let (reports, start) = (Reports::new(1 << 20), Instant::now());
    for second in [0, 1, 3, 4, 10] {
        add(&reports, KEY, 2, PriorCall::None, start + second * SECOND);
    }
    let now = start + 20 * SECOND;
    let expected = [(6, 17 * SECOND), (2, 16 * SECOND), (2, 10 * SECOND)];
    assert_eq!(charges(&reports, now), expected);
}

#[test]
fn reported_keys_are_decided_by_redis_alone() {
    let (reports, now) = (Reports::new(1 << 20), Instant::now());
    assert!(!reports.is_unreported(KEY, now));
    add(&reports, KEY, 2, PriorCall::None, now);
    assert!(reports.is_unreported(KEY, now));
    assert!(!reports.is_unreported(KEY + 1, now), "another key");
    let report = reports.start(KEY, now).unwrap();
    assert!(reports.is_unreported(KEY, now), "the reply is missing");
    add(&reports, KEY, 5, PriorCall::None, now);
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    assert!(reports.is_unreported(KEY, now), "admitted meanwhile");
    let report = reports.start(KEY, now).unwrap();
    assert_eq!(report.charges, [Charge { units: 5, age: Duration::ZERO }]);
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    assert!(!reports.is_unreported(KEY, now));
    assert!(!reports.is_any_unreported());
    assert_eq!(counts(&reports), (7, 0));
}

// A charge without a reply may have been executed. Sent again, it would count twice.
#[test]
fn charges_without_a_reply_are_not_repeated() {
    let (reports, now) = (Reports::new(1 << 20), Instant::now());
    add(&reports, KEY, 2, PriorCall::None, now);
    let report = reports.start(KEY, now).unwrap();
    reports.finish(KEY, &report, ReportOutcome::Unknown(None), now);
    assert!(reports.turn(KEY).is_none(), "nothing can be reported");
    assert_eq!(reports.start(KEY, now), None);
    assert!(reports.is_unreported(KEY, now), "both decide");
    assert!(!reports.is_unreported(KEY, now + 60 * SECOND), "until the window has passed");
    assert_eq!(counts(&reports), (0, 2));
}

// A late reply decides whether the units are charged. Without it, a check is charged, and a charge
// is not.
#[test]
fn late_replies_show_whether_redis_has_the_units() {
    let reply = |outcome| Ok(Value::BulkString(vec![0, 0, 0, 0, 0, 0, 0, outcome]));
    let refused = || Err(Failure::bad_reply("OOM"));
    let lost = || Err(Failure::unknown(DegradedReason::Unreachable, "closed"));
    for (late, is_check_charged, is_charge_repeated) in [
        (reply(2), false, false),
        (reply(0), true, false),
        (refused(), true, true),
        (lost(), true, false),
    ] {
        let (reports, now) = (Reports::new(1 << 20), Instant::now());
        add(&reports, KEY, 2, PriorCall::None, now);
        let report = reports.start(KEY, now).unwrap();
        let (charge, late_charge) = LateReply::new();
        reports.finish(KEY, &report, ReportOutcome::Unknown(Some(late_charge)), now);
        let (check, late_check) = LateReply::new();
        add(&reports, KEY, 3, PriorCall::Check(late_check), now);
        assert_eq!(reports.start(KEY, now), None, "both are pending");
        assert!(reports.turn(KEY).is_some() && reports.is_unreported(KEY, now));

        charge.send(&late);
        check.send(&late);
        let units = if is_charge_repeated { 2 } else { 0 } + if is_check_charged { 3 } else { 0 };
        let report = reports.start(KEY, now);
        assert_eq!(report.as_ref().map_or(0, |report| report.units), units, "{late:?}");
        let recorded = if late.is_ok() { 2 } else { 0 };
        assert_eq!(counts(&reports), (recorded, 0), "{late:?}");
        if let Some(report) = report {
            reports.finish(KEY, &report, ReportOutcome::Recorded, now);
        }
        let is_unknown = late.as_ref().is_err_and(Failure::is_unknown);
        assert_eq!(reports.is_unreported(KEY, now), is_unknown, "{late:?}");
    }
}

#[test]
fn refunds_take_back_unreported_units_first() {
    let (reports, now) = (Reports::new(1 << 20), Instant::now());
    add(&reports, KEY, 3, PriorCall::None, now);
    assert_eq!(reports.take_back(KEY, 1, now), 0);
    let report = reports.start(KEY, now).unwrap();
    assert_eq!(report.units, 2);
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    add(&reports, KEY, 1, PriorCall::None, now);
    assert_eq!(reports.take_back(KEY, 2, now), 1, "one was reported");
    assert!(!reports.is_unreported(KEY, now));
    assert_eq!(reports.take_back(KEY, 5, now + 61 * SECOND), 0, "expired");
    assert_eq!(reports.take_back(KEY, 5, now), 1, "no more than were reported");
}

#[test]
fn floods_of_keys_take_bounded_memory() {
    const ROOM: usize = 64 << 10;
    let (reports, now) = (Reports::new(ROOM), Instant::now());
    for key in 0..10_000 {
        add(&reports, key, 1, PriorCall::None, now);
    }
    let (bytes, keys) = {
        let table = reports.table.lock();
        (table.bytes, table.records.len())
    };
    // A key may fit while its first entry does not.
    assert!(bytes <= ROOM + ENTRY_BYTES && keys > 50, "{bytes} bytes for {keys} keys");
    assert_eq!(counts(&reports), (0, 10_000 - keys as u64));
    assert_eq!(reports.next_keys(10_000).len(), keys);
    for key in 0..10_000 {
        assert_eq!(reports.is_unreported(key, now), key < keys as u64);
        assert!(!reports.is_unreported(key, now + 60 * SECOND));
    }
    add(&reports, 10_000, 1, PriorCall::None, now);
    assert!(reports.is_unreported(10_000, now), "expired keys make room");
}

#[test]
fn one_key_takes_bounded_memory() {
    let (reports, start) = (Reports::new(1 << 20), Instant::now());
    for _ in 0..1000 {
        add(&reports, KEY, 1, PriorCall::Check(LateReply::lost()), start);
    }
    let charged: u64 = charges(&reports, start).iter().map(|(units, _)| units).sum();
    assert_eq!(charged, 1000);
    assert!(reports.table.lock().records[&KEY].admitted.len() <= ENTRIES_MAX);
}

#[test]
fn both_decide_for_a_grace_period_after_the_report() {
    let (reports, now) = (Reports::new(1 << 20), Instant::now());
    let admission = Admission { units: 2, sent: PriorCall::None, grace: SECOND };
    reports.add(KEY, || b"name".to_vec(), &limits(), admission, now);
    let report = reports.start(KEY, now).unwrap();
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    assert!(reports.turn(KEY).is_none(), "nothing is left to report");
    assert!(reports.is_unreported(KEY, now));
    assert!(!reports.is_unreported(KEY, now + SECOND));
    assert!(!reports.is_any_unreported());
    add(&reports, KEY, 1, PriorCall::None, now);
    let report = reports.start(KEY, now).unwrap();
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    assert!(!reports.is_unreported(KEY, now), "no grace for the next report");
}
