//! Five failed logins per minute: only failures count.
//!
//! `cargo run -p slidegate --example login_guard`

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use slidegate::{Error, Limiter, ManualClock, Policy, Quota};

/// The result of a login.
enum Login {
    Welcome,
    WrongPassword { tries_left: u64 },
    TooManyFailures { retry_after: Duration },
}

/// Takes a unit *before* the password is checked and refunds it if the password was right.
///
/// If failures were counted only afterwards, any number of parallel guesses could pass before the
/// first one is counted.
fn login(guard: &Limiter, user: &str, from: IpAddr, is_right: impl FnOnce() -> bool) -> Login {
    let decision = guard.check(&(user, from));
    if !decision.is_allowed() {
        let retry_after = decision.retry_after().duration().unwrap_or(Duration::MAX);
        return Login::TooManyFailures { retry_after };
    }
    let tries_left = decision.remaining();
    if !is_right() {
        return Login::WrongPassword { tries_left };
    }
    if let Some(receipt) = decision.into_receipt() {
        guard.refund(receipt);
    }
    Login::Welcome
}

fn main() -> Result<(), Error> {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let policy = Policy::new("login", Quota::per_minute(5))?;
    let guard = Limiter::builder(policy).clock(clock.clone()).build()?;
    let from = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    println!("five failures per minute\n");
    // Right passwords cost nothing.
    for _ in 0..100 {
        login(&guard, "alice", from, || true);
    }
    println!("100 right passwords: {} units used", guard.usage(&("alice", from)).units(0));

    for second in 0..7 {
        // The fourth is right, and its unit is refunded. The last is right too, but too late.
        let is_right = second == 3 || second == 6;
        let answer = login(&guard, "alice", from, || is_right);
        let typed = if is_right { "right" } else { "wrong" };
        println!("second {second:>2}, {typed} password: {}", words(&answer));
        clock.advance(Duration::from_secs(1));
    }

    // At second 60, the first failure is a minute old.
    clock.advance(Duration::from_secs(53));
    let answer = login(&guard, "alice", from, || true);
    println!("second 60, right password: {}", words(&answer));
    Ok(())
}

fn words(answer: &Login) -> String {
    match answer {
        Login::Welcome => "welcome".to_owned(),
        Login::WrongPassword { tries_left } => format!("wrong, {tries_left} tries left"),
        Login::TooManyFailures { retry_after } => {
            format!("not checked, retry after {retry_after:?}")
        }
    }
}
