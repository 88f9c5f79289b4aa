//! Tests of `report`.

use slidegate::{Algorithm, Quota};

use super::*;

const KEY: u64 = 7;
const SECOND: Duration = Duration::from_secs(1);
const CONNECTION: u64 = 3;

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
    let report = reports.start(KEY, CONNECTION, now);
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
    let report = reports.start(KEY, CONNECTION, now).unwrap();
    assert!(reports.is_unreported(KEY, now), "the reply is missing");
    add(&reports, KEY, 5, PriorCall::None, now);
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    assert!(reports.is_unreported(KEY, now), "admitted meanwhile");
    let report = reports.start(KEY, CONNECTION, now).unwrap();
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
    let report = reports.start(KEY, CONNECTION, now).unwrap();
    reports.finish(KEY, &report, ReportOutcome::Unknown, now);
    assert!(reports.turn(KEY).is_none(), "nothing can be reported");
    assert_eq!(reports.start(KEY, CONNECTION + 1, now), None, "on another connection");
    assert!(reports.is_unreported(KEY, now), "both decide");
    assert!(!reports.is_unreported(KEY, now + 60 * SECOND), "until the window has passed");
    assert_eq!(counts(&reports), (0, 2));
}

#[test]
fn a_later_reply_on_the_same_connection_proves_that_earlier_calls_were_executed() {
    let (reports, now) = (Reports::new(1 << 20), Instant::now());
    add(&reports, KEY, 2, PriorCall::None, now);
    let report = reports.start(KEY, CONNECTION, now).unwrap();
    reports.finish(KEY, &report, ReportOutcome::Unknown, now);
    add(&reports, KEY, 3, PriorCall::Check(CONNECTION), now);
    assert_eq!(reports.start(KEY, CONNECTION, now), None);
    assert!(!reports.is_unreported(KEY, now));
    assert_eq!(counts(&reports), (2, 0));

    add(&reports, KEY, 4, PriorCall::Check(CONNECTION), now);
    let report = reports.start(KEY, CONNECTION + 1, now).unwrap();
    assert_eq!(report.units, 4, "no proof on another connection");
}

#[test]
fn refunds_take_back_unreported_units_first() {
    let (reports, now) = (Reports::new(1 << 20), Instant::now());
    add(&reports, KEY, 3, PriorCall::None, now);
    assert_eq!(reports.take_back(KEY, 1, now), 0);
    let report = reports.start(KEY, CONNECTION, now).unwrap();
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
    assert!(bytes <= ROOM + size_of::<Admitted>() && keys > 50, "{bytes} bytes for {keys} keys");
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
    for number in 0..1000_u64 {
        add(&reports, KEY, 1, PriorCall::Check(number), start);
    }
    let charged: u64 = charges(&reports, start).iter().map(|(units, _)| units).sum();
    assert_eq!(charged, 999, "all but those that were proved to be executed");
    assert!(reports.table.lock().records[&KEY].admitted.len() <= ENTRIES_MAX);
}

#[test]
fn both_decide_for_a_grace_period_after_the_report() {
    let (reports, now) = (Reports::new(1 << 20), Instant::now());
    let admission = Admission { units: 2, sent: PriorCall::None, grace: SECOND };
    reports.add(KEY, || b"name".to_vec(), &limits(), admission, now);
    let report = reports.start(KEY, CONNECTION, now).unwrap();
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    assert!(reports.turn(KEY).is_none(), "nothing is left to report");
    assert!(reports.is_unreported(KEY, now));
    assert!(!reports.is_unreported(KEY, now + SECOND));
    assert!(!reports.is_any_unreported());
    add(&reports, KEY, 1, PriorCall::None, now);
    let report = reports.start(KEY, CONNECTION, now).unwrap();
    reports.finish(KEY, &report, ReportOutcome::Recorded, now);
    assert!(!reports.is_unreported(KEY, now), "no grace for the next report");
}
