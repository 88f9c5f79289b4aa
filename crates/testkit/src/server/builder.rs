//! Builds a server.

use std::path::{Path, PathBuf};

use super::pip::VALKEY;
use super::process::require_program;
use super::{Certificates, RedisServer, ServerError};

/// The settings of a server. Nothing is started before [`start`](ServerBuilder::start).
///
/// A clone describes another server of the same kind, which gets a separate port and directory.
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
    /// The last lines of the configuration file, which override the others.
    lines: Vec<String>,
}

/// The program to run.
#[derive(Debug, Clone, Default)]
enum Program {
    #[default]
    Redis,
    Valkey,
    At(PathBuf),
}

/// The role of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Server,
    Sentinel,
}

/// Where the server listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Listens {
    #[default]
    Port,
    Socket,
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

    /// Listens only on a socket in its directory.
    #[must_use]
    pub fn only_unix_socket(mut self) -> Self {
        self.listens = Listens::Socket;
        self
    }

    /// Requires this password from all clients.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Reads its users from a file with these lines, such as `user alice on >secret ~* +@all`.
    ///
    /// The user `default` is unchanged unless a line changes it.
    #[must_use]
    pub fn users(mut self, lines: impl Into<String>) -> Self {
        self.users = Some(lines.into());
        self
    }

    /// Uses only TLS, for clients, replicas and other nodes.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Uses at most `bytes`, and applies `policy` (`noeviction`, `allkeys-lru`, ...) when they are
    /// not enough.
    #[must_use]
    pub fn max_memory(self, bytes: u64, policy: &str) -> Self {
        self.config(format!("maxmemory {bytes}")).config(format!("maxmemory-policy {policy}"))
    }

    /// Writes every command to disk before it replies, so that nothing is lost by a kill.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.config("appendonly yes").config("appendfsync always")
    }

    /// Follows another server, with that server's password and certificates.
    #[must_use]
    pub fn replica_of(mut self, primary: &RedisServer) -> Self {
        let settings = primary.settings();
        self.certificates = self.certificates.or_else(|| settings.certificates.clone());
        if let Some(password) = &settings.password {
            self = self.config(format!("masterauth {}", quoted(password)));
        }
        self.config(format!("replicaof 127.0.0.1 {}", primary.port()))
    }

    /// Can be a node of a cluster. [`Cluster`](super::Cluster) starts a whole one.
    #[must_use]
    pub fn cluster_node(self) -> Self {
        let cluster = self.config("cluster-enabled yes").config("cluster-config-file nodes.conf");
        cluster.config("cluster-node-timeout 1000")
    }

    /// Returns a sentinel of the same program with the same connection settings.
    pub(super) fn as_sentinel(&self) -> Self {
        let (program, certificates) = (self.program.clone(), self.certificates.clone());
        Self { program, certificates, role: Role::Sentinel, ..Self::default() }
    }

    /// Uses a wall clock that [`set_clock`](RedisServer::set_clock) sets, with libfaketime.
    ///
    /// Only for Valkey: Debian's Redis hangs with it because of its allocator.
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
    pub fn start(&self) -> Result<RedisServer, ServerError> {
        RedisServer::run(self)
    }

    pub(super) fn find_program(&self) -> Result<PathBuf, ServerError> {
        match &self.program {
            Program::Redis if self.has_fake_clock => Err(ServerError::new(
                "Debian's Redis hangs under libfaketime: use `RedisServer::valkey()`",
            )),
            Program::Redis => require_program("redis-server", "redis-server"),
            Program::Valkey => VALKEY.program(),
            Program::At(path) => Ok(path.clone()),
        }
    }

    /// The text of the configuration file.
    pub(super) fn text(&self, folder: &Path, port: u16) -> String {
        let path = |name: &str, path: &Path| format!("{name} {}", quoted(&path.to_string_lossy()));
        let file = |name: &str, file: &str| path(name, &folder.join(file));
        let port = if self.listens == Listens::Socket { 0 } else { port };
        let mut lines = vec![path("dir", folder)];
        lines.extend(["daemonize no", "bind 127.0.0.1"].map(str::to_owned));
        if self.certificates.is_some() {
            lines.extend(["port 0".to_owned(), format!("tls-port {port}")]);
            lines.push(file("tls-ca-cert-file", "authority.pem"));
            lines.push(file("tls-cert-file", "server.pem"));
            lines.push(file("tls-key-file", "server.key"));
            let all = ["tls-auth-clients no", "tls-replication yes", "tls-cluster yes"];
            lines.extend(all.map(str::to_owned));
        } else {
            lines.push(format!("port {port}"));
        }
        if self.listens != Listens::Port {
            lines.push(file("unixsocket", "server.sock"));
        }
        if let Some(password) = &self.password {
            lines.push(format!("requirepass {}", quoted(password)));
        }
        // A sentinel has no data.
        if self.role != Role::Sentinel {
            lines.extend(["save \"\"", "appendonly no"].map(str::to_owned));
            // There is only one replica, so there is no need to wait for others.
            lines.push("repl-diskless-sync-delay 0".to_owned());
            // Any node of a cluster or behind sentinels can become a replica of another.
            let password = self.password.iter();
            lines.extend(password.map(|password| format!("masterauth {}", quoted(password))));
        }
        if self.users.is_some() {
            lines.push(file("aclfile", "users.acl"));
        }
        lines.extend_from_slice(&self.lines);
        lines.join("\n") + "\n"
    }
}

/// Quotes a word of the configuration.
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
