//! A real Redis server of one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::folder::Folder;
use super::process::Process;
use super::wait::poll;
use super::{ServerBuilder, ServerError, port};

/// A `redis-server` on a free loopback port, with a folder of its own and nothing kept on disk.
///
/// Dropping it kills it and removes the folder, also when the test panics. If the test's process is
/// killed, the kernel kills the server.
///
/// ```
/// use slidegate_testkit::server::RedisServer;
///
/// let server = RedisServer::start()?;
/// let mut connection = server.connection()?;
/// let answer: String = redis::cmd("PING").query(&mut connection)?;
/// assert_eq!(answer, "PONG");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RedisServer {
    // Before the folder: dropped, and so killed, first.
    process: Process,
    port: u16,
    program: PathBuf,
    folder: Folder,
}

/// How often a free port may be gone by the time the server wants it.
const PORTS_MAX: u32 = 20;

/// A server that does not answer fails the test instead of hanging it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What every server prints when it listens.
const READY: &str = "eady to accept connections";
const PORT_TAKEN: &str = "Address already in use";

impl RedisServer {
    /// Starts a plain server.
    ///
    /// # Errors
    ///
    /// When `redis-server` is not installed or does not start.
    pub fn start() -> Result<Self, ServerError> {
        Self::builder().start()
    }

    /// A server to be described.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    pub(super) fn run(builder: &ServerBuilder) -> Result<Self, ServerError> {
        let program = builder.find_program()?;
        let folder = Folder::new()?;
        for _ in 1..PORTS_MAX {
            let port = builder.port.map_or_else(port::free, Ok)?;
            write(&folder, &builder.text(folder.path(), port))?;
            let mut process = launch(&program, &folder)?;
            match await_ready(&mut process)? {
                Start::Ready => return Ok(Self { process, port, program, folder }),
                Start::PortTaken if builder.port.is_none() => {}
                Start::PortTaken => {
                    return Err(ServerError::new(format!("port {port} is taken: use another")));
                }
            }
        }
        Err(ServerError::new(format!(
            "{PORTS_MAX} free ports were taken before the server had one"
        )))
    }

    /// Where clients find it: `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Its loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end, as a service manager would, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not end in time.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        self.process.end()
    }

    /// Kills it, as a crash or the out-of-memory killer would.
    ///
    /// # Errors
    ///
    /// When the system refuses to.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        self.process.kill()
    }

    /// Starts it again on the same port with the same data folder; one that still runs is stopped.
    ///
    /// # Errors
    ///
    /// When it does not start, or its port was taken meanwhile.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop()?;
        self.process = launch(&self.program, &self.folder)?;
        match await_ready(&mut self.process)? {
            Start::Ready => Ok(()),
            Start::PortTaken => Err(ServerError::new(format!(
                "port {} was taken by somebody else while the server was down",
                self.port
            ))),
        }
    }

    /// Stops it in its tracks: connections stay open, nothing is answered.
    ///
    /// # Errors
    ///
    /// When the system refuses to.
    pub fn suspend(&mut self) -> Result<(), ServerError> {
        self.process.signal(Signal::STOP)
    }

    /// Lets it go on after [`suspend`](RedisServer::suspend).
    ///
    /// # Errors
    ///
    /// When the system refuses to.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        self.process.signal(Signal::CONT)
    }

    /// What it has printed since it was last started.
    pub fn log(&self) -> String {
        self.process.output()
    }

    /// A new blocking connection that gives up on an answer after ten seconds.
    ///
    /// # Errors
    ///
    /// When the server does not accept it.
    pub fn connection(&self) -> Result<redis::Connection, ServerError> {
        let client = redis::Client::open(self.url())?;
        let connection = client.get_connection_with_timeout(ANSWER_MAX)?;
        connection.set_read_timeout(Some(ANSWER_MAX))?;
        connection.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(connection)
    }
}

enum Start {
    Ready,
    PortTaken,
}

fn write(folder: &Folder, text: &str) -> Result<(), ServerError> {
    let path = folder.join("server.conf");
    fs::write(&path, text)
        .map_err(|error| ServerError::new(format!("cannot write {}: {error}", path.display())))
}

fn launch(program: &Path, folder: &Folder) -> Result<Process, ServerError> {
    let file = folder.join("server.conf");
    Process::start(program, &[&file.to_string_lossy()], &[], &folder.join("server.log"))
}

fn await_ready(process: &mut Process) -> Result<Start, ServerError> {
    poll("the server to accept connections", || {
        // In this order: what a process printed before it ended is there.
        let ended = process.ended()?;
        let output = process.output();
        match ended {
            None if output.contains(READY) => Ok(Some(Start::Ready)),
            None => Ok(None),
            Some(_) if output.contains(PORT_TAKEN) => Ok(Some(Start::PortTaken)),
            Some(status) => {
                Err(ServerError::new(format!("the server ended with {status}:\n{output}")))
            }
        }
    })
}
