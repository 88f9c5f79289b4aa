//! A server in the test's process and a client that sends exactly the bytes that it is given.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slidegate::ManualClock;
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::http::{Connections, Handle, HttpSettings, HttpState, ServeLimits, Server};
use slidegate_server::spec::Spec;
use slidegate_testkit::server::poll_async;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Some moment of this century.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// A server on a free loopback port.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<Connections>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Serves a handler with these bounds.
    pub(crate) async fn with<H: Handle>(
        handler: Arc<H>,
        limits: ServeLimits,
        connections: Arc<Connections>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let server =
            Server { listener, handler, limits, connections: connections.clone(), tls: None };
        let task = tokio::spawn(server.serve(async {
            let _ = ended.await;
        }));
        Self { address, connections, end, task }
    }

    /// Serves a handler.
    pub(crate) async fn of<H: Handle>(handler: Arc<H>) -> Self {
        Self::with(handler, ServeLimits::default(), Connections::new("http", 100)).await
    }

    /// Stops the server. The returned handle finishes when all connections have ended.
    pub(crate) fn end(self) -> JoinHandle<()> {
        let _ = self.end.send(());
        self.task
    }
}

/// Returns an engine with a manual clock.
pub(crate) fn engine(spec: &Spec) -> (Arc<Engine>, ManualClock) {
    let clock = ManualClock::new(EPOCH);
    let engine = Engine::with_clock(spec, Some(clock.clone()), &mut NoRestore).unwrap();
    (Arc::new(engine), clock)
}

/// The API of an engine, with the usual settings.
pub(crate) async fn api(spec: &Spec) -> (Running, ManualClock) {
    let (engine, clock) = engine(spec);
    (Running::of(Arc::new(HttpState::new(engine, HttpSettings::default()))).await, clock)
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in small letters.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a field, if it is there once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(field, _)| field == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} comes twice: {self:?}");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    held: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), held: Vec::new() }
    }

    /// From one of the machine's own addresses: all of 127.0.0.0/8 is.
    pub(crate) async fn connect_from(from: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        Self { stream: socket.connect(address).await.unwrap(), held: Vec::new() }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Whether it could be written, or the server has closed the connection.
    pub(crate) async fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Reads one answer; `None` when the server has closed the connection.
    pub(crate) async fn read(&mut self, has_body: bool) -> Option<Answer> {
        let head = loop {
            if let Some(at) = self.held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break self.held.drain(..at + 4).collect::<Vec<u8>>();
            }
            self.fill().await?;
        };
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let fields: Vec<_> = lines.map(field).collect();
        let length = fields.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
        let length = if has_body { length } else { 0 };
        while self.held.len() < length {
            self.fill().await?;
        }
        Some(Answer { status, fields, body: self.held.drain(..length).collect() })
    }

    async fn fill(&mut self) -> Option<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes).await {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                self.held.extend_from_slice(&bytes[..count]);
                Some(())
            }
        }
    }

    /// Sends one request and reads its answer.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        fields: &str,
        body: &str,
    ) -> Answer {
        let length = match body {
            "" => String::new(),
            body => format!("content-length: {}\r\n", body.len()),
        };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n{fields}{length}\r\n{body}");
        self.write(head.as_bytes()).await;
        self.read(method != "HEAD").await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, "", "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, JSON, &body.to_string()).await
    }
}

pub(crate) const JSON: &str = "content-type: application/json\r\n";

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    poll_async(what, async || is_so().then_some(())).await.unwrap();
}
