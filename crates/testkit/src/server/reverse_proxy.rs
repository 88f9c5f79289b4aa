//! Real reverse proxies.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use super::ServerError;
use super::folder::Folder;
use super::pip::{CADDY, ENVOY};
use super::process::{Process, free_port, require_program};
use super::wait::poll;

/// A reverse proxy for a service, on a free loopback port. Dropping it ends it.
///
/// [`nginx`](Self::nginx) and [`haproxy`](Self::haproxy) add the client's address to
/// `X-Forwarded-For` as in their manuals: nginx at the end of the line, HAProxy as a separate line.
#[derive(Debug)]
pub struct ReverseProxy {
    address: SocketAddr,
    // Declared before the directory, so that the process is dropped first.
    process: Process,
    _folder: Folder,
}

/// The number of ports to try if another process takes the first.
const TRIES: usize = 5;

impl ReverseProxy {
    /// Starts nginx for a service.
    pub fn nginx(upstream: SocketAddr) -> Result<Self, ServerError> {
        Self::nginx_server(|port| nginx_server(port, upstream))
    }

    /// Starts nginx with the `server` block that `server` returns for its port.
    pub fn nginx_server(server: impl Fn(u16) -> String) -> Result<Self, ServerError> {
        let config = |folder: &Folder, port: u16| nginx_config(folder, &server(port));
        let program = require_program("nginx", "nginx-light")?;
        Self::start("nginx", &program, &["-c"], config)
    }

    /// Starts Caddy with the Caddyfile that `config` returns for its port.
    pub fn caddy(config: impl Fn(u16) -> String) -> Result<Self, ServerError> {
        let arguments = ["run", "--adapter", "caddyfile", "--config"];
        Self::start("caddy", &CADDY.program()?, &arguments, |_, port| config(port))
    }

    /// Starts HAProxy for a service.
    pub fn haproxy(upstream: SocketAddr) -> Result<Self, ServerError> {
        let config = |_: &Folder, port: u16| haproxy_config(port, upstream);
        let program = require_program("haproxy", "haproxy")?;
        Self::start("haproxy", &program, &["-db", "-f"], config)
    }

    /// Starts Envoy with the YAML configuration that `config` returns for its port.
    pub fn envoy(config: impl Fn(u16) -> String) -> Result<Self, ServerError> {
        // Its shared memory has a number, so that several can run at the same time.
        let arguments =
            ["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning", "-c"];
        Self::start("envoy", &ENVOY.program()?, &arguments, |_, port| config(port))
    }

    /// Returns its output so far.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Returns its address.
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
            let port = free_port()?;
            // Envoy detects the format from the extension.
            folder.write("config.yaml", &config(&folder, port))?;
            let path = folder.join("config.yaml");
            let path = path.to_string_lossy();
            let arguments: Vec<&str> = arguments.iter().copied().chain([&*path]).collect();
            // Directories for files that Caddy would otherwise put in the user's directory.
            let folders = ["XDG_DATA_HOME", "XDG_CONFIG_HOME"]
                .map(|name| (name, folder.path().to_string_lossy().into_owned()));
            let log = folder.join("log");
            let process = Process::start(program, &arguments, &folders, &log)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            match wait_for(name, &process, address) {
                Ok(()) => return Ok(Self { address, process, _folder: folder }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Waits until it accepts connections.
fn wait_for(name: &str, process: &Process, address: SocketAddr) -> Result<(), ServerError> {
    poll(&format!("{name} on {address}"), || {
        if let Some(status) = process.ended()? {
            let message = format!("{name} ended with {status}:\n{}", process.output());
            return Err(ServerError::new(message));
        }
        Ok(TcpStream::connect(address).ok().map(|_| ()))
    })
}

/// Returns a configuration with one process, so that nothing stays when it is killed.
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
