//! Throughput: every client sends its next request as soon as it has a reply (a closed model).

use core::time::Duration;

use tokio::task::JoinSet;

use super::load_client::LoadClient;
use super::process::Server;
use crate::Failure;
use crate::clock;
use crate::rounding::to_float;

/// The result of one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lap {
    /// Requests per second; a pipeline counts as one.
    pub(super) asks_per_second: f64,
    /// Processor time of the server for each, in microseconds.
    pub(super) cpu_us: f64,
}

/// Sends requests over all connections for `time`.
pub(super) async fn lap(
    lines: &mut Vec<LoadClient>,
    server: &Server,
    time: Duration,
) -> Result<Lap, Failure> {
    let (began, cpu) = (clock::instant(), server.cpu()?);
    let mut tasks = JoinSet::new();
    for mut line in lines.drain(..) {
        tasks.spawn(async move {
            let mut asks = 0_u64;
            while began.elapsed() < time {
                line.ask().await?;
                asks += 1;
            }
            Ok::<_, String>((line, asks))
        });
    }
    let mut asks = 0;
    while let Some(done) = tasks.join_next().await {
        let (line, more) = done??;
        lines.push(line);
        asks += more;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), server.cpu()? - cpu);
    let asks = to_float(asks.max(1));
    Ok(Lap { asks_per_second: asks / took, cpu_us: cpu * 1e6 / asks })
}
