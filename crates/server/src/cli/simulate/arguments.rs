//! The arguments of `simulate`.

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use slidegate::{Algorithm, Quota, parse_duration};
use slidegate_sim::advice::Goal;
use slidegate_sim::read::{KeyTemplate, LinePattern, LogFormat};

/// The arguments of `simulate`.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct SimulateArguments {
    /// Access logs or traces, plain or compressed with gzip or zstd. Patterns such as `logs/*.gz` work too;
    /// `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<String>,
    /// The limit, such as 10/minute. With several, a request must fit into all of them.
    #[arg(long = "quota", value_name = "QUOTA", value_parser = parse_quota, value_delimiter = ',')]
    pub(super) quotas: Vec<Quota>,
    /// What requests are counted by: client, user, route, path, method, host, status, or a text with fields
    /// in braces. Default: client, or the group `key` of --pattern.
    #[arg(long, value_name = "KEY", value_parser = KeyTemplate::parse)]
    pub(super) key: Option<KeyTemplate>,
    /// Generate requests instead of reading files: a pattern with parameters, such as
    /// poisson:requests=1000000,keys=1000,rate=500,zipf=1.1,seed=7.
    #[arg(long, value_name = "PATTERN", conflicts_with = "files")]
    pub(super) traffic: Option<String>,
    /// Algorithms to compare. Default: log, counter, segments with 2, 10 and 60, gcra, fixed.
    #[arg(long = "algorithm", value_name = "NAME", value_parser = parse_algorithm, value_delimiter = ',')]
    pub(super) algorithms: Vec<Algorithm>,
    /// Other limits to try with the first algorithm: 50/minute,100/minute.
    #[arg(long, value_name = "QUOTA", value_parser = parse_quota, value_delimiter = ',')]
    pub(super) what_if: Vec<Quota>,
    /// Replay the logs through all rules of a configuration file of the daemon, instead of --quota. Several
    /// files of one configuration are separated by commas.
    #[arg(
        long,
        value_name = "FILE",
        value_delimiter = ',',
        conflicts_with_all = ["quotas", "key", "traffic", "algorithms", "what_if", "advise"]
    )]
    pub(super) config: Vec<PathBuf>,
    /// A second configuration file, to compare with that of --config.
    #[arg(long, value_name = "FILE", value_delimiter = ',', requires = "config")]
    pub(super) compare: Vec<PathBuf>,
    /// Find the smallest limit per window of --quota that denies at most a share of the requests or of the
    /// keys: requests=0.1%, keys=1%. Print a configuration with it.
    #[arg(long, value_name = "GOAL", value_parser = parse_goal, value_delimiter = ',')]
    pub(super) advise: Vec<Goal>,
    #[command(flatten)]
    pub(super) reading: ReadArguments,
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Write the report as one HTML file with plots, in addition to the table or JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Draw how many requests of the busiest key were allowed within the last window, as SVG. For at most
    /// 500 requests.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(super) svg: Option<PathBuf>,
    /// Denied keys to report per algorithm, at most 100.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(super) top: u16,
}

/// How logs are read.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct ReadArguments {
    /// The format of the files: common, combined, json, csv or trace. By default it is detected.
    #[arg(long, value_name = "NAME", value_parser = parse_format)]
    pub(super) format: Option<LogFormat>,
    /// A regular expression for other formats, with the named groups `time` and `key`, and optionally
    /// `client`, `user`, `method`, `path`, `host`, `status` and `cost`.
    #[arg(long, value_name = "REGEX", value_parser = LinePattern::new, conflicts_with = "format")]
    pub(super) pattern: Option<LinePattern>,
    /// The format of times, as for strftime: "%Y-%m-%d %H:%M:%S". By default it is detected.
    #[arg(long, value_name = "FORMAT")]
    pub(super) time_format: Option<String>,
    /// The name of a field or column in the log: --field client=headers.x-real-ip.
    #[arg(long = "field", value_name = "MEANING=NAME")]
    pub(super) fields: Vec<String>,
    /// Replay only requests for this path; `*` at the end matches every path with this beginning.
    #[arg(long = "path", value_name = "PATH")]
    pub(super) paths: Vec<String>,
    /// Replay only requests with this method.
    #[arg(long = "method", value_name = "METHOD")]
    pub(super) methods: Vec<String>,
    /// Replay only requests that were answered with this status: 404, 4xx or 500-599.
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',')]
    pub(super) statuses: Vec<String>,
    /// How far lines may be out of order. Requests that are later get the time of the one before them, and
    /// are counted.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_time)]
    pub(super) disorder: Duration,
}

fn parse_goal(text: &str) -> Result<Goal, String> {
    text.parse()
}

fn parse_quota(text: &str) -> Result<Quota, String> {
    text.parse().map_err(|error: slidegate::Error| error.to_string())
}

/// An algorithm as in a configuration, also with `=` instead of a colon.
fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    text.replace('=', ":").parse().map_err(|error: slidegate::Error| error.to_string())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

fn parse_format(name: &str) -> Result<LogFormat, String> {
    LogFormat::parse(name).ok_or_else(|| {
        let names = LogFormat::NAMES.map(|(name, _)| name).join(", ");
        format!("use one of {names}, or --pattern for other lines")
    })
}
