//! Decision times, as the daemon's metrics report them.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;
use crate::rounding::to_float;

/// The histogram of decision times in seconds, over all limits.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    at_most: Vec<(f64, f64)>,
}

const BUCKET: &str = "rate_limit_decision_seconds_bucket{";

/// Reads the metrics of the daemon.
pub(super) async fn read(admin: u16) -> Result<Decisions, Failure> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, admin)).await?;
    let question = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(question.as_bytes()).await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    let decisions = parse(&page);
    if decisions.at_most.is_empty() {
        return Err(format!("the metrics have no {BUCKET}").into());
    }
    Ok(decisions)
}

impl Decisions {
    /// Returns the upper bound of the 99th percentile, in microseconds.
    pub(super) fn p99_us(&self) -> Option<f64> {
        let (_, all) = self.at_most.last()?;
        let bound = self.at_most.iter().find(|(_, count)| *count >= all * 0.99)?;
        Some(bound.0 * 1e6)
    }

    /// Returns the number of decisions.
    pub(super) fn count(&self) -> f64 {
        self.at_most.last().map_or(0.0, |(_, count)| *count)
    }
}

fn parse(page: &str) -> Decisions {
    let mut at_most: Vec<(f64, f64)> = Vec::new();
    for line in page.lines().filter(|line| line.starts_with(BUCKET)) {
        let Some((labels, count)) = line.rsplit_once(' ') else { continue };
        let bound = labels.split("le=\"").nth(1).and_then(|rest| rest.split('"').next());
        let bound = match bound {
            Some("+Inf") => f64::INFINITY,
            Some(bound) => bound.parse().unwrap_or(f64::INFINITY),
            None => continue,
        };
        let count: u64 = count.trim().parse().unwrap_or(0);
        match at_most.iter_mut().find(|(known, _)| known.total_cmp(&bound).is_eq()) {
            Some((_, sum)) => *sum += to_float(count),
            None => at_most.push((bound, to_float(count))),
        }
    }
    at_most.sort_by(|one, other| one.0.total_cmp(&other.0));
    Decisions { at_most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_added_up() {
        let page = "# HELP x\n\
            rate_limit_decision_seconds_bucket{policy=\"a\",le=\"0.000001\"} 90\n\
            rate_limit_decision_seconds_bucket{policy=\"a\",le=\"0.000002\"} 95\n\
            rate_limit_decision_seconds_bucket{policy=\"a\",le=\"+Inf\"} 100\n\
            rate_limit_decision_seconds_bucket{policy=\"b\",le=\"0.000001\"} 10\n\
            rate_limit_decision_seconds_bucket{policy=\"b\",le=\"0.000002\"} 900\n\
            rate_limit_decision_seconds_bucket{policy=\"b\",le=\"+Inf\"} 900\n";
        let decisions = parse(page);
        assert!((decisions.count() - 1000.0).abs() < 0.1);
        assert!((decisions.p99_us().unwrap() - 2.0).abs() < 0.001);
        assert_eq!(parse("").p99_us(), None);
    }
}
