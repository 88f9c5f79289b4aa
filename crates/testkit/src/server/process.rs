//! A process that does not outlive the test.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::wait::poll;
use super::{ServerError, program};

/// A running program with its output in a log. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Mutex<Child>,
    id: u32,
    log: PathBuf,
    /// How long the log was before this process: what follows is its own.
    log_start: usize,
}

impl Process {
    /// Starts a program; what it prints is added to `log`.
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

    /// What this process has printed so far.
    pub(super) fn output(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.log_start..).unwrap_or_default()).into_owned()
    }

    /// How it ended, if it did.
    pub(super) fn ended(&self) -> Result<Option<ExitStatus>, ServerError> {
        self.child().try_wait().map_err(|error| self.failed("look after", &error))
    }

    /// Asks it to end and waits until it has.
    pub(super) fn end(&self) -> Result<(), ServerError> {
        self.signal(Signal::TERM)?;
        // A stopped process is deaf until it goes on.
        self.signal(Signal::CONT)?;
        let what = format!("process {} to end", self.id);
        poll(&what, || Ok(self.ended()?.map(|_| ())))
    }

    /// Ends it at once and waits until it is gone.
    pub(super) fn kill(&self) -> Result<(), ServerError> {
        let mut child = self.child();
        let killed = child.kill().and_then(|()| child.wait());
        killed.map(|_| ()).map_err(|error| self.failed("kill", &error))
    }

    /// Sends a signal; to a process that is gone, nothing.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        // Nobody else waits for it, so the number is still its own.
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
        // Fails only when it is gone already.
        let _ = self.kill();
    }
}

fn open(log: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(log)
}

/// A command whose process is killed by the kernel when this process ends, however it ends.
///
/// `setpriv` asks the kernel for it. If this process was gone before it could ask, the shell sees
/// another parent and starts nothing. Both give way to the program, which keeps the process number.
/// Without `setpriv` (it belongs to util-linux), a killed test leaves its servers behind.
fn bound(program: &Path) -> Command {
    let Some(setpriv) = program::find("setpriv") else {
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
/// What the kernel watches is the thread that started a child, not the process: a server started by
/// the thread of one test would be killed at the end of that test, even if others share it.
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
            // Whoever asked waits for the answer.
            let _ = answer.send(command.spawn());
        }
    })?;
    Ok(sender)
}
