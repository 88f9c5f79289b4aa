//! `config`: looks at configurations without serving them.
//!
//! Each function takes what was asked and where to write, and gives how the program ends.

mod check;
mod descriptor;
mod explain;
mod render;
mod rule;
mod schema;
mod test;

pub use check::{CheckOptions, check};
pub use explain::{Subject, explain};
pub use schema::schema;
pub use test::{TestOptions, test};

use std::io;

use super::exit;

/// How the program ends when something was written, or could not be.
fn written(result: Result<(), io::Error>, code: u8) -> u8 {
    match result {
        Ok(()) => code,
        // Who reads has heard enough, `config schema | head` for example.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
        Err(_) => exit::FAILED,
    }
}
