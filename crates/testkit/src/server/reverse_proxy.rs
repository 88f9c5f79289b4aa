//! Reverse proxies that services really stand behind.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use super::folder::Folder;
use super::port;
use super::process::Process;
use super::wait::poll;
use super::{ServerError, caddy, program};

/// A reverse proxy in front of a service, on a free loopback port. Dropping it ends it.
///
/// Unless told otherwise, each adds the client's address to `X-Forwarded-For` the way that its manual
/// shows: nginx to the end of the line that came, HAProxy as a line of its own.
#[derive(Debug)]
pub struct ReverseProxy {
    address: SocketAddr,
    // Before the folder: the process goes first.
    _process: Process,
    _folder: Folder,
}

/// How often another port is tried, when somebody else took the first.
const TRIES: usize = 5;

impl ReverseProxy {
    /// nginx in front of a service.
    ///
    /// # Errors
    ///
    /// When it is not installed or does not start.
    pub fn nginx(upstream: SocketAddr) -> Result<Self, ServerError> {
        Self::nginx_server(|port| nginx_server(port, upstream))
    }

    /// nginx with the `server` block that `server` makes for its port.
    ///
    /// # Errors
    ///
    /// When it is not installed or does not start.
    pub fn nginx_server(server: impl Fn(u16) -> String) -> Result<Self, ServerError> {
        let config = |folder: &Folder, port: u16| nginx_config(folder, &server(port));
        let program = program::require("nginx", "nginx-light")?;
        Self::start("nginx", &program, &["-c"], config)
    }

    /// Caddy with the Caddyfile that `config` makes for its port.
    ///
    /// # Errors
    ///
    /// When it cannot be fetched or does not start.
    pub fn caddy(config: impl Fn(u16) -> String) -> Result<Self, ServerError> {
        let arguments = ["run", "--adapter", "caddyfile", "--config"];
        Self::start("caddy", &caddy::program()?, &arguments, |_, port| config(port))
    }

    /// HAProxy in front of a service.
    ///
    /// # Errors
    ///
    /// When it is not installed or does not start.
    pub fn haproxy(upstream: SocketAddr) -> Result<Self, ServerError> {
        let config = |_: &Folder, port: u16| haproxy_config(port, upstream);
        let program = program::require("haproxy", "haproxy")?;
        Self::start("haproxy", &program, &["-db", "-f"], config)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn start(
        name: &str,
        program: &Path,
        arguments: &[&str],
        config: impl Fn(&Folder, u16) -> String,
    ) -> Result<Self, ServerError> {
        let mut last = ServerError::new(format!("{name} was not started"));
        for _ in 0..TRIES {
            let folder = Folder::new()?;
            let port = port::free()?;
            folder.write("config", &config(&folder, port))?;
            let path = folder.join("config");
            let path = path.to_string_lossy();
            let arguments: Vec<&str> = arguments.iter().copied().chain([&*path]).collect();
            // Where Caddy keeps what it would otherwise keep in the user's folder.
            let folders = ["XDG_DATA_HOME", "XDG_CONFIG_HOME"]
                .map(|name| (name, folder.path().to_string_lossy().into_owned()));
            let log = folder.join("log");
            let mut process = Process::start(program, &arguments, &folders, &log)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            match wait_for(name, &mut process, address) {
                Ok(()) => return Ok(Self { address, _process: process, _folder: folder }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Waits until somebody listens there.
fn wait_for(name: &str, process: &mut Process, address: SocketAddr) -> Result<(), ServerError> {
    poll(&format!("{name} on {address}"), || {
        if let Some(status) = process.ended()? {
            let message = format!("{name} ended with {status}:\n{}", process.output());
            return Err(ServerError::new(message));
        }
        Ok(TcpStream::connect(address).ok().map(|_| ()))
    })
}

/// One process, so that nothing stays behind when it is killed.
fn nginx_config(folder: &Folder, server: &str) -> String {
    let folder = folder.path().display();
    format!(
        "daemon off;
master_process off;
error_log stderr;
pid {folder}/pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"
    )
}

fn nginx_server(port: u16, upstream: SocketAddr) -> String {
    format!(
        "server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://{upstream};
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
    }}"
    )
}

fn haproxy_config(port: u16, upstream: SocketAddr) -> String {
    format!(
        "global
    maxconn 64
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
    option forwardfor
frontend clients
    bind 127.0.0.1:{port}
    default_backend service
backend service
    server only {upstream}
"
    )
}
