//! Instructions and allocations per request, counted with valgrind in the server's process.
//!
//! One connection sends one request after the other. The counts of a run are subtracted from those of
//! a run with twice as many requests, so that start and shutdown of the server cancel out.

use super::load_client::LoadClient;
use super::process::Wrapper;
use super::program::Programs;
use super::subject::ServerKind;
use super::workload::Protocol;
use crate::Failure;
use crate::rounding::to_float;

/// What a request costs a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) instructions: f64,
    pub(super) allocations: f64,
    pub(super) allocated_bytes: f64,
}

/// Counts over `asks` requests.
pub(super) async fn count(
    which: ServerKind,
    protocol: Protocol,
    programs: &Programs,
    asks: u64,
) -> Result<Cost, Failure> {
    let each = to_float(asks * protocol.batch());
    let per_request = |[short, long]: [f64; 2]| (long - short) / each;
    let mut instructions = [0.0; 2];
    let (mut blocks, mut bytes) = ([0.0; 2], [0.0; 2]);
    for (place, asks) in [asks, asks * 2].into_iter().enumerate() {
        let report = run(which, protocol, programs, Wrapper::Callgrind, asks).await?;
        instructions[place] = number_after(&report, "Collected :")?;
        let report = run(which, protocol, programs, Wrapper::Dhat, asks).await?;
        (bytes[place], blocks[place]) = total(&report)?;
    }
    Ok(Cost {
        instructions: per_request(instructions),
        allocations: per_request(blocks),
        allocated_bytes: per_request(bytes),
    })
}

/// Returns what valgrind reports for a server after this number of requests.
async fn run(
    which: ServerKind,
    protocol: Protocol,
    programs: &Programs,
    wrapper: Wrapper,
    asks: u64,
) -> Result<String, Failure> {
    let server = which.start(programs, 1, wrapper).await?;
    let mut line = LoadClient::open_one(which, protocol, &server).await?;
    for _ in 0..asks {
        line.ask().await?;
    }
    drop(line);
    server.end()
}

/// Bytes and blocks of a line such as `==4711== Total:     1,234 bytes in 56 blocks`, which others with
/// what was left at the end come after.
fn total(report: &str) -> Result<(f64, f64), Failure> {
    let line = report.lines().find(|line| line.contains("Total:"));
    let line = line.ok_or_else(|| format!("valgrind did not say a total:\n{report}"))?;
    Ok((number_after(line, "Total:")?, number_after(line, "bytes in")?))
}

/// The number behind a label.
pub(super) fn number_after(report: &str, label: &str) -> Result<f64, Failure> {
    let missing = || format!("valgrind did not say {label:?}:\n{report}");
    let (_, rest) = report.rsplit_once(label).ok_or_else(missing)?;
    let word = rest.split_whitespace().next().ok_or_else(missing)?;
    Ok(word.replace(',', "").parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found() {
        let report = "==7== Total:     1,234 bytes in 56 blocks\n==7== At t-end:  78 bytes in 9 \
                      blocks\n==7== Collected : 48297\n";
        let (bytes, blocks) = total(report).unwrap();
        let instructions = number_after(report, "Collected :").unwrap();
        let found = [bytes, blocks, instructions].map(|number| number.to_string());
        assert_eq!(found, ["1234", "56", "48297"]);
        assert!(number_after(report, "lost").is_err());
        assert!(total("==7== Collected : 1").is_err());
    }
}
