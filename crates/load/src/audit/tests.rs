//! What is surely wrong, and what may be right.

use slidegate_sim::Random;
use slidegate_sim::definition::TickQuota;
use slidegate_sim::exact::ExactKey;

use super::*;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn at(outcome: Outcome, sent_ns: u64, answered_ns: u64) -> Checked {
    Checked { key: 0, outcome, sent_ns, answered_ns }
}

fn audit(requests: &[Checked], limit: u32) -> (Audit, [u64; 4]) {
    let audit = Audit::new(requests, &[Quota::per_second(limit)], 5 * MS, 0);
    let (over, under) = (audit.count(Fault::Over), audit.count(Fault::Under));
    (audit, [over.0, over.1, under.0, under.1])
}

#[test]
fn a_burst_over_the_limit_is_one_window_over() {
    let burst: Vec<Checked> =
        (0..8).map(|place| at(Outcome::Allowed, place * MS, place * MS + MS)).collect();
    let (audit, counts) = audit(&burst, 5);
    assert_eq!(counts, [1, 3, 0, 0]);
    assert_eq!((audit.windows[0].units, audit.windows[0].limit), (8, 5));
    assert!((audit.windows[0].until - 0.008).abs() < 1e-9);
}

#[test]
fn two_windows_that_do_not_overlap_are_two() {
    let mut requests = Vec::new();
    for start in [0, 3 * SECOND] {
        requests.extend((0..6).map(|place| at(Outcome::Allowed, start, start + (place + 1) * MS)));
    }
    assert_eq!(audit(&requests, 5).1, [2, 2, 0, 0]);
}

#[test]
fn an_answer_that_was_late_may_belong_to_the_next_window() {
    let mut requests: Vec<Checked> = (0..5).map(|_| at(Outcome::Allowed, 0, 10 * MS)).collect();
    // Sent early and answered late: it may have been decided after the others had expired.
    requests.push(at(Outcome::Allowed, 500 * MS, 1020 * MS));
    assert_eq!(audit(&requests, 5).1, [0; 4]);
    requests[5].answered_ns = 990 * MS;
    assert_eq!(audit(&requests, 5).1, [1, 1, 0, 0]);
}

#[test]
fn a_denial_with_room_is_a_window_under() {
    let requests = [at(Outcome::Allowed, 0, MS), at(Outcome::Denied, 2 * MS, 3 * MS)];
    let (audit, counts) = audit(&requests, 5);
    assert_eq!(counts, [0, 0, 1, 1]);
    assert_eq!((audit.windows[0].units, audit.windows[0].limit), (1, 5));
}

#[test]
fn a_request_without_an_answer_may_have_taken_a_unit() {
    let requests = [at(Outcome::Unknown, 0, MS), at(Outcome::Denied, 2 * SECOND, 2 * SECOND + MS)];
    assert_eq!(audit(&requests, 1).1, [0; 4]);
    assert_eq!(audit(&requests, 2).1, [0, 0, 1, 1]);
}

#[test]
fn denials_within_the_tolerance_are_right() {
    let denied =
        |sent_ns| [at(Outcome::Allowed, 0, MS), at(Outcome::Denied, sent_ns, sent_ns + MS)];
    assert_eq!(audit(&denied(1006 * MS), 1).1, [0; 4]);
    assert_eq!(audit(&denied(1007 * MS), 1).1, [0, 0, 1, 1]);
}

#[test]
fn denials_before_the_first_window_of_a_used_key_are_not_examined() {
    let requests =
        [at(Outcome::Denied, 5 * MS, 6 * MS), at(Outcome::Denied, 2 * SECOND, 3 * SECOND)];
    let quotas = [Quota::per_second(1)];
    assert_eq!(Audit::new(&requests, &quotas, 0, SECOND).count(Fault::Under), (1, 1));
    assert_eq!(Audit::new(&requests, &quotas, 0, 0).count(Fault::Under), (2, 2));
}

#[test]
fn with_several_quotas_the_tightest_counts() {
    let quotas = [Quota::per_second(5), Quota::per_minute(6)];
    let mut requests: Vec<Checked> =
        (0..6).map(|place| at(Outcome::Allowed, place * SECOND, place * SECOND + MS)).collect();
    requests.push(at(Outcome::Denied, 8 * SECOND, 8 * SECOND + MS));
    assert!(Audit::new(&requests, &quotas, 0, 0).windows.is_empty());
    requests.push(at(Outcome::Allowed, 9 * SECOND, 9 * SECOND + MS));
    let audit = Audit::new(&requests, &quotas, 0, 0);
    assert_eq!((audit.windows.len(), audit.windows[0].limit), (1, 6));
}

/// Requests whose decisions were made by an exact limiter at any time between sending and answer.
#[test]
fn exact_decisions_are_never_reported_and_loose_ones_are() {
    let quotas = [TickQuota { limit: 5, window: 1000 }];
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut exact = ExactKey::default();
        let mut loose = ExactKey::default();
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        let mut now = 0;
        for _ in 0..300 {
            now += random.between(0, 300);
            let sent_ns = (now.saturating_sub(random.between(0, 20))) * MS;
            let answered_ns = (now + random.between(0, 20)) * MS;
            for (key, list, limit) in [(&mut exact, &mut right, 5), (&mut loose, &mut wrong, 8)] {
                let quotas = [TickQuota { limit, ..quotas[0] }];
                let is_allowed = key.fits(&quotas, now, 1);
                if is_allowed {
                    key.record(now, 1);
                }
                let outcome = if is_allowed { Outcome::Allowed } else { Outcome::Denied };
                list.push(at(outcome, sent_ns, answered_ns));
            }
        }
        assert_eq!(audit(&right, 5).1, [0; 4], "seed {seed}");
        assert!(audit(&wrong, 5).1[0] > 0, "seed {seed}");
        // The other way around: a limiter of 5 where 8 may pass.
        assert!(audit(&right, 8).1[2] > 0, "seed {seed}");
    }
}
