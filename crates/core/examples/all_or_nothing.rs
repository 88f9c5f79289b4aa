//! A quota per address and one per user: a request takes from both or from neither.
//!
//! `cargo run -p slidegate --example all_or_nothing`

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::net::Ipv4Addr;
use std::time::Duration;

use slidegate::{
    Ask, Cost, Decision, Error, Limiter, ManualClock, Policy, Quota, RetryAfter, check_all,
};

fn main() -> Result<(), Error> {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let limiter = |name, limit| {
        Limiter::builder(Policy::new(name, Quota::per_minute(limit))?).clock(clock.clone()).build()
    };
    let by_address = limiter("address", 5)?;
    let by_user = limiter("user", 2)?;
    let office = Ipv4Addr::new(192, 0, 2, 1);

    println!("5 per minute per address, 2 per minute per user, all from one address\n");
    for user in ["alice", "alice", "alice", "bob", "bob", "carol", "carol"] {
        let decisions = check_all(&[
            Ask::new(&by_address, &office, Cost::ONE),
            Ask::new(&by_user, user, Cost::ONE),
        ])?;
        let allowed = decisions.iter().all(Decision::is_allowed);
        print!("{user:<6}{}", if allowed { "allow" } else { "deny, because of" });
        // In a denial, the decisions with a wait are the ones that denied.
        for (name, decision) in ["the address", "the user"].iter().zip(&decisions) {
            if decision.retry_after() != RetryAfter::Now {
                print!(" {name}");
            }
        }
        println!();
    }

    // Two separate checks would have charged the address for requests that the user's quota denied.
    // Here, denials took nothing: 5 units for 5 allowed requests.
    println!("\naddress: {} units used", by_address.usage(&office).units(0));
    for user in ["alice", "bob", "carol"] {
        println!("{user}: {} units used", by_user.usage(user).units(0));
    }
    Ok(())
}
