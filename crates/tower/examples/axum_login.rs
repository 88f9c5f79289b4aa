//! A login page: five failures per minute for each user and address. Successful logins are not
//! counted.
//!
//! `cargo run -p slidegate-tower --example axum_login`

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::post;
use http::{HeaderMap, Request, StatusCode};
use slidegate::{Limiter, ManualClock, Policy, Quota};
use slidegate_tower::{Count, KeyBy, RateLimitLayer, Rule};
use tower::ServiceExt;

async fn login(headers: HeaderMap) -> StatusCode {
    let is_right = headers.get("x-password").is_some_and(|password| password == "correct horse");
    if is_right { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED }
}

fn app(clock: &ManualClock) -> Result<Router, slidegate::Error> {
    let policy = Policy::new("login", Quota::per_minute(5))?;
    let limiter = Limiter::builder(policy).clock(clock.clone()).build()?;
    // By name and address: with the name alone, an attacker could lock the user out.
    let gate =
        Rule::new(limiter).key(KeyBy::header("x-user").and(KeyBy::peer())).count(Count::failed());
    Ok(Router::new().route("/login", post(login)).route_layer(RateLimitLayer::new(gate)?))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let app = app(&clock)?;

    println!("five failures per minute\n");
    for _ in 0..100 {
        try_to_log_in(&app, "correct horse").await?;
    }
    println!("100 right passwords: {}", try_to_log_in(&app, "correct horse").await?);
    for number in 1..=6 {
        println!("wrong password {number}: {}", try_to_log_in(&app, "guess").await?);
    }
    println!("right password, too late: {}", try_to_log_in(&app, "correct horse").await?);
    clock.advance(Duration::from_secs(60));
    println!("a minute later: {}", try_to_log_in(&app, "correct horse").await?);
    Ok(())
}

async fn try_to_log_in(app: &Router, password: &str) -> Result<String, Box<dyn Error>> {
    let peer: SocketAddr = "192.0.2.7:4711".parse()?;
    let request = Request::post("/login")
        .header("x-user", "alice")
        .header("x-password", password)
        .extension(ConnectInfo(peer))
        .body(Body::empty())?;
    let response = app.clone().oneshot(request).await?;
    let left = response.headers().get("x-ratelimit-remaining");
    let left = left.and_then(|left| left.to_str().ok()).unwrap_or("-");
    Ok(format!("{}, {left} left", response.status()))
}
