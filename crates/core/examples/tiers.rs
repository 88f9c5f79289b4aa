//! Other quotas for some keys: free and paying customers with one limiter.
//!
//! `cargo run -p slidegate --example tiers`

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::time::Duration;

use slidegate::{Decision, Error, Limiter, ManualClock, Policy, Quota, RetryAfter, Tier};

/// The plan of a customer, from a database.
enum Plan {
    Free,
    Gold,
}

/// One limiter for all plans. Tiers are created once and used often.
struct Gate {
    limiter: Limiter,
    gold: Tier,
}

impl Gate {
    fn new(clock: ManualClock) -> Result<Self, Error> {
        let quotas = [Quota::per_second(2), Quota::per_minute(3)];
        let policy = Policy::builder("api").quotas(quotas).build()?;
        let limiter = Limiter::builder(policy).clock(clock).build()?;
        // The same number of quotas as the policy. With the log, fewer are possible.
        let gold = limiter.tier(&[Quota::per_second(5), Quota::per_minute(20)])?;
        Ok(Self { limiter, gold })
    }

    fn check(&self, customer: &str, plan: &Plan) -> Result<Decision, Error> {
        Ok(match plan {
            Plan::Free => self.limiter.check(customer),
            Plan::Gold => self.limiter.with(&self.gold)?.check(customer),
        })
    }
}

fn main() -> Result<(), Error> {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let gate = Gate::new(clock.clone())?;

    println!("free: 2 per second and 3 per minute; gold: 5 per second and 20 per minute\n");
    for (customer, plan) in [("alice", Plan::Free), ("bob", Plan::Gold)] {
        for number in 1..=6 {
            show(customer, number, &gate.check(customer, &plan)?);
        }
    }

    println!("\nalice pays. Her recorded units still count:");
    show("alice", 7, &gate.check("alice", &Plan::Gold)?);
    println!("\nShe returns to free. Three units of the last minute count:");
    show("alice", 8, &gate.check("alice", &Plan::Free)?);
    clock.advance(Duration::from_secs(60));
    println!("\nA minute later:");
    show("alice", 9, &gate.check("alice", &Plan::Free)?);
    Ok(())
}

fn show(customer: &str, number: u32, decision: &Decision) {
    let word = if decision.is_allowed() { "allow" } else { "deny" };
    print!("  {customer:<5} request {number}: {word:<5}");
    for quota in decision.quotas() {
        print!("  {} of {} left", quota.remaining(), quota.limit());
    }
    if let RetryAfter::After(wait) = decision.retry_after() {
        print!("  retry after {wait:?}");
    }
    println!();
}
