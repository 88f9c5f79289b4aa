//! `bench`: sends load to a rate limiter and measures it.

mod arguments;

use std::io::{self, IsTerminal, Write};
use std::time::UNIX_EPOCH;

use indicatif::{ProgressBar, ProgressStyle};
use slidegate::{Policy, Quota};
use slidegate_load::{HttpRequest, KeyChoice, Pace, Plan, Progress, Report, Target};
use slidegate_sim::number::to_float;

pub(super) use self::arguments::BenchArguments;
use self::arguments::Distribution;
use super::exit;
use crate::config::report::mask_address;
use crate::wall_clock::wall_clock;

pub(super) fn run(arguments: &BenchArguments) -> u8 {
    let (plan, target) = match plan(arguments).and_then(|plan| Ok((plan, target(arguments)?))) {
        Ok(ready) => ready,
        Err(message) => return super::failed(&message, exit::USAGE),
    };
    if let Some(Err(message)) = arguments.html.as_deref().map(super::check_writable) {
        return super::failed(&message, exit::FAILED);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return super::failed(&error, exit::FAILED),
    };
    let bar = progress_bar();
    let measured = runtime.block_on(async {
        let stop = async {
            if tokio::signal::ctrl_c().await.is_err() {
                // Without the signal, the run ends by its time.
                core::future::pending::<()>().await;
            }
        };
        slidegate_load::run(plan, &target, stop, |progress| show(bar.as_ref(), &progress)).await
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    match measured {
        Ok(report) => print(arguments, &report),
        Err(error) => {
            let code = if error.is_unreachable { exit::UNAVAILABLE } else { exit::FAILED };
            super::failed(&error, code)
        }
    }
}

fn print(arguments: &BenchArguments, report: &Report) -> u8 {
    let mut out = io::stdout().lock();
    let written = if arguments.json {
        serde_json::to_writer_pretty(&mut out, report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
    } else {
        report.write_table(&mut out)
    };
    if let Some(path) = &arguments.html {
        let page = report.to_html(&without_secrets(std::env::args().skip(1)));
        if let Err(error) = std::fs::write(path, page) {
            let error = format!("cannot write {}: {error}", path.display());
            return super::failed(&error, exit::FAILED);
        }
    }
    let is_well = !report.has_wrong_decisions() && report.failed + report.unsent == 0;
    super::config::written(written, if is_well { exit::OK } else { exit::FAILED })
}

/// The command line for the report, without the values of header fields and without passwords and Redis options in URLs.
fn without_secrets(words: impl Iterator<Item = String>) -> String {
    let field = |field: &str| match field.split_once(':') {
        Some((_, value)) if value.trim() == "{key}" => field.to_owned(),
        Some((name, _)) => format!("{name}: ***"),
        None => "***".to_owned(),
    };
    let url = |word: &str| match mask_address(word).split_once('?') {
        // An option can be the password.
        Some((address, _)) if !word.starts_with("http") => format!("{address}?***"),
        _ => mask_address(word),
    };
    let mut shown = "slidegate".to_owned();
    let mut is_header = false;
    for word in words {
        let word = match word.strip_prefix("--header=") {
            Some(value) => format!("--header={}", field(value)),
            None if is_header => field(&word),
            None => url(&word),
        };
        is_header = word == "--header";
        shown = shown + " " + &word;
    }
    shown
}

fn plan(arguments: &BenchArguments) -> Result<Plan, String> {
    // Of several quotas, the one with the lowest rate decides how much is denied.
    let rate_of = |quota: &Quota| to_float(quota.limit()) / quota.window().as_secs_f64();
    let lowest = arguments.quotas.iter().min_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
    let keys = match (arguments.denials, arguments.rate, lowest) {
        (Some(percent), Some(rate), Some(quota)) => {
            Plan::keys_for_denials(rate, *quota, percent / 100.0)
                .map_err(|error| error.to_string())?
        }
        _ => arguments.keys,
    };
    let keys = match arguments.distribution {
        Distribution::Uniform => KeyChoice::Uniform(keys),
        Distribution::Zipf => KeyChoice::Zipf { keys, exponent: arguments.zipf },
        Distribution::Hot => KeyChoice::Hot { keys, share: arguments.hot / 100.0 },
    };
    let plan = Plan {
        pace: arguments.rate.map_or(Pace::Closed, Pace::Open),
        duration: arguments.duration,
        connections: arguments.connections,
        deadline: arguments.deadline,
        keys,
        key_prefix: arguments.key_prefix.clone().unwrap_or_else(fresh_prefix),
        quotas: arguments.quotas.clone(),
        tolerance: arguments.tolerance,
        seed: arguments.seed,
    };
    plan.check().map_err(|error| error.to_string())?;
    Ok(plan)
}

/// A beginning of keys that no earlier run had.
fn fresh_prefix() -> String {
    let now = wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("bench-{:x}-{:x}-", now.as_micros(), std::process::id())
}

fn target(arguments: &BenchArguments) -> Result<Target, String> {
    let BenchArguments { target, policy, headers, .. } = arguments;
    let needs =
        |what: &str, example: &str| format!("target {target} needs {what}, such as {example}");
    match target.split_once("://") {
        Some(("http", _)) => {
            let request = match policy {
                Some(policy) => HttpRequest::api(target, policy, headers),
                None => HttpRequest::url(target, headers),
            };
            Ok(Target::Http(request?))
        }
        Some(("grpc", address)) => {
            let domain =
                arguments.domain.clone().ok_or_else(|| needs("a domain", "--domain shop"))?;
            let (address, entry) = (address.to_owned(), arguments.entry.clone());
            Ok(Target::Grpc { address, domain, entry })
        }
        Some(("resp", address)) => {
            let policy = policy.clone().ok_or_else(|| needs("a policy", "--policy api"))?;
            Ok(Target::Resp { address: address.to_owned(), policy })
        }
        Some(("redis" | "rediss" | "unix", _)) => {
            if arguments.quotas.is_empty() {
                return Err(needs("a limit", "--quota 10/minute"));
            }
            let policy = Policy::builder("bench")
                .quotas(arguments.quotas.iter().copied())
                .algorithm(arguments.algorithm)
                .build();
            policy
                .and_then(|policy| Target::redis(target, policy, arguments.deadline))
                .map_err(|error| error.to_string())
        }
        _ => Err(format!(
            "target {target:?} is none of http://HOST:PORT, grpc://HOST:PORT, resp://HOST:PORT and redis://HOST:PORT"
        )),
    }
}

/// A line on standard error, if that is a terminal.
fn progress_bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style))
}

