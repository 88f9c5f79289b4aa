//! The process's own log, on standard error.

use std::io;

use tracing::Level;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, LogLevel, LogSettings};

/// Starts logging. Once a process: a second time changes nothing.
pub(super) fn start(settings: LogSettings) {
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
