//! A server in a separate process.

use core::time::Duration;
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;

use crate::Failure;
use crate::clock;

/// The ports of the protocols that it speaks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) http: u16,
    pub(super) resp: u16,
    pub(super) grpc: u16,
    pub(super) admin: u16,
}

/// What a server runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
    None,
    /// Counts instructions.
    Callgrind,
    /// Counts instructions within functions whose name matches the pattern.
    CallgrindWithin(&'static str),
    /// Counts allocations.
    Dhat,
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    child: Option<Child>,
    pid: u32,
    pub(super) ports: Ports,
}

/// The maximum time until a server listens; it is long because of valgrind.
const START_MAX: Duration = Duration::from_secs(60);

impl Ports {
    /// Returns ports that were free a moment ago.
    pub(super) fn free() -> Result<Self, Failure> {
        let mut held = Vec::new();
        let mut next = || -> Result<u16, Failure> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            // Held until all are found, so that they differ.
            held.push(listener);
            Ok(port)
        };
        Ok(Self { http: next()?, resp: next()?, grpc: next()?, admin: next()? })
    }
}

impl Server {
    pub(super) fn start(
        program: &OsStr,
        arguments: &[OsString],
        workers: usize,
        wrapper: Wrapper,
        ports: Ports,
    ) -> Result<Self, Failure> {
        let mut command = bound();
        match wrapper {
            Wrapper::None => {}
            Wrapper::Callgrind => {
                command.args(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]);
            }
            Wrapper::CallgrindWithin(functions) => {
                command.args(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]);
                command.arg(format!("--toggle-collect={functions}"));
            }
            Wrapper::Dhat => {
                command.args(["valgrind", "--tool=dhat", "--dhat-out-file=/dev/null"]);
            }
        }
        command.arg(program).args(arguments).env("TOKIO_WORKER_THREADS", workers.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Valgrind writes its counts there; without valgrind it is not read.
        let is_read = wrapper != Wrapper::None;
        command.stderr(if is_read { Stdio::piped() } else { Stdio::null() });
        let child = command.spawn();
        let child =
            child.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        Ok(Self { pid: child.id(), child: Some(child), ports })
    }

    pub(super) async fn wait_until_listening(&self, ports: &[u16]) -> Result<(), Failure> {
        let began = clock::instant();
        for port in ports {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            while let Err(error) = TcpStream::connect(address).await {
                if began.elapsed() > START_MAX {
                    return Err(format!("no server listens on {address}: {error}").into());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// Processor time of all its threads so far, in seconds.
    pub(super) fn cpu(&self) -> Result<f64, Failure> {
        let mut nanos = 0_u64;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
            // A thread may end meanwhile.
            let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
                continue;
            };
            let first = text.split_whitespace().next().unwrap_or_default();
            nanos += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos).as_secs_f64())
    }

    /// What is resident, in bytes.
    pub(super) fn resident(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        Ok(crate::memory::resident::parse(&status)?.now)
    }

    /// Stops it. Returns what it wrote to standard error, if that was kept.
    pub(super) fn end(mut self) -> Result<String, Failure> {
        let child = self.child.take().ok_or("the server has ended already")?;
        kill_process(Pid::from_child(&child), Signal::TERM)?;
        let output = child.wait_with_output()?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Fails only if it has exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A command that the kernel kills when this process ends, however it ends. `setpriv` belongs to
/// util-linux; `env` is the fallback and does nothing.
fn bound() -> Command {
    let is_there = Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        return Command::new("env");
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    command
}