fn show(bar: Option<&ProgressBar>, progress: &Progress) {
    let Some(bar) = bar else { return };
    let Progress { elapsed, answered, denied, failed, p99, .. } = progress;
    bar.set_message(format!(
        "{:.0} s: {answered} decisions, {denied} denied, {failed} without a decision, p99 {p99:.1?}",
        elapsed.as_secs_f64()
    ));
    bar.tick();
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Arguments;
    use crate::cli::arguments::Command;

    #[test]
    fn denials_follow_from_the_quota_with_the_lowest_rate() {
        for quotas in ["100/second,600/minute", "600/minute,100/second"] {
            let load = ["slidegate", "bench", "http://host", "--rate", "1000", "--denials", "50"];
            let line = [&load[..], &["--quota", quotas]].concat();
            let Some(Command::Bench(arguments)) = Arguments::parse_from(line).command else {
                panic!("not bench");
            };
            // Of 1000 requests per second, 500 are allowed, and 10 of each key.
            assert_eq!(plan(&arguments).unwrap().keys, KeyChoice::Uniform(50), "{quotas}");
        }
    }

    #[test]
    fn secrets_of_the_command_line_are_not_in_the_report() {
        let shown = |line: &str| without_secrets(line.split('|').map(str::to_owned));
        assert_eq!(
            shown(
                "bench|http://host/?user={key}|--header|authorization: Bearer s3cret|--header=x-key: {key}"
            ),
            "slidegate bench http://host/?user={key} --header authorization: *** --header=x-key: {key}"
        );
        assert_eq!(
            shown("bench|--header=cookie: s3cret|--header|s3cret|redis://user:s3@cret@host:6379/1"),
            "slidegate bench --header=cookie: *** --header *** redis://user:*******@host:6379/1"
        );
        assert_eq!(
            shown("bench|unix:///run/redis.sock?pass=s3cret|--quota|5/s|http://user:pw@host/?a=b"),
            "slidegate bench unix:///run/redis.sock?*** --quota 5/s http://user:**@host/?a=b"
        );
    }
}
