//! A client that always has more to send, paced by the fields of a limited server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use slidegate::{Policy, Quota};

use crate::server::{Driver, ReceivedRequest, Server, client};

const LIMIT: u64 = 100;
const WINDOW: Duration = Duration::from_secs(2);
const WORKERS: usize = 16;
const WINDOWS: u32 = 4;

/// Lets workers send as much as they can for some windows.
async fn saturate() -> Vec<ReceivedRequest> {
    let quota = Quota::new(LIMIT, WINDOW).unwrap();
    let server = Server::limited(Policy::new("api", quota).unwrap()).await;
    let pacer = server.pacer().build();
    let client = client(&pacer);
    let is_over = Arc::new(AtomicBool::new(false));
    let worker = || {
        let (client, is_over, url) = (client.clone(), Arc::clone(&is_over), server.url());
        tokio::spawn(async move {
            // Ordering: a worker that sees it late sends one more request.
            while !is_over.load(Ordering::Relaxed) {
                client.get(&url).send().await.unwrap();
            }
        })
    };
    let workers: Vec<_> = (0..WORKERS).map(|_| worker()).collect();
    let driver = Driver::new(&pacer);
    let end = server.clock.since_epoch() + WINDOW * WINDOWS;
    while server.clock.since_epoch() < end {
        driver.step(WORKERS).await;
    }
    is_over.store(true, Ordering::Relaxed);
    driver.finish(workers).await;
    server.seen()
}

// The client aims at 95 % of the limit. At least 99 % of its requests must be allowed, and the
// allowed ones must be at least 90 % of the limit.
#[tokio::test(start_paused = true)]
async fn few_requests_are_refused_and_most_of_the_limit_is_used() {
    let seen = saturate().await;
    let end = seen[0].at + WINDOW * WINDOWS;
    let within: Vec<&ReceivedRequest> = seen.iter().filter(|seen| seen.at < end).collect();
    let allowed = within.iter().filter(|seen| seen.status == StatusCode::OK).count();
    let (all, limit) = (within.len(), usize::try_from(LIMIT * u64::from(WINDOWS)).unwrap());
    let report = format!("{allowed} of {all} allowed, the limit is {limit}");
    println!("{report}");
    assert!(allowed * 100 >= all * 99, "{report}");
    assert!(allowed * 10 >= limit * 9, "{report}");
}
