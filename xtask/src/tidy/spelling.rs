//! Rule for spelling: `typos` finds nothing. Its settings are in `typos.toml`.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, command, install};

pub(super) fn check(root: &Path) -> Outcome {
    let typos = install::typos(root)?;
    let mut command = Command::new(typos);
    command::run(command.current_dir(root).args(["--format", "brief"]))
        .map_err(|reason| format!("{reason}; names to allow belong into typos.toml"))
}
