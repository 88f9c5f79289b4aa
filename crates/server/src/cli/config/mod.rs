//! `config`: checks, explains and tests configurations without serving them.
//!
//! Each function writes to an output and returns the exit code.

mod check;
mod explain;
mod rule;
mod test;

pub(super) use check::start_findings;
pub use check::{CheckOptions, check};
pub use explain::{Subject, explain};
pub(super) use rule::AuthRequest;
pub use test::{TestOptions, test};
pub(super) use test::{into_memory, ready};

use std::io::{self, Write};

use slidegate::{Quota, format_duration};

use super::exit;
use crate::config;

/// Writes the JSON Schema of the native format, or its reference as Markdown.
pub fn schema(markdown: bool, out: &mut dyn Write) -> u8 {
    let result = if markdown {
        out.write_all(config::reference().as_bytes())
    } else {
        writeln!(out, "{:#}", config::schema())
    };
    written(result, exit::OK)
}

/// `100 in any 1m, and 1000 in any 1h`.
fn quotas_in_words(quotas: &[Quota]) -> String {
    let one =
        |quota: &Quota| format!("{} in any {}", quota.limit(), format_duration(quota.window()));
    quotas.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// Returns the exit code after output: `code`, or failure if it could not be written.
pub(super) fn written(result: Result<(), io::Error>, code: u8) -> u8 {
    match result {
        Ok(()) => code,
        // The reader has stopped, as in `config schema | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
        Err(error) => {
            super::failed(&format!("cannot write to standard output: {error}"), exit::FAILED)
        }
    }
}
