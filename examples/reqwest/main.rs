//! A reqwest client that stays within the limit of the server that it calls: see README.md.

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;

use reqwest_middleware::ClientBuilder;
use slidegate_client::{Pacer, PacingMiddleware, PacingReport};

/// Sends a number of requests at once.
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:3000/".to_owned());
    let count: usize = arguments.next().map_or(Ok(12), |count| count.parse())?;

    // One pacer for all clients of a program: they share what one of them learns.
    let pacer = Pacer::new();
    let client = ClientBuilder::new(reqwest::Client::builder().no_proxy().build()?)
        .with(PacingMiddleware::new(pacer.clone()))
        .build();
    let requests: Vec<_> = (0..count).map(|_| tokio::spawn(client.get(&url).send())).collect();
    for request in requests {
        let response = request.await??;
        let attempts = response.extensions().get::<PacingReport>().map(|report| report.attempts);
        println!("{}, attempts: {}", response.status(), attempts.unwrap_or_default());
    }
    println!("{:?}", pacer.stats());
    Ok(())
}
