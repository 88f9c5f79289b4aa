//! A reqwest client that stays within the limit of a server. Both are in this program.
//!
//! `cargo run -p slidegate-client --example reqwest_client`

#![expect(clippy::print_stdout, reason = "the example shows what comes back")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use slidegate::{Clock, Limiter, MonotonicClock, Policy, Quota};
use slidegate_client::{Pacer, PacingMiddleware, PacingReport, Settings};
use slidegate_http::{Body, Fields, PolicyDecision, Problem};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = serve(Policy::new("api", Quota::new(5, Duration::from_secs(1))?)?).await?;

    println!("Five per second. Twelve requests at once, paced:");
    let pacer = Pacer::new();
    send(&client(&pacer)?, &url, 12).await?;
    println!("  {:?}", pacer.stats());

    println!(
        "The same without pacing: refused, and retried after the server's time, within a budget:"
    );
    let settings = Settings::builder().pacing(false).learn_first(Duration::ZERO).build()?;
    let pacer = Pacer::builder().settings(settings).build();
    send(&client(&pacer)?, &url, 12).await?;
    println!("  {:?}", pacer.stats());
    Ok(())
}

fn client(pacer: &Pacer) -> Result<ClientWithMiddleware, reqwest::Error> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    Ok(ClientBuilder::new(client).with(PacingMiddleware::new(pacer.clone())).build())
}

async fn send(
    client: &ClientWithMiddleware,
    url: &str,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let clock = MonotonicClock::new();
    let start = clock.now();
    let requests: Vec<_> =
        (1..=count).map(|number| (number, tokio::spawn(client.get(url).send()))).collect();
    for (number, request) in requests {
        let response = request.await??;
        let attempts =
            response.extensions().get::<PacingReport>().map_or(0, |paced| paced.attempts);
        let millis = Duration::from_nanos(clock.now() - start).as_millis();
        let status = response.status();
        println!("  {millis:>4} ms  request {number}: {status}, attempts: {attempts}");
    }
    Ok(())
}

/// Starts a server on loopback that enforces a policy. Returns its address.
async fn serve(policy: Policy) -> Result<String, Box<dyn Error>> {
    let limiter = Arc::new(Limiter::new(policy)?);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let app = Router::new().fallback(answer).with_state(limiter);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

async fn answer(State(limiter): State<Arc<Limiter>>) -> Response {
    let decision = limiter.check("all");
    let decisions = [PolicyDecision::new(limiter.policy(), &decision)];
    let mut response = match Problem::of(&decisions) {
        Some(problem) => problem.response(Body::Problem).map(Into::into),
        None => Response::new("hello\n".into()),
    };
    Fields::new().write(&decisions, now(), response.headers_mut());
    response
}

#[expect(clippy::disallowed_methods, reason = "a server sends the real time")]
fn now() -> SystemTime {
    SystemTime::now()
}
