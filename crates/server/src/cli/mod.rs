//! The command line.

mod arguments;
mod ask;
mod serve;
mod words;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use self::arguments::Arguments;
use self::arguments::{Command, LoadArguments};
use crate::config::{self, Loaded, Refused, report};

/// How the program ends.
pub mod exit {
    /// Everything went well; for `check`, the request is allowed.
    pub const OK: u8 = 0;
    /// Something failed; for `check`, the request is denied.
    pub const FAILED: u8 = 1;
    /// The command line makes no sense.
    pub const USAGE: u8 = 2;
    /// The daemon could not be reached.
    pub const UNAVAILABLE: u8 = 69;
    /// The configuration is wrong.
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
            Command::Serve(arguments) => serve::run(&arguments),
            Command::Check(arguments) => ask::run(&arguments),
            Command::Completions { shell } => {
                let mut command = Self::command();
                clap_complete::generate(shell, &mut command, "slidegate", &mut io::stdout());
                exit::OK
            }
            Command::Man { folder } => ended(man(folder.as_deref())),
        }
    }
}

/// One page to standard output, or a page for every command into a folder.
fn man(folder: Option<&std::path::Path>) -> io::Result<()> {
    let command = Arguments::command();
    match folder {
        None => clap_mangen::Man::new(command).render(&mut io::stdout()),
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            clap_mangen::generate_to(command, folder)
        }
    }
}

fn ended(result: io::Result<()>) -> u8 {
    match result {
        Ok(()) => exit::OK,
        Err(error) => {
            let _ = writeln!(io::stderr(), "slidegate: {error}");
            exit::FAILED
        }
    }
}

/// Reads the configuration; what is wrong with it goes to standard error.
fn load(arguments: &LoadArguments) -> Result<Loaded, u8> {
    match config::load(&arguments.request()) {
        Ok(loaded) => {
            tell(&loaded.warnings);
            Ok(loaded)
        }
        Err(refused) => {
            let Refused { findings, .. } = &*refused;
            tell(findings);
            Err(exit::CONFIG)
        }
    }
}

fn tell(findings: &[report::Diagnostic]) {
    let mut out = io::stderr().lock();
    let _ = report::write_text(&mut out, findings, has_colour(&io::stderr()));
}

/// Whether to use colours: on a terminal, unless `NO_COLOR` is set.
fn has_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
