//! How a server is made.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{RedisServer, ServerError, program};

/// What a server shall be like; nothing is started before [`start`](ServerBuilder::start).
#[derive(Debug, Clone, Default)]
pub struct ServerBuilder {
    pub(super) program: Option<PathBuf>,
    pub(super) port: Option<u16>,
    lines: Vec<String>,
}

impl ServerBuilder {
    /// Runs this program instead of the `redis-server` on the search path.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Listens on this loopback port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
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
            Some(path) => Ok(path.clone()),
            None => program::require("redis-server", "redis-server"),
        }
    }

    /// The text of the configuration file.
    pub(super) fn text(&self, folder: &Path, port: u16) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "dir {}", quoted(&folder.to_string_lossy()));
        let _ = writeln!(text, "bind 127.0.0.1");
        let _ = writeln!(text, "port {port}");
        let _ = writeln!(text, "daemonize no");
        let _ = writeln!(text, "save \"\"");
        let _ = writeln!(text, "appendonly no");
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// A word of the configuration, whatever characters it has.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', r"\\").replace('"', "\\\""))
}
