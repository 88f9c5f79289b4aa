//! Client and server together: a client that always wants more, paced by what the server tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use slidegate::{Policy, Quota};
use slidegate_client::Pacer;

use crate::server::{Seen, Server, client};

const LIMIT: u64 = 100;
const WINDOW: Duration = Duration::from_secs(2);
const WORKERS: usize = 16;
const WINDOWS: u32 = 4;
const ROUNDS: usize = 3;

/// Lets workers ask for as much as they can get, for some windows.
async fn round() -> Vec<Seen> {
    let quota = Quota::new(LIMIT, WINDOW).unwrap();
    let server = Server::limited(Policy::new("api", quota).unwrap()).await;
    let client = client(&Pacer::new());
    let is_over = Arc::new(AtomicBool::new(false));
    let worker = || {
        let (client, is_over, url) = (client.clone(), Arc::clone(&is_over), server.url());
        tokio::spawn(async move {
            // Ordering: whoever sees it late sends one request more.
            while !is_over.load(Ordering::Relaxed) {
                client.get(&url).send().await.unwrap();
            }
        })
    };
    let workers: Vec<_> = (0..WORKERS).map(|_| worker()).collect();
    tokio::time::sleep(WINDOW * WINDOWS).await;
    is_over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    server.seen()
}

// The client aims at 95 % of the limit. Of what it sends, at least 99 % must be let in, and what is
// let in must be at least 90 % of the limit. Fifty a second is little for any machine, but one that
// stands still for a tenth of a second delays requests by more than any margin; so there are some
// rounds.
#[tokio::test]
async fn nearly_nothing_is_refused_and_nearly_all_of_the_limit_is_used() {
    let mut reports = Vec::new();
    for _ in 0..ROUNDS {
        let seen = round().await;
        let end = seen[0].at + WINDOW * WINDOWS;
        let within: Vec<&Seen> = seen.iter().filter(|seen| seen.at < end).collect();
        let allowed = within.iter().filter(|seen| seen.status == StatusCode::OK).count();
        let (all, limit) = (within.len(), usize::try_from(LIMIT * u64::from(WINDOWS)).unwrap());
        let report = format!("{allowed} of {all} let in, {limit} would be all of the limit");
        println!("{report}");
        if allowed * 100 >= all * 99 && allowed * 10 >= limit * 9 {
            return;
        }
        reports.push(report);
    }
    unreachable!("too little or too much refused in every round: {reports:?}");
}
