//! What one workload took.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use crate::Failure;

/// What one workload took. Written as `name=value` words from the child to its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measurement {
    /// Resident at the end, all in: program, stacks, allocator and tables.
    pub(crate) rss: u64,
    /// Resident before the limiter existed.
    pub(crate) idle: u64,
    /// Resident at the highest point.
    pub(crate) peak: u64,
    /// What the limiter itself says it holds.
    pub(crate) accounted: Option<u64>,
    /// Units that count at the end, over all keys.
    pub(crate) entries: u64,
    /// Milliseconds of requests: filling and churn.
    pub(crate) millis: u64,
    /// Seconds it ran.
    pub(crate) seconds: u64,
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rss, idle, peak, accounted, entries, millis, seconds } = self;
        write!(f, "rss={rss} idle={idle} peak={peak} entries={entries} ")?;
        write!(f, "millis={millis} seconds={seconds}")?;
        accounted.map_or(Ok(()), |accounted| write!(f, " accounted={accounted}"))
    }
}

impl FromStr for Measurement {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let words: BTreeMap<&str, &str> =
            line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let value = |name: &str| -> Result<u64, Failure> {
            let value = words.get(name).ok_or_else(|| format!("no {name} in {line:?}"))?;
            Ok(value.parse()?)
        };
        Ok(Self {
            rss: value("rss")?,
            idle: value("idle")?,
            peak: value("peak")?,
            accounted: value("accounted").ok(),
            entries: value("entries")?,
            millis: value("millis")?,
            seconds: value("seconds")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let measurement = Measurement {
            rss: 1,
            idle: 2,
            peak: 3,
            accounted: Some(4),
            entries: 5,
            millis: 6,
            seconds: 7,
        };
        assert_eq!(measurement.to_string().parse::<Measurement>().unwrap(), measurement);
        let silent = Measurement { accounted: None, ..measurement };
        assert_eq!(silent.to_string().parse::<Measurement>().unwrap(), silent);
        assert!("rss=1".parse::<Measurement>().is_err());
    }
}
