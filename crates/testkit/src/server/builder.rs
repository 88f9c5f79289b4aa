//! How a server is made.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Certificates, RedisServer, ServerError, program, valkey};

/// What a server shall be like; nothing is started before [`start`](ServerBuilder::start).
///
/// A clone describes another server of the same kind, which gets a port and a folder of its own.
#[derive(Debug, Clone, Default)]
pub struct ServerBuilder {
    program: Program,
    pub(super) role: Role,
    pub(super) port: Option<u16>,
    pub(super) listens: Listens,
    pub(super) password: Option<String>,
    pub(super) users: Option<String>,
    pub(super) certificates: Option<Certificates>,
    pub(super) has_fake_clock: bool,
    append_only: bool,
    max_memory: Option<(u64, String)>,
    primary: Option<Primary>,
    lines: Vec<String>,
}

/// Which program is run.
#[derive(Debug, Clone, Default)]
enum Program {
    #[default]
    Redis,
    Valkey,
    At(PathBuf),
}

/// What the program does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Server,
    ClusterNode,
    Sentinel,
}

/// Where clients are awaited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Listens {
    #[default]
    Port,
    PortAndSocket,
    Socket,
}

/// Whom a replica follows.
#[derive(Debug, Clone)]
struct Primary {
    port: u16,
    password: Option<String>,
}

impl ServerBuilder {
    pub(super) fn valkey() -> Self {
        Self { program: Program::Valkey, ..Self::default() }
    }

