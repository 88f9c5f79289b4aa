//! The exact history of a key.
//!
//! `cargo run -p slidegate --example audit`

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::time::Duration;

use slidegate::{Algorithm, Cost, Error, Limiter, ManualClock, Policy, Quota};

const START: Duration = Duration::from_secs(1_700_000_000);

fn main() -> Result<(), Error> {
    let clock = ManualClock::new(START);
    let policy = Policy::new("exports", Quota::per_hour(10))?;
    let limiter = Limiter::builder(policy).clock(clock.clone()).build()?;

    println!("Limit: 10 units per hour.\n");
    for (minute, cost) in [(0, 3), (10, 1), (10, 1), (25, 4), (40, 2)] {
        clock.set(START + Duration::from_secs(minute * 60));
        let decision = limiter.check_cost("alice", Cost::new(cost)?);
        let word = if decision.is_allowed() { "allow" } else { "deny" };
        println!("minute {minute:>2}: cost {cost}, {word}, {} left", decision.remaining());
    }

    println!("\nEntries that count at minute 40, without denied requests:");
    show(&limiter)?;

    clock.set(START + Duration::from_secs(3600));
    println!("\nAt minute 60, the first entry has expired:");
    show(&limiter)?;

    // Counters do not store times.
    let policy = Policy::builder("exports").quota(Quota::per_hour(10));
    let counter = Limiter::new(policy.algorithm(Algorithm::Counter).build()?)?;
    if let Err(error) = counter.history("alice") {
        println!("\nA counter has no history: {error}");
    }
    Ok(())
}

fn show(limiter: &Limiter) -> Result<(), Error> {
    for event in limiter.history("alice")? {
        // Times are since the Unix epoch, in ticks of 1 ms.
        let minute = event.at.saturating_sub(START).as_secs() / 60;
        println!("  {} ms (minute {minute}): {}", event.at.as_millis(), event.units);
    }
    println!("  in all: {}", limiter.usage("alice").units(0));
    Ok(())
}
