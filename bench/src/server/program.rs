//! The programs that are measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::getuid;

use super::subject::config;
use crate::Failure;
use crate::progress;

/// Where the programs are, and their settings.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) slidegate: PathBuf,
    /// Without it, its rows are left out.
    pub(super) throttlecrab: Option<PathBuf>,
    /// The configuration of the daemon.
    pub(super) config: PathBuf,
    /// The length of the daemon's reply in bytes, once known.
    pub(super) answer_bytes: usize,
}

/// The peer's version.
const THROTTLECRAB: &str = "0.4.40";

impl Programs {
    /// Builds the daemon, and the peer if it is not there yet.
    pub(super) fn prepare() -> Result<Self, Failure> {
        let mut programs = Self::for_daemon()?;
        let target = programs.slidegate.ancestors().nth(2).ok_or("the daemon is in no folder")?;
        programs.throttlecrab = find_throttlecrab(&target.join("peers"));
        Ok(programs)
    }

    /// Builds the daemon alone.
    pub(super) fn for_daemon() -> Result<Self, Failure> {
        let here = std::env::current_exe()?;
        let folder = here.parent().ok_or("this program is in no folder")?;
        let slidegate = build_slidegate(folder)?;
        // In a separate folder: the daemon watches it and reloads after every change there.
        let name = format!("slidegate-bench-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)?;
        let path = folder.join("slidegate.yaml");
        std::fs::write(&path, config())?;
        Ok(Self { slidegate, throttlecrab: None, config: path, answer_bytes: 0 })
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        if let Some(folder) = self.config.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Builds the daemon with cargo, so that it matches the sources. Without cargo, returns the one next to
/// this program.
fn build_slidegate(folder: &Path) -> Result<PathBuf, Failure> {
    let program = folder.join("slidegate");
    progress::say("server: cargo build --release -p slidegate-server");
    let built = cargo().args(["build", "--quiet", "--release", "-p", "slidegate-server"]).status();
    match built {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("cargo build of slidegate-server: {status}").into()),
        Err(_) if program.exists() => Ok(program),
        Err(error) => Err(format!("neither cargo ({error}) nor {}", program.display()).into()),
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Installs `protobuf-compiler`, which the peer's build calls as `protoc`, unless it is there or may
/// not be installed.
fn install_protoc() {
    let is_there = std::env::var_os("PROTOC").is_some() || succeeds("protoc");
    if is_there || !getuid().is_root() || !succeeds("apt-get") {
        return;
    }
    progress::say("server: protoc is missing, installing protobuf-compiler with apt-get");
    for arguments in [&["update"][..], &["install", "--no-install-recommends", "protobuf-compiler"]]
    {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["--quiet", "--yes"]);
        // If the lists cannot be updated, the existing ones may suffice. A failure shows when the peer
        // is built.
        match command.args(arguments).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            Ok(status) => progress::say(&format!("server: apt-get {}: {status}", arguments[0])),
            Err(error) => progress::say(&format!("server: cannot start apt-get: {error}")),
        }
    }
}

fn succeeds(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Under `peers`, installed on first use. The bench goes on without it.
fn find_throttlecrab(peers: &Path) -> Option<PathBuf> {
    let program = peers.join("bin/throttlecrab-server");
    if program.exists() {
        return Some(program);
    }
    install_protoc();
    progress::say(&format!(
        "server: cargo install --locked throttlecrab-server@{THROTTLECRAB} (takes some minutes)"
    ));
    let installed = cargo()
        .args(["install", "--locked", "--quiet", "--version", THROTTLECRAB, "--root"])
        .arg(peers)
        .arg("throttlecrab-server")
        .status();
    if installed.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    progress::say(
        "server: throttlecrab-server could not be built, its rows are left out. It needs protoc: \
         install protobuf-compiler, or set PROTOC",
    );
    None
}
