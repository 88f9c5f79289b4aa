use slidegate::{Limiter, Policy, Quota};

struct Account {
    id: u64,
}

fn main() -> Result<(), slidegate::Error> {
    let limiter = Limiter::new(Policy::new("api", Quota::per_minute(100))?)?;
    let account = Account { id: 7 };
    let _ = limiter.check(&account);
    let _ = limiter.check(&("login", 1.5));
    let _ = limiter.check(&account.id);
    Ok(())
}
