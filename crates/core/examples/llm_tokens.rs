//! A token budget for a language model: reserve an estimate, settle the real number.
//!
//! `cargo run -p slidegate --example llm_tokens`

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::time::Duration;

use slidegate::{Error, Limiter, ManualClock, Policy, Quota, RetryAfter};

/// Calls the model if the budget allows it, and charges the tokens that it used.
///
/// `estimate` is the prompt plus the maximum length of the answer. `model` returns the tokens used.
fn ask(limiter: &Limiter, team: &str, estimate: u64, model: fn() -> u64) {
    let decision = limiter.reserve(team, estimate);
    if !decision.is_allowed() {
        match decision.retry_after() {
            RetryAfter::Now => {}
            RetryAfter::After(wait) => {
                println!("reserve {estimate:>5}: deny, retry after {wait:?}");
            }
            // More than the whole limit.
            RetryAfter::Never => println!("reserve {estimate:>5}: deny, it will never fit"),
        }
        return;
    }
    print!("reserve {estimate:>5}: allow, ");
    let used = model();
    if let Some(receipt) = decision.into_receipt() {
        let recorded = limiter.settle(receipt, used);
        print!("used {used:>4}, recorded {recorded:>4}; ");
    }
    println!("the team has used {}", limiter.usage(team).units(0));
}

fn main() -> Result<(), Error> {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let policy = Policy::new("model", Quota::per_minute(10_000))?;
    let limiter = Limiter::builder(policy).clock(clock.clone()).build()?;

    println!("10000 units per minute; a unit is a token of the model\n");

    println!("If the estimate was too high, the rest is refunded:");
    ask(&limiter, "search", 4_000, || 1_200);

    println!("\nIf it was too low, the rest is recorded as debt, even above the limit:");
    clock.advance(Duration::from_secs(20));
    ask(&limiter, "search", 8_000, || 9_500);

    println!("\nDebt expires with time; `retry_after` includes it:");
    ask(&limiter, "search", 500, || 500);
    ask(&limiter, "search", 20_000, || 0);

    println!("\nAfter 40 s the first 1200 have expired:");
    clock.advance(Duration::from_secs(40));
    ask(&limiter, "search", 500, || 350);

    println!("\nA failed call is refunded:");
    ask(&limiter, "search", 100, || 0);
    Ok(())
}
