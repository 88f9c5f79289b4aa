//! A redis-server of a test's own, on a socket file.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use redis::Connection;

/// Runs until it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    pub(super) fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("slidegate-scripts-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--dir".as_ref(), folder.as_os_str()])
            .args(["--unixsocket".as_ref(), folder.join("socket").as_os_str()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains("accept connections at")),
            "the server did not start"
        );
        Self { child, folder }
    }

    pub(super) fn connect(&self) -> Connection {
        let url = format!("redis+unix://{}", self.folder.join("socket").display());
        redis::Client::open(url).unwrap().get_connection().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
