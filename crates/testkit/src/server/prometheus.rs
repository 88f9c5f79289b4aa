//! A real Prometheus that scrapes a program.

use core::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::ServerError;
use super::folder::Folder;
use super::process::{Process, free_port, require_program};
use super::wait::poll;

/// The longest time for one query.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A Prometheus that scrapes some addresses every second as the job `slidegate`. Dropping it ends it.
#[derive(Debug)]
pub struct Prometheus {
    port: u16,
    // Declared before the directory, so that the process is dropped first.
    _process: Process,
    _folder: Folder,
}

impl Prometheus {
    /// Starts it. The metrics of each target are at `/metrics`.
    pub fn start(targets: &[SocketAddr]) -> Result<Self, ServerError> {
        let program = require_program("prometheus", "prometheus")?;
        let folder = Folder::new()?;
        let mut names = String::new();
        for target in targets {
            let _ = write!(names, "'{target}',");
        }
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs: [{{job_name: slidegate, static_configs: [{{targets: [{names}]}}]}}]\n"
        );
        folder.write("prometheus.yml", &config)?;
        let port = free_port()?;
        let arguments = [
            format!("--config.file={}", folder.join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let arguments = arguments.each_ref().map(String::as_str);
        let process = Process::start(&program, &arguments, &[], &folder.join("log"))?;
        let prometheus = Self { port, _process: process, _folder: folder };
        poll("prometheus", || Ok(prometheus.query("vector(1)").ok()))?;
        Ok(prometheus)
    }

    /// Runs a query now, and returns its series: objects with `metric` and `value`.
    pub fn query(&self, query: &str) -> Result<Vec<Value>, ServerError> {
        let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let data = self.get(&format!("/api/v1/query?query={query}"))?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the values of a label of the series that a selector matches.
    pub fn label_values(&self, selector: &str, label: &str) -> Result<Vec<Value>, ServerError> {
        let selector = utf8_percent_encode(selector, NON_ALPHANUMERIC);
        let data = self.get(&format!("/api/v1/label/{label}/values?match[]={selector}"))?;
        Ok(data.as_array().cloned().unwrap_or_default())
    }

    fn get(&self, path: &str) -> Result<Value, ServerError> {
        let failed = |error: io::Error| ServerError::new(format!("prometheus {path}: {error}"));
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        // In HTTP/1.0, the body ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").map_err(failed)?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).map_err(failed)?;
        let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let reply: Value = serde_json::from_str(body)
            .map_err(|error| ServerError::new(format!("prometheus {path}: {error}: {reply}")))?;
        match reply["error"].as_str() {
            Some(error) => Err(ServerError::new(format!("prometheus {path}: {error}"))),
            None => Ok(reply["data"].clone()),
        }
    }
}
