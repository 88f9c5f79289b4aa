//! The arguments of `bench`.

use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use slidegate::{Algorithm, Quota, parse_duration};

/// The arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct BenchArguments {
    /// What to measure: http://HOST:PORT, grpc://HOST:PORT, resp://HOST:PORT or redis://HOST:PORT. Any other HTTP URL
    /// works too: there, status 429 is a denial, and `{key}` is replaced by the key.
    pub(super) target: String,
    /// The policy of a slidegate daemon, for http and resp. Without it, an HTTP URL is used as it is.
    #[arg(long, value_name = "NAME")]
    pub(super) policy: Option<String>,
    /// The domain, for grpc.
    #[arg(long, value_name = "NAME")]
    pub(super) domain: Option<String>,
    /// The descriptor entry with the key, for grpc.
    #[arg(long, value_name = "NAME", default_value = "key")]
    pub(super) entry: String,
    /// The algorithm, for redis.
    #[arg(long, value_name = "NAME", default_value = "log", value_parser = parse_algorithm)]
    pub(super) algorithm: Algorithm,
    /// A header field, for http: 'x-api-key: {key}'.
    #[arg(long = "header", value_name = "FIELD")]
    pub(super) headers: Vec<String>,
    /// The limit of every key, such as 10/minute, to find wrong decisions. With several, a request must fit into all.
    #[arg(long = "quota", value_name = "QUOTA", value_parser = parse_quota, value_delimiter = ',')]
    pub(super) quotas: Vec<Quota>,
    /// Requests per second, whether earlier ones were answered or not (open loop). Without it, every connection sends
    /// the next request when the last was answered (closed loop).
    #[arg(long, value_name = "REQUESTS")]
    pub(super) rate: Option<f64>,
    /// How long to send requests.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub(super) duration: Duration,
    /// Connections, each with one request in flight.
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) connections: u16,
    /// The longest time to wait for an answer.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    pub(super) deadline: Duration,
    /// The number of keys.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keys: u32,
    /// How keys are drawn.
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(super) distribution: Distribution,
    /// The exponent of `--distribution zipf`.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    pub(super) zipf: f64,
    /// The percentage of requests for the hot key of `--distribution hot`.
    #[arg(long, value_name = "PERCENT", default_value_t = 90.0)]
    pub(super) hot: f64,
    /// The percentage of requests to be denied: sets the number of keys by rate and quota.
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "rate",
        requires = "quotas",
        conflicts_with = "keys"
    )]
    pub(super) denials: Option<f64>,
    /// The beginning of all keys. Default: another one in every run, so that no key was used before.
    #[arg(long, value_name = "TEXT", value_parser = parse_prefix)]
    pub(super) key_prefix: Option<String>,
    /// How much longer than its window a request may count before a denial is reported as wrong.
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_time)]
    pub(super) tolerance: Duration,
    /// Makes the sequence of keys repeatable.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Write the report with plots to this file.
    #[arg(long, value_name = "PATH")]
    pub(super) html: Option<PathBuf>,
}

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Distribution {
    /// All keys are equally frequent.
    Uniform,
    /// A few keys are frequent, most are rare.
    Zipf,
    /// One key has most of the requests.
    Hot,
}

fn parse_quota(text: &str) -> Result<Quota, String> {
    text.parse().map_err(|error: slidegate::Error| error.to_string())
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    text.replace('=', ":").parse().map_err(|error: slidegate::Error| error.to_string())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// Keys are part of URLs and header fields.
fn parse_prefix(text: &str) -> Result<String, String> {
    let is_usable = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    if text.len() <= 200 && text.chars().all(is_usable) {
        Ok(text.to_owned())
    } else {
        Err("use at most 200 letters, digits and -_.:".to_owned())
    }
}
