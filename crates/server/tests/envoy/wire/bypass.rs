//! Ways around a limit, tried through a real Envoy in front of the real daemon.
//!
//! Envoy lets a request pass if the rate limit service replies with an error, unless it is configured
//! with `failure_mode_deny: true`. A request that provokes an error therefore lifts its limit.

use crate::process::{Daemon, Folder};

use super::proxy::{Caller, envoy};

/// The limit of every user.
const LIMIT: usize = 5;

/// Starts a daemon with [`LIMIT`] per user, and more that is not limited.
fn daemon(folder: &Folder) -> Daemon {
    let rate = format!("{{unit: hour, requests_per_unit: {LIMIT}}}");
    let text = format!("domain: shop\ndescriptors:\n- key: user\n  rate_limit: {rate}\n");
    Daemon::with_config(&folder.write("shop.yaml", &text))
}

/// Returns how many of twelve requests pass.
async fn passed(caller: &Caller, user: impl AsRef<[u8]>) -> usize {
    let mut passed = 0;
    for _ in 0..12 {
        passed += usize::from(caller.status(&user).await == 200);
    }
    passed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_header_value_lifts_a_limit() {
    let folder = Folder::new("long-values");
    let daemon = daemon(&folder);
    // The last keys match nothing. They make the message larger than any header could alone.
    let envoy = envoy(daemon.grpc, false, &["user", "one", "two", "three"]).await;
    let caller = Caller::new(&envoy);
    let long = |length: usize| "x".repeat(length).into_bytes();
    let mut others = long(40_000);
    others[20_000] = b'y';
    let mut lifted = Vec::new();
    for (name, user) in [
        ("the longest text that is counted as it is", long(1024)),
        ("one byte more", long(1025)),
        ("larger than any key", long(40_000)),
        ("as long, and another user", others),
        ("not UTF-8", b"al\xffice".to_vec()),
    ] {
        match passed(&caller, &user).await {
            LIMIT => {}
            passed => lifted.push((name, passed)),
        }
    }
    assert_eq!(lifted, [], "of 12 requests, {LIMIT} may pass");
}