    /// Runs this program instead of the `redis-server` on the search path.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Program::At(program.into());
        self
    }

    /// Listens on this loopback port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Listens on a socket in its folder too.
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.listens = Listens::PortAndSocket;
        self
    }

    /// Listens on a socket in its folder and on no port.
    #[must_use]
    pub fn only_unix_socket(mut self) -> Self {
        self.listens = Listens::Socket;
        self
    }

    /// Asks everyone for this password.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Reads its users from a file with these lines, such as `user alice on >secret ~* +@all`.
    ///
    /// The user `default` stays as it is unless a line says otherwise.
    #[must_use]
    pub fn users(mut self, lines: impl Into<String>) -> Self {
        self.users = Some(lines.into());
        self
    }

    /// Speaks nothing but TLS, to clients, replicas and other nodes.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Holds so many bytes at most, and does what `policy` says (`noeviction`, `allkeys-lru`, ...)
    /// when they are not enough.
    #[must_use]
    pub fn max_memory(mut self, bytes: u64, policy: impl Into<String>) -> Self {
        self.max_memory = Some((bytes, policy.into()));
        self
    }

    /// Writes every command to disk before it answers, so that nothing is lost by a kill.
    #[must_use]
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Follows another server, with that server's password and certificates.
    #[must_use]
    pub fn replica_of(mut self, primary: &RedisServer) -> Self {
        let settings = primary.settings();
        self.certificates = self.certificates.or_else(|| settings.certificates.clone());
        self.primary = Some(Primary { port: primary.port(), password: settings.password.clone() });
        self
    }

    /// Can be a node of a cluster; [`Cluster`](super::Cluster) makes a whole one.
    #[must_use]
    pub fn cluster_node(mut self) -> Self {
        self.role = Role::ClusterNode;
        self
    }

    /// A sentinel of the same program that talks as this server does.
    pub(super) fn as_sentinel(&self) -> Self {
        let (program, certificates) = (self.program.clone(), self.certificates.clone());
        Self { program, certificates, role: Role::Sentinel, ..Self::default() }
    }

    /// Reads a wall clock that [`set_clock`](RedisServer::set_clock) moves, by libfaketime.
    ///
    /// For Valkey: Debian's Redis hangs under it, because of its allocator.
    #[must_use]
    pub fn fake_clock(mut self) -> Self {
        self.has_fake_clock = true;
        self
    }

    /// Adds a line to the configuration file, after all others, so that it overrides them.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// When there is no such program, or it does not start; the error ends with its log.
    pub fn start(&self) -> Result<RedisServer, ServerError> {
        RedisServer::run(self)
    }

    pub(super) fn find_program(&self) -> Result<PathBuf, ServerError> {
        match &self.program {
            Program::Redis if self.has_fake_clock => Err(ServerError::new(
                "Debian's Redis hangs under libfaketime: use `RedisServer::valkey()`",
            )),
            Program::Redis => program::require("redis-server", "redis-server"),
            Program::Valkey => valkey::program(),
            Program::At(path) => Ok(path.clone()),
        }
    }

    /// The text of the configuration file.
    pub(super) fn text(&self, folder: &Path, port: u16) -> String {
        let mut text = Text::default();
        text.path("dir", folder);
        text.line("daemonize no");
        self.write_doors(&mut text, folder, port);
        // A sentinel keeps no data.
        if self.role != Role::Sentinel {
            self.write_data(&mut text);
            self.write_replication(&mut text);
        }
        if self.users.is_some() {
            text.path("aclfile", &folder.join("users.acl"));
        }
        self.lines.iter().for_each(|line| text.line(line));
        text.0
    }

    fn write_doors(&self, text: &mut Text, folder: &Path, port: u16) {
        text.line("bind 127.0.0.1");
        let port = if self.listens == Listens::Socket { 0 } else { port };
        if self.certificates.is_some() {
            text.line("port 0");
            text.line(&format!("tls-port {port}"));
            text.path("tls-ca-cert-file", &folder.join("authority.pem"));
            text.path("tls-cert-file", &folder.join("server.pem"));
            text.path("tls-key-file", &folder.join("server.key"));
            text.line("tls-auth-clients no");
            text.line("tls-replication yes");
            text.line("tls-cluster yes");
        } else {
            text.line(&format!("port {port}"));
        }
        if self.listens != Listens::Port {
            text.path("unixsocket", &folder.join("server.sock"));
        }
        if let Some(password) = &self.password {
            text.line(&format!("requirepass {}", quoted(password)));
        }
    }

    fn write_data(&self, text: &mut Text) {
        text.line("save \"\"");
        if self.append_only {
            text.line("appendonly yes");
            text.line("appendfsync always");
        } else {
            text.line("appendonly no");
        }
        if let Some((bytes, policy)) = &self.max_memory {
            text.line(&format!("maxmemory {bytes}"));
            text.line(&format!("maxmemory-policy {policy}"));
        }
    }

    fn write_replication(&self, text: &mut Text) {
        // Nobody else will ask for the same copy: no need to wait for more replicas.
        text.line("repl-diskless-sync-delay 0");
        if let Some(primary) = &self.primary {
            text.line(&format!("replicaof 127.0.0.1 {}", primary.port));
        }
        // Any node of a cluster or behind sentinels can become a replica of another like it.
        let theirs = self.primary.as_ref().and_then(|primary| primary.password.as_ref());
        if let Some(password) = theirs.or(self.password.as_ref()) {
            text.line(&format!("masterauth {}", quoted(password)));
        }
        if self.role == Role::ClusterNode {
            text.line("cluster-enabled yes");
            text.line("cluster-config-file nodes.conf");
            text.line("cluster-node-timeout 1000");
        }
    }
}

/// The lines of a configuration file.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }

    fn path(&mut self, name: &str, path: &Path) {
        self.line(&format!("{name} {}", quoted(&path.to_string_lossy())));
    }
}

/// A word of the configuration, whatever characters it has.
pub(super) fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_cannot_leave_its_quotes() {
        assert_eq!(quoted(r#"a "b" \c"#), r#""a \"b\" \\c""#);
    }

    #[test]
    fn extra_lines_come_last_so_that_they_win() {
        let text = RedisServer::builder().config("appendonly yes").text(Path::new("/x"), 1);
        assert!(text.ends_with("\nappendonly yes\n"), "{text}");
    }
}
