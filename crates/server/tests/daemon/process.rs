//! The real program, started and ended by a test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;
use slidegate_testkit::server::poll;

/// A folder of one test, gone with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("daemon-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file as careful editors do: under another name, then renamed.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let (fresh, path) = (self.path("fresh"), self.path(name));
        fs::write(&fresh, text).unwrap();
        fs::rename(&fresh, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A daemon on free ports.
pub(crate) struct Daemon {
    child: Child,
    said: Arc<Mutex<String>>,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) resp: SocketAddr,
    admin: SocketAddr,
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slidegate"));
    command.args(arguments).env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    command
}

/// The program to its end, for what ends by itself.
pub(crate) fn output(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// The same, with a reader of standard output that has stopped, as in `slidegate ... | true`.
pub(crate) fn output_without_reader(arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command(arguments).stdout(writer).output().unwrap()
}

const FREE: [&str; 8] = [
    "--listen-http",
    "127.0.0.1:0",
    "--listen-grpc",
    "127.0.0.1:0",
    "--listen-resp",
    "127.0.0.1:0",
    "--listen-admin",
    "127.0.0.1:0",
];

/// Flags that make it listen on free ports.
pub(crate) fn free_ports() -> impl Iterator<Item = &'static str> {
    FREE.into_iter()
}

impl Daemon {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::with(command(&[&["serve"], &FREE[..], arguments].concat()))
    }

    pub(crate) fn with_config(config: &Path) -> Self {
        Self::start(&["--config", config.to_str().unwrap()])
    }

    pub(crate) fn with(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (lines, heard) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&said));
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut heard = heard.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        let names = ["HTTP API", "Envoy gRPC", "Redis protocol", "admin"];
        let [http, grpc, resp, admin] = names.map(|name| {
            poll(name, || Ok(address(&said.lock().unwrap(), name)))
                .unwrap_or_else(|error| panic!("{error}: {}", said.lock().unwrap()))
        });
        Self { child, said, http, grpc, resp, admin }
    }

    /// The address that it announced under a name.
    pub(crate) fn announced(&self, name: &str) -> SocketAddr {
        address(&self.said(), name).unwrap()
    }

    /// Waits until it has said something.
    pub(crate) fn hears(&self, words: &str) {
        poll(words, || Ok(self.said().contains(words).then_some(())))
            .unwrap_or_else(|error| panic!("{error}: {}", self.said()));
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Status and body of a request to the admin listener.
    pub(crate) fn admin(&self, method: &str, path: &str) -> (u16, String) {
        exchange(TcpStream::connect(self.admin).unwrap(), method, path)
    }

    pub(crate) fn check(&self, policy: &str, key: &str) -> bool {
        let path = format!("/v1/check?policy={policy}&key={key}");
        let (status, body) = exchange(TcpStream::connect(self.http).unwrap(), "GET", &path);
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["allowed"].as_bool().unwrap()
    }

    /// How many of `times` checks are allowed.
    pub(crate) fn allowed(&self, policy: &str, key: &str, times: usize) -> usize {
        (0..times).filter(|_| self.check(policy, key)).count()
    }

    /// A line of the metrics that begins so.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let (_, page) = self.admin("GET", "/metrics");
        let line = page.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    pub(crate) fn signal(&self, name: &str) {
        // Built into every shell, where the program may be missing.
        let line = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }

    /// Ends it the hard way.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as systemd does.
    pub(crate) fn terminate(mut self) -> (ExitStatus, String) {
        self.signal("TERM");
        let ended = poll("the end", || Ok(self.child.try_wait().unwrap())).unwrap();
        (ended, self.said())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the address that was printed under a name.
fn address(said: &str, name: &str) -> Option<SocketAddr> {
    let line = said.lines().find(|line| line.trim_start().starts_with(name))?;
    let rest = line.trim_start().strip_prefix(name)?.trim();
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    rest.split(['/', ' ']).next()?.parse().ok()
}

pub(crate) fn exchange<S: Read + Write>(stream: S, method: &str, path: &str) -> (u16, String) {
    send(stream, &format!("{method} {path} HTTP/1.1\r\n"), "")
}

/// Status and body of a request with a JSON body.
pub(crate) fn post<S: Read + Write>(stream: S, path: &str, body: &str) -> (u16, String) {
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    send(stream, &format!("POST {path} HTTP/1.1\r\n{fields}"), body)
}

fn send<S: Read + Write>(mut stream: S, head: &str, body: &str) -> (u16, String) {
    let request = format!("{head}Host: localhost\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A TLS stream may end without saying so.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}
