//! `serve`: runs the daemon.

use std::io::{self, Write};

use super::arguments::ServeArguments;
use super::{exit, load};
use crate::config;
use crate::run;

pub(super) fn run(arguments: &ServeArguments) -> u8 {
    let request = arguments.request_arguments();
    let loaded = match load(&request) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    if arguments.print_config {
        let mut out = io::stdout().lock();
        let printed = if arguments.json {
            config::print_config_json(&loaded, &mut out)
        } else {
            config::print_config(&loaded, &mut out)
        };
        return super::ended(printed);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return super::ended(Err(error)),
    };
    let again = move || config::load(&request.request()).map_err(|refused| refused.to_string());
    match runtime.block_on(run::serve(loaded, again)) {
        Ok(()) => exit::OK,
        Err(error) => {
            let _ = writeln!(io::stderr(), "slidegate: {error}");
            exit::FAILED
        }
    }
}
