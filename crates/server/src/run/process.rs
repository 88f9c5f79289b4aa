//! The process: its log on standard error, and systemd.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::{Level, warn};
use tracing_subscriber::fmt;

use crate::config::{LogFormat, LogLevel, LogSettings};

/// Starts logging. Calling it again has no effect.
pub(super) fn start_log(settings: LogSettings) {
    let level = match settings.level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let builder = fmt().with_max_level(level).with_target(false).with_writer(io::stderr);
    let started = match settings.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    drop(started);
}

/// Sends a state such as `READY=1`, `RELOADING=1` or `STOPPING=1` to systemd, if it started the
/// process.
pub(super) fn notify_systemd(state: &str) {
    if let Err(error) = send_to_systemd(state) {
        warn!("cannot send {state} to systemd: {error}");
    }
}

fn send_to_systemd(state: &str) -> io::Result<()> {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match path.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
