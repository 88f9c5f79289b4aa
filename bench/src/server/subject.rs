//! The measured servers, and how they are started.

use std::ffi::OsString;

use super::process::{Ports, Server, Wrapper};
use super::program::Programs;
use super::workload::{LIMIT, Protocol};
use crate::Failure;

/// A measured server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// Ours.
    Slidegate,
    /// Reads a request and answers with as many bytes as ours: what HTTP alone costs.
    EmptyHyper,
    /// Reads a message and answers with one like ours: what gRPC alone costs.
    EmptyTonic,
    /// `INCR`: the least that a shared counter costs.
    Redis,
    Throttlecrab,
}

impl ServerKind {
    /// As it is printed.
    pub(super) fn name(self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (Self::Slidegate, _) => "slidegate",
            (Self::EmptyHyper, _) => "empty-hyper",
            (Self::EmptyTonic, _) => "empty-tonic",
            (Self::Redis, _) => "redis-incr",
            (Self::Throttlecrab, Protocol::Http) => "throttlecrab-http",
            (Self::Throttlecrab, Protocol::Resp { .. }) => "throttlecrab-redis",
            (Self::Throttlecrab, Protocol::Grpc) => "throttlecrab-grpc",
        }
    }

    /// Starts it with `workers` worker threads, and waits until it listens.
    pub(super) async fn start(
        self,
        programs: &Programs,
        workers: usize,
        wrapper: Wrapper,
    ) -> Result<Server, Failure> {
        let ports = Ports::free()?;
        let (program, arguments) = self.command(programs, ports)?;
        let listens: &[u16] = match self {
            Self::Slidegate | Self::Throttlecrab => &[ports.http, ports.resp, ports.grpc],
            Self::EmptyHyper => &[ports.http],
            Self::EmptyTonic => &[ports.grpc],
            Self::Redis => &[ports.resp],
        };
        let server = Server::start(&program, &arguments, workers, wrapper, ports)?;
        server.wait_until_listening(listens).await?;
        Ok(server)
    }

    fn command(
        self,
        programs: &Programs,
        ports: Ports,
    ) -> Result<(OsString, Vec<OsString>), Failure> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut say = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        let program = match self {
            Self::Slidegate => {
                say(&["serve", "--listen-http", &local(ports.http)]);
                say(&["--listen-resp", &local(ports.resp), "--listen-admin", &local(ports.admin)]);
                say(&["--listen-grpc", &local(ports.grpc), "--config"]);
                arguments.push(programs.config.as_os_str().to_owned());
                programs.slidegate.clone().into()
            }
            Self::EmptyHyper => {
                let bytes = programs.answer_bytes.to_string();
                say(&["server-child", "empty-hyper", &ports.http.to_string(), &bytes]);
                std::env::current_exe()?.into()
            }
            Self::EmptyTonic => {
                say(&["server-child", "empty-tonic", &ports.grpc.to_string(), "0"]);
                std::env::current_exe()?.into()
            }
            Self::Redis => {
                say(&["--port", &ports.resp.to_string(), "--bind", "127.0.0.1"]);
                say(&["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
                "redis-server".into()
            }
            Self::Throttlecrab => {
                let path = programs.throttlecrab.clone().ok_or("throttlecrab-server is missing")?;
                for (name, port) in
                    [("http", ports.http), ("grpc", ports.grpc), ("redis", ports.resp)]
                {
                    say(&[&format!("--{name}"), &format!("--{name}-host"), "127.0.0.1"]);
                    say(&[&format!("--{name}-port"), &port.to_string()]);
                }
                // Its default capacity is less than there are keys.
                say(&["--store", "periodic", "--store-capacity", "200000"]);
                say(&["--log-level", "warn"]);
                path.into()
            }
        };
        Ok((program, arguments))
    }
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Returns the daemon's configuration: the same limit for all protocols.
pub(super) fn config() -> String {
    format!(
        "slidegate: 1\nlog: {{level: warn}}\npolicies:\n  - name: api\n    \
         quotas: {LIMIT}/minute\ndomains:\n  - domain: bench\n    descriptors:\n      \
         - key: user\n        rate_limit: {{unit: minute, requests_per_unit: {LIMIT}}}\n"
    )
}
