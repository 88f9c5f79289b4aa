//! When the start and the end of an outage are reported.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Counts the reports of starts and ends.
fn counted() -> (Arc<Outage>, Arc<Mutex<Vec<StateChange>>>) {
    let changes: Arc<Mutex<Vec<StateChange>>> = Arc::default();
    let seen = Arc::clone(&changes);
    let on_change = Box::new(move |change: &StateChange| seen.lock().push(change.clone()));
    (Outage::new(Some(on_change)), changes)
}

fn degrade(outage: &Outage) {
    if outage.begin_or_count(&Failure::unreachable("gone"), Instant::now()) {
        outage.report_start(None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_has_one_start_and_one_end_with_its_numbers() {
    let (outage, changes) = counted();
    outage.note_reply();
    for _ in 0..100 {
        degrade(&outage);
        sleep(SECOND).await;
    }
    outage.note_reply();
    sleep(4 * SECOND).await;
    outage.note_reply();
    let cause = "Redis: gone".to_owned();
    let start = StateChange::Degraded { reason: DegradedReason::Unreachable, cause };
    let recovered = outage.episodes.lock().current.as_ref().and_then(|it| it.recovered);
    assert_eq!((changes.lock().as_slice(), recovered.is_some()), (&[start][..], true));
    sleep(2 * SECOND).await;
    let end = StateChange::Recovered { degraded: 100, duration: 100 * SECOND };
    assert_eq!(changes.lock().get(1), Some(&end), "without another check");
    outage.note_reply();
    sleep(60 * SECOND).await;
    assert_eq!(changes.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_does_not_end_without_a_reply() {
    let (outage, changes) = counted();
    degrade(&outage);
    sleep(3600 * SECOND).await;
    degrade(&outage);
    outage.note_reply();
    degrade(&outage);
    sleep(3600 * SECOND).await;
    assert_eq!(changes.lock().len(), 1);
    outage.note_reply();
    sleep(SECOND).await;
    let end = StateChange::Recovered { degraded: 3, duration: 7200 * SECOND };
    assert_eq!(changes.lock().get(1), Some(&end));
}

#[tokio::test(start_paused = true)]
async fn servers_that_fail_and_return_in_turn_do_not_flood_the_log() {
    for (up, down) in [(6, 1), (11, 1), (30, 2), (1, 1), (90, 90)] {
        let (outage, changes) = counted();
        let began = Instant::now();
        let mut in_ten_minutes = 0;
        while began.elapsed() < 24 * 3600 * SECOND {
            degrade(&outage);
            sleep(down * SECOND).await;
            outage.note_reply();
            sleep(up * SECOND).await;
            if began.elapsed() < 600 * SECOND {
                in_ten_minutes = changes.lock().len();
            }
        }
        let all = changes.lock().len();
        assert!(in_ten_minutes <= 16, "{in_ten_minutes} reports for {up} s up, {down} s down");
        assert!(all <= 16 + 2 * 24 * 6, "{all} reports for {up} s up, {down} s down");
    }
}

#[tokio::test(start_paused = true)]
async fn each_outage_after_a_long_quiet_time_is_reported() {
    let (outage, changes) = counted();
    for _ in 0..20 {
        degrade(&outage);
        outage.note_reply();
        sleep(QUIET_MAX + 6 * SECOND).await;
    }
    assert_eq!(changes.lock().len(), 40);
}
