//! The arguments of `plan`.

use clap::{Args, ValueEnum};
use slidegate::{Algorithm, Quota};

/// The arguments of `plan`.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct PlanArguments {
    /// Keys that send requests within one window: 500, 20k, 10M.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(super) keys: u64,
    /// Requests of each key, on average: 5/s, 100/minute, 1k/min. The window of the limit is the same.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(super) rate: Quota,
    /// Where the counts are stored.
    #[arg(long, value_enum, default_value_t = PlanStore::Memory)]
    pub(super) store: PlanStore,
    /// The algorithm.
    #[arg(long, value_name = "NAME", default_value = "log", value_parser = parse_algorithm)]
    pub(super) algorithm: Algorithm,
    /// The percentage of requests that are denied. They are not recorded, but are calls to Redis, unless --processes is set.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub(super) denied: u8,
    /// Processes that call Redis, to subtract the denials of their deny caches. A denial is cached for up to 100 ms.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) processes: Option<u32>,
    /// The memory of one node, in GB.
    #[arg(long, value_name = "GB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) node_memory: u32,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Where the counts are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PlanStore {
    /// The memory of one process.
    Memory,
    /// One Redis, or the primaries of a cluster.
    Redis,
}

/// The most keys that are planned for, a thousand times the addresses of IPv4.
const KEYS_MAX: u64 = 1 << 42;

fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("use a whole number, such as 500, 20k, 10M or 2G, up to {KEYS_MAX}");
    scaled(text).filter(|count| (1..=KEYS_MAX).contains(count)).ok_or_else(wrong)
}

/// Returns a whole number that may end in `k`, `M` or `G`.
fn scaled(text: &str) -> Option<u64> {
    let scales = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let scale = scales.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (digits, scale) = scale.unwrap_or((text, 1));
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(scale)
}

/// Parses a quota, with a scaled limit and short names of windows.
fn parse_rate(text: &str) -> Result<Quota, String> {
    let wrong = || format!("invalid rate {text:?}: use 5/s, 100/minute, 1k/min or 20/10s");
    let (limit, window) = text.split_once('/').ok_or_else(wrong)?;
    let limit = scaled(limit.trim()).filter(|limit| *limit > 0).ok_or_else(wrong)?;
    let window = match window.trim() {
        "sec" => "second",
        "min" => "minute",
        "hr" => "hour",
        other => other,
    };
    format!("{limit}/{window}").parse().map_err(|_| wrong())
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    text.replace('=', ":").parse().map_err(|error: slidegate::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_have_a_unit() {
        let counts = ["1", "20k", "10M", "2G", "1_000"].map(|text| parse_count(text).ok());
        assert_eq!(counts, [1, 20_000, 10_000_000, 2_000_000_000, 1000].map(Some));
        for wrong in ["", "0", "-1", "10 M", "1.5k", "M", "99999999999999G"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_quotas_with_short_names() {
        assert_eq!(parse_rate("1k/min"), Ok(Quota::per_minute(1000)));
        assert_eq!(parse_rate("5/s"), Ok(Quota::per_second(5)));
        for wrong in ["5", "0/s", "5/fortnight", "k/min", "5/0s"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
