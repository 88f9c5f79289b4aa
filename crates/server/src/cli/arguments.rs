//! The command line arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::bench::BenchArguments;
use super::help;
use super::plan::PlanArguments;
use super::simulate::SimulateArguments;
use super::top::TopArguments;
use crate::config::{Environment, Format, Request};

/// A sliding-window rate limiter as a service.
#[derive(Debug, Parser)]
#[command(
    name = "slidegate",
    version,
    long_version = help::VERSION,
    about = help::ABOUT,
    before_long_help = help::EXAMPLES,
    after_long_help = help::EXIT_CODES,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the daemon. This is the default command.
    #[command(before_long_help = help::SERVE_EXAMPLES)]
    Serve(Box<ServeArguments>),
    /// Check, explain and test configurations without serving them.
    #[command(subcommand, before_long_help = help::CONFIG_EXAMPLES)]
    Config(ConfigCommand),
    /// Check a request with a running daemon, and take its units if it is allowed.
    #[command(before_long_help = help::CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Examine and repair keys in Redis.
    #[command(subcommand, before_long_help = help::REDIS_EXAMPLES)]
    Redis(RedisCommand),
    /// Replay access logs or generated traffic, and compare what the algorithms would have decided.
    #[command(before_long_help = help::SIMULATE_EXAMPLES)]
    Simulate(Box<SimulateArguments>),
    /// Compute the memory and the nodes that a limit needs, from measured costs.
    #[command(before_long_help = help::PLAN_EXAMPLES)]
    Plan(PlanArguments),
    /// Send load to a rate limiter: measure rate and latency, and count wrong decisions.
    #[command(before_long_help = help::BENCH_EXAMPLES)]
    Bench(Box<BenchArguments>),
    /// Show a running daemon live: its policies, and the keys with the most requests.
    #[command(before_long_help = help::TOP_EXAMPLES)]
    Top(TopArguments),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write one for every command into a directory.
    Man {
        /// The directory.
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check files and report all errors.
    Check {
        /// Files, or directories of envoyproxy/ratelimit. Each is checked separately.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Fail on warnings too.
        #[arg(long)]
        deny_warnings: bool,
        /// The format of the files. By default it is detected from their keys.
        #[arg(long, value_parser = parse_format, value_name = "native|sliding|envoy")]
        format: Option<Format>,
        /// Allow extension keys, such as `algorithm`, in files of envoyproxy/ratelimit.
        #[arg(long)]
        envoy_extensions: bool,
        /// Do not read files with secrets and certificates, for checks on another machine.
        #[arg(long)]
        no_secrets: bool,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Explain which limits apply to a descriptor or a request, and why.
    Explain {
        /// `DOMAIN KEY=VALUE,KEY=VALUE`, or `METHOD /PATH [NAME:VALUE...] [address=ADDRESS]`.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        #[command(flatten)]
        load: LoadArguments,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run timed requests against the limits and compare the decisions with the expected ones.
    Test {
        /// Test files.
        #[arg(required = true, value_name = "PATH")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        load: LoadArguments,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of the native format.
    Schema {
        /// Print the reference of every key as Markdown instead.
        #[arg(long)]
        markdown: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum RedisCommand {
    /// Repair keys without a TTL, and count keys of policies that are not configured.
    ///
    /// A key without a TTL gets the one that its content needs. It is removed only if every unit in it
    /// has expired. Keys of policies that are not configured are counted and kept, because another
    /// process may use them. They expire by themselves when their windows have passed.
    Sweep(SweepArguments),
}

#[derive(Debug, Clone, Args)]
pub(super) struct SweepArguments {
    #[command(flatten)]
    pub(super) load: LoadArguments,
    /// Examine only this store. By default, all stores in Redis are examined.
    #[arg(long, value_name = "NAME")]
    pub(super) store: Option<String>,
    /// The maximum number of keys examined per second.
    #[arg(long, value_name = "KEYS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keys_per_second: u32,
    /// Print one JSON object per store.
    #[arg(long)]
    pub(super) json: bool,
}

/// The sources of a configuration.
#[derive(Debug, Clone, Args)]
pub(super) struct LoadArguments {
    /// Configuration files, or a directory of envoyproxy/ratelimit. By default, a small example.
    #[arg(short, long, value_name = "PATH", env = "SLIDEGATE_CONFIG", value_delimiter = ',')]
    pub(super) config: Vec<PathBuf>,
    /// The format of the files. By default it is detected from their keys.
    #[arg(long, value_parser = parse_format, value_name = "native|sliding|envoy")]
    pub(super) format: Option<Format>,
    /// Allow extension keys, such as `algorithm`, in files of envoyproxy/ratelimit.
    #[arg(long)]
    pub(super) envoy_extensions: bool,
    /// A setting that overrides files and variables: `--set memory.limit_mb=512`.
    #[arg(long = "set", value_parser = parse_setting, value_name = "KEY=VALUE")]
    pub(super) settings: Vec<(String, String)>,
}

#[derive(Debug, Clone, Args)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    pub(super) load: LoadArguments,
    /// The address of the HTTP API, or `off`.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen_http: Option<String>,
    /// The address of Envoy's gRPC service, or `off`.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen_grpc: Option<String>,
    /// The address of the Redis protocol, or `off`.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen_resp: Option<String>,
    /// The address for metrics, health and reload, or `off`.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen_admin: Option<String>,
    /// Print the current settings with their origin, and exit. Secrets are omitted.
    #[arg(long)]
    pub(super) print_config: bool,
    /// Print the settings as JSON.
    #[arg(long, requires = "print_config")]
    pub(super) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(super) struct CheckArguments {
    /// The policy.
    pub(super) policy: String,
    /// The key.
    pub(super) key: String,
    /// The number of units.
    #[arg(long, default_value_t = 1)]
    pub(super) cost: u64,
    /// The tier of the key.
    #[arg(long)]
    pub(super) tier: Option<String>,
    /// Do not take units.
    #[arg(long)]
    pub(super) peek: bool,
    /// The address of the daemon's HTTP API.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        env = "SLIDEGATE_ADDRESS"
    )]
    pub(super) address: String,
    /// A file with the token to send, if the daemon requires one.
    #[arg(long, value_name = "PATH")]
    pub(super) token_file: Option<PathBuf>,
    /// Print the reply as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl LoadArguments {
    pub(super) fn request(&self) -> Request {
        Request {
            format: self.format,
            environment: Environment::of_process(),
            flags: self.settings.clone(),
            envoy_extensions: self.envoy_extensions,
            ..Request::new(self.config.iter().cloned())
        }
    }
}

impl ServeArguments {
    /// Returns the arguments of a load, with the flags of this command.
    pub(super) fn request_arguments(&self) -> LoadArguments {
        let mut load = self.load.clone();
        for (name, value) in [
            ("http", &self.listen_http),
            ("grpc", &self.listen_grpc),
            ("resp", &self.listen_resp),
            ("admin", &self.listen_admin),
        ] {
            if let Some(value) = value {
                load.settings.push((format!("listen.{name}"), value.clone()));
            }
        }
        load
    }
}

fn parse_format(word: &str) -> Result<Format, String> {
    Format::parse(word).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        format!("use one of {names}")
    })
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("use KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_serves() {
        let arguments = Arguments::try_parse_from(["slidegate", "--listen-http", "off"]).unwrap();
        assert!(arguments.command.is_none());
        assert_eq!(arguments.serve.listen_http.as_deref(), Some("off"));
    }
}
