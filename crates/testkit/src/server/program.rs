//! Finding the programs that tests run.

use std::env;
use std::path::PathBuf;

use super::ServerError;

/// Where a program is, or which command installs it.
pub(super) fn require(name: &str, package: &str) -> Result<PathBuf, ServerError> {
    find(name).ok_or_else(|| {
        ServerError::new(format!(
            "`{name}` is not installed: `cargo xtask test` as root installs it, \
             or `apt-get install {package}`"
        ))
    })
}

/// Where a program is on the search path, or among the programs of administrators, which not
/// everybody has on the path.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_the_command_that_installs_it() {
        let error = require("slidegate-no-such-program", "redis-server").unwrap_err();
        let message = error.to_string();
        assert!(message.contains("`slidegate-no-such-program` is not installed"), "{message}");
        assert!(message.contains("apt-get install redis-server"), "{message}");
    }
}
