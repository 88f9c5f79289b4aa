//! The command line.

mod arguments;
mod ask;
mod bench;
pub mod config;
mod help;
mod plan;
mod redis;
mod simulate;
mod top;

use core::fmt::Display;
use core::time::Duration;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use self::arguments::Arguments;
use self::arguments::{Command, ConfigCommand, LoadArguments, RedisCommand, ServeArguments};
use crate::config::{Environment, Loaded, Request, print_config, print_config_json, report};

/// Exit codes.
pub mod exit {
    /// Success. For `check`, the request is allowed.
    pub const OK: u8 = 0;
    /// Failure. For `check`, the request is denied.
    pub const FAILED: u8 = 1;
    /// Invalid command line.
    pub const USAGE: u8 = 2;
    /// The daemon or a store could not be reached.
    pub const UNAVAILABLE: u8 = 69;
    /// Invalid configuration.
    pub const CONFIG: u8 = 78;
}

/// Runs the program with the arguments of this process.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            return ExitCode::from(code);
        }
    };
    ExitCode::from(arguments.run())
}

impl Arguments {
    fn run(self) -> u8 {
        match self.command.unwrap_or_else(|| Command::Serve(Box::new(self.serve))) {
            Command::Serve(arguments) => serve(&arguments).unwrap_or_else(|code| code),
            Command::Config(command) => command.run(),
            Command::Check(arguments) => ask::run(&arguments),
            Command::Redis(RedisCommand::Sweep(arguments)) => redis::sweep(&arguments),
            Command::Simulate(arguments) => simulate::run(&arguments),
            Command::Plan(arguments) => plan::run(&arguments),
            Command::Bench(arguments) => bench::run(&arguments),
            Command::Top(arguments) => top::run(&arguments),
            Command::Completions { shell } => {
                // Writing to standard output directly panics if the reader has stopped.
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "slidegate", &mut script);
                print(&script)
            }
            Command::Man { folder } => man(folder.as_deref()),
        }
    }
}

impl ConfigCommand {
    fn run(self) -> u8 {
        let mut out = io::stdout().lock();
        let colors = has_color(&io::stdout());
        match self {
            Self::Check { paths, deny_warnings, format, envoy_extensions, no_secrets, json } => {
                let one = |path: PathBuf| Request {
                    format,
                    envoy_extensions,
                    secrets: !no_secrets,
                    environment: Environment::of_process(),
                    ..Request::new([path])
                };
                let requests: Vec<Request> = paths.into_iter().map(one).collect();
                let options = config::CheckOptions { deny_warnings, json, colors };
                config::check(&requests, options, &mut out)
            }
            Self::Explain { words, load: arguments, json } => {
                let subject = match config::Subject::parse(&words) {
                    Ok(subject) => subject,
                    Err(error) => return failed(&error, exit::USAGE),
                };
                match load(&arguments) {
                    Ok(loaded) => config::explain(&loaded, &subject, json, &mut out),
                    Err(code) => code,
                }
            }
            Self::Test { files, load: arguments, json } => {
                let request = arguments.request();
                let options = config::TestOptions { files, request, json, colors };
                config::test(&options, &mut out)
            }
            Self::Schema { markdown } => config::schema(markdown, &mut out),
        }
    }
}

/// Writes one page to standard output, or a page for every command into a directory.
fn man(folder: Option<&Path>) -> u8 {
    let command = Arguments::command();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        return rendered.map_or_else(|error| failed(&error, exit::FAILED), |()| print(&page));
    };
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| format!("cannot write {}: {error}", folder.display()));
    written.map_or_else(|error| failed(&error, exit::FAILED), |()| exit::OK)
}

/// Writes to standard output. Returns the exit code.
fn print(text: &[u8]) -> u8 {
    let mut out = io::stdout().lock();
    config::written(out.write_all(text).and_then(|()| out.flush()), exit::OK)
}

/// The time for threads that still run after the shutdown, long enough for the audit log to be written.
const END: Duration = Duration::from_secs(1);

/// Runs the daemon, or prints the settings that it would run with.
fn serve(arguments: &ServeArguments) -> Result<u8, u8> {
    let request = arguments.request_arguments();
    let loaded = load(&request)?;
    if arguments.print_config {
        let print = if arguments.json { print_config_json } else { print_config };
        return Ok(config::written(print(&loaded, &mut io::stdout().lock()), exit::OK));
    }
    let findings = config::start_findings(&crate::run::preflight(&loaded.settings));
    if !findings.is_empty() {
        print_findings(&findings);
        return Err(exit::CONFIG);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error, exit::FAILED))?;
    let again = move || crate::config::load(&request.request());
    let served = runtime.block_on(crate::run::serve(loaded, again));
    // Without a limit, a thread that still reads a file would keep the process alive.
    runtime.shutdown_timeout(END);
    match served {
        Ok(()) => Ok(exit::OK),
        Err(error) if error.is_configuration => Err(failed(&error, exit::CONFIG)),
        Err(error) => Err(failed(&error, exit::FAILED)),
    }
}

/// Reports an error to standard error. Returns `code`.
fn failed(error: &dyn Display, code: u8) -> u8 {
    let _ = writeln!(io::stderr(), "slidegate: {error}");
    code
}

/// Returns an error if a file cannot be written, before the work whose result goes there. The file is not changed.
fn check_writable(path: &Path) -> Result<(), String> {
    // A pipe would see a writer that comes and goes.
    if path.metadata().is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Ok(());
    }
    let is_new = path.symlink_metadata().is_err();
    std::fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    if is_new {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Reads the configuration. Errors are written to standard error.
fn load(arguments: &LoadArguments) -> Result<Loaded, u8> {
    match crate::config::load(&arguments.request()) {
        Ok(loaded) => {
            print_findings(&loaded.warnings);
            Ok(loaded)
        }
        Err(refused) => {
            print_findings(&refused.findings);
            Err(exit::CONFIG)
        }
    }
}

fn print_findings(findings: &[report::Diagnostic]) {
    let mut out = io::stderr().lock();
    let _ = report::write_text(&mut out, findings, has_color(&io::stderr()));
}

/// Returns `true` if colors are used: on a terminal, unless `NO_COLOR` is set.
fn has_color(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
