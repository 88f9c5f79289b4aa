//! An exact sliding window compared with a fixed one, under a boundary attack.
//!
//! `cargo run -p slidegate --example basic`

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::time::Duration;

use slidegate::{Algorithm, Decision, Error, Limiter, ManualClock, Policy, Quota, RetryAfter};

/// The start of a minute, so that the table below starts at 0:00.
const MINUTE: Duration = Duration::from_secs(28_333_334 * 60);

fn main() -> Result<(), Error> {
    // A clock that the example controls. Without `.clock(..)`, the limiter uses the machine's
    // clock.
    let clock = ManualClock::new(MINUTE);
    let quota = Quota::per_minute(5);
    let exact = Limiter::builder(Policy::new("exact", quota)?).clock(clock.clone()).build()?;
    let aligned = Policy::builder("fixed").quota(quota).algorithm(Algorithm::Fixed).build()?;
    let fixed = Limiter::builder(aligned).clock(clock.clone()).build()?;

    println!("Limit: 5 per minute. Five requests at 0:58, five more at 1:02.\n");
    println!("         exact log                         fixed window");
    println!("time     decision remaining retry_after    decision remaining retry_after");
    let (mut by_log, mut by_fixed) = (0, 0);
    for at in [58, 62] {
        clock.set(MINUTE + Duration::from_secs(at));
        for _ in 0..5 {
            let (log, leaky) = (exact.check("alice"), fixed.check("alice"));
            println!("{}:{:02}     {}    {}", at / 60, at % 60, row(&log), row(&leaky));
            by_log += u32::from(log.is_allowed());
            by_fixed += u32::from(leaky.is_allowed());
        }
    }
    println!("\nWithin four seconds, the log allowed {by_log}, the fixed window {by_fixed}.\n");

    println!("`retry_after` is exact to the tick of 1 ms:");
    let wait = exact.check("alice").retry_after().duration().unwrap_or_default();
    clock.advance(wait.saturating_sub(Duration::from_millis(1)));
    println!("  one tick before it is over: {}", word(&exact.check("alice")));
    clock.advance(Duration::from_millis(1));
    println!("  when it is over:            {}", word(&exact.check("alice")));
    Ok(())
}

fn row(decision: &Decision) -> String {
    let wait = match decision.retry_after() {
        RetryAfter::Now => "-".to_owned(),
        RetryAfter::After(wait) => format!("{wait:?}"),
        RetryAfter::Never => "never".to_owned(),
    };
    format!("{:<8} {:>9} {wait:>11}", word(decision), decision.remaining())
}

fn word(decision: &Decision) -> &'static str {
    if decision.is_allowed() { "allow" } else { "deny" }
}
