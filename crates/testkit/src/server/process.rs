//! Processes that do not outlive the test.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, io, thread};

use rustix::process::{Pid, Signal, kill_process};

use super::ServerError;
use super::wait::poll;

/// A running program with its output in a log. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Mutex<Child>,
    id: u32,
    log: PathBuf,
    /// The length of the log before this process.
    log_start: usize,
}

/// Below the ports that Linux uses for outgoing connections (32768 and up), so that no client takes
/// a server's port while the server is down.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 10_000;

/// The offset of the cluster bus port.
const BUS_OFFSET: u16 = 10_000;

const PORT_TRIES_MAX: u64 = 200;

impl Process {
    /// Starts a program, and appends its output to `log`.
    pub(super) fn start(
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, String)],
        log: &Path,
    ) -> Result<Self, ServerError> {
        let failed = |error: io::Error| {
            ServerError::new(format!("cannot start {}: {error}", program.display()))
        };
        let log_start = fs::read(log).map_or(0, |bytes| bytes.len());
        let output = open(log).map_err(failed)?;
        let mut command = bound(program);
        command.args(arguments).stdin(Stdio::null());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdout(output.try_clone().map_err(failed)?).stderr(output);
        let child = spawn(command).map_err(failed)?;
        Ok(Self { id: child.id(), child: Mutex::new(child), log: log.to_owned(), log_start })
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the output of this process so far.
    pub(super) fn output(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.log_start..).unwrap_or_default()).into_owned()
    }

    /// Returns the exit status, if it has ended.
    pub(super) fn ended(&self) -> Result<Option<ExitStatus>, ServerError> {
        self.child().try_wait().map_err(|error| self.failed("look after", &error))
    }

    /// Terminates it and waits until it has ended.
    pub(super) fn end(&self) -> Result<(), ServerError> {
        self.signal(Signal::TERM)?;
        // A stopped process handles no signals until it continues.
        self.signal(Signal::CONT)?;
        let what = format!("process {} to end", self.id);
        poll(&what, || Ok(self.ended()?.map(|_| ())))
    }

    /// Kills it and waits until it has ended.
    pub(super) fn kill(&self) -> Result<(), ServerError> {
        let mut child = self.child();
        let killed = child.kill().and_then(|()| child.wait());
        killed.map(|_| ()).map_err(|error| self.failed("kill", &error))
    }

    /// Sends a signal. Does nothing if the process has ended.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        // No other thread waits for it, so the id is still valid.
        let pid = Pid::from_child(&self.child());
        kill_process(pid, signal)
            .map_err(|error| self.failed(&format!("send {signal:?} to"), &error))
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, what: &str, error: &dyn core::fmt::Display) -> ServerError {
        ServerError::new(format!("cannot {what} process {}: {error}", self.id))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has already ended.
        let _ = self.kill();
    }
}

fn open(log: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(log)
}

/// Returns a command whose process the kernel kills when this process ends, in any way.
///
/// `setpriv` requests that from the kernel. If this process ended before, the shell sees another
/// parent and starts nothing. Both replace themselves with the program, which keeps the process id.
/// Without `setpriv` (part of util-linux), a killed test leaves its servers running.
fn bound(program: &Path) -> Command {
    let Some(setpriv) = find_program("setpriv") else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "sh", "-c", r#"[ "$PPID" = "$0" ] && exec "$@""#]);
    command.arg(process::id().to_string()).arg(program);
    command
}

type Order = (Command, Sender<io::Result<Child>>);

/// Starts a command from a thread that lives as long as this process.
///
/// The kernel watches the thread that started a child, not the process: a server started by the
/// thread of one test would be killed at the end of that test, even if others share it.
fn spawn(command: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<io::Result<Sender<Order>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts servers is gone");
    let keeper = KEEPER.get_or_init(start_keeper).as_ref().map_err(|_| gone())?;
    let (sender, receiver) = mpsc::channel();
    keeper.send((command, sender)).map_err(|_| gone())?;
    receiver.recv().map_err(|_| gone())?
}

fn start_keeper() -> io::Result<Sender<Order>> {
    let (sender, receiver) = mpsc::channel::<Order>();
    thread::Builder::new().name("servers".to_owned()).spawn(move || {
        for (mut command, answer) in receiver {
            // The caller waits for the result.
            let _ = answer.send(command.spawn());
        }
    })?;
    Ok(sender)
}

/// Returns the path of a program, or an error with the command that installs it.
pub(super) fn require_program(name: &str, package: &str) -> Result<PathBuf, ServerError> {
    find_program(name).ok_or_else(|| {
        ServerError::new(format!(
            "`{name}` is not installed: `cargo xtask test` as root installs it, \
             or `apt-get install {package}`"
        ))
    })
}

/// Returns the path of a program on the search path or in the directories of administrators, which
/// are not on every user's path.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns a free loopback port whose cluster bus port is free too.
///
/// Another process may take it before the server does. Then the server is started on another port.
pub(super) fn free_port() -> Result<u16, ServerError> {
    // Seeded by the system, so that parallel processes try different ports.
    let random = RandomState::new();
    for number in 0..PORT_TRIES_MAX {
        let offset = random.hash_one(number) % u64::from(PORTS);
        let port = FIRST_PORT + u16::try_from(offset).unwrap_or_default();
        if is_free(port) && is_free(port + BUS_OFFSET) {
            return Ok(port);
        }
    }
    let message = format!("tried {PORT_TRIES_MAX} ports from {FIRST_PORT} on: none was free");
    Err(ServerError::new(message))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_the_command_that_installs_it() {
        let error = require_program("slidegate-no-such-program", "redis-server").unwrap_err();
        let message = error.to_string();
        assert!(message.contains("`slidegate-no-such-program` is not installed"), "{message}");
        assert!(message.contains("apt-get install redis-server"), "{message}");
    }
}
