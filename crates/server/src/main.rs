//! The program `slidegate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    slidegate_server::cli::run()
}
