//! Writes audit lines to a file that is rotated.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use slidegate::{Clock, MonotonicClock};
use tracing::{error, info, warn};

use crate::admin::ResultCounts;
use crate::config::AuditSettings;
use crate::net::LogInterval;

/// The maximum time that a line is buffered.
const FLUSH: Duration = Duration::from_millis(200);
/// The size of the buffer from which on it is written at once.
const BUFFER_MAX: usize = 64 << 10;

/// The state that the writer shares with the threads that decide.
#[derive(Debug, Default)]
pub(super) struct WriterState {
    /// Lines that were sent and are not written yet.
    waiting: AtomicU64,
    /// Whether the last attempt to write failed.
    failing: AtomicBool,
    reopen: AtomicBool,
    /// Whether the process ends, so that there is nothing to wait for.
    ended: AtomicBool,
}

// The values are independent, and one request more or less does no harm: `Relaxed` is enough.
impl WriterState {
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn waiting_more(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn waiting_less(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Writes lines to a file that is renamed when it is full: `audit.log.1`, `audit.log.2`, ...
///
/// If the disk is full or fails, lines wait until it works again. Only what does not fit into the queue
/// meanwhile, and what cannot be written at the end of the process, is lost.
#[derive(Debug)]
pub(super) struct AuditWriter {
    path: PathBuf,
    size_max: u64,
    files: u32,
    is_synced: bool,
    file: File,
    /// Only regular files are rotated.
    is_regular: bool,
    size: u64,
    buffer: Vec<u8>,
    /// Lines in the buffer. The first one may have been written in part.
    lines: u64,
    /// When the oldest line in the buffer came.
    since: u64,
    clock: MonotonicClock,
    counts: Arc<ResultCounts>,
    state: Arc<WriterState>,
    problems: LogInterval,
}

impl AuditWriter {
    pub(super) fn open(
        settings: &AuditSettings,
        counts: &Arc<ResultCounts>,
        state: &Arc<WriterState>,
    ) -> io::Result<Self> {
        let (file, is_regular, size) = open(&settings.path)?;
        Ok(Self {
            path: settings.path.clone(),
            size_max: settings.size_max.max(1),
            files: settings.files.max(1),
            is_synced: settings.fsync,
            file,
            is_regular,
            size,
            buffer: Vec::new(),
            lines: 0,
            since: 0,
            clock: MonotonicClock::new(),
            counts: Arc::clone(counts),
            state: Arc::clone(state),
            problems: LogInterval::default(),
        })
    }

    /// Writes lines until the sender is dropped.
    pub(super) fn run(&mut self, lines: &Receiver<String>) {
        loop {
            if self.state.reopen.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            if self.state.is_failing() {
                // Lines stay in the queue: there is no room for more in the buffer.
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a thread of its own waits for a disk"
                )]
                std::thread::sleep(FLUSH);
                self.flush();
                if self.state.is_failing() && self.state.ended.load(Ordering::Relaxed) {
                    return self.finish(lines);
                }
                continue;
            }
            match lines.recv_timeout(self.until_flush()) {
                Ok(line) => self.add(&line),
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Err(RecvTimeoutError::Disconnected) => return self.finish(lines),
            }
        }
    }

    fn until_flush(&self) -> Duration {
        if self.lines == 0 {
            return FLUSH;
        }
        FLUSH.saturating_sub(Duration::from_nanos(self.clock.now().saturating_sub(self.since)))
    }

    fn add(&mut self, line: &str) {
        let length = line.len() as u64 + 1;
        let is_full = self.size + self.buffer.len() as u64 + length > self.size_max;
        if is_full && self.is_regular && self.size + self.buffer.len() as u64 > 0 {
            self.flush();
            if !self.state.is_failing()
                && let Err(error) = self.rotate()
            {
                self.report(&format_args!("cannot rotate it, so it grows: {error}"));
            }
        }
        if self.lines == 0 {
            self.since = self.clock.now();
        }
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        self.lines += 1;
        if self.buffer.len() >= BUFFER_MAX || self.until_flush().is_zero() {
            self.flush();
        }
    }

    /// Writes the buffer. What cannot be written stays in it.
    fn flush(&mut self) {
        let was_failing = self.state.is_failing();
        let flushed = self.write_buffer();
        self.state.failing.store(flushed.is_err(), Ordering::Relaxed);
        match flushed {
            Ok(()) => {
                let lines = core::mem::take(&mut self.lines);
                self.counts.add("written", lines);
                self.state.waiting.fetch_sub(lines, Ordering::Relaxed);
                if was_failing {
                    info!("audit log {}: written again", self.path.display());
                }
            }
            Err(error) => self.report(&format_args!("cannot write, lines wait: {error}")),
        }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let (mut written, mut result) = (0, Ok(()));
        while written < self.buffer.len() && result.is_ok() {
            match self.file.write(&self.buffer[written..]) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
        }
        self.size += written as u64;
        self.buffer.drain(..written);
        result?;
        if self.is_synced && self.is_regular { self.file.sync_data() } else { Ok(()) }
    }

    /// Writes what is left, and counts what cannot be written.
    fn finish(&mut self, lines: &Receiver<String>) {
        while let Ok(line) = lines.try_recv() {
            if self.state.is_failing() {
                self.lines += 1;
            } else {
                self.add(&line);
            }
        }
        if !self.state.is_failing() {
            self.flush();
        }
        if self.state.is_failing() {
            self.counts.add("failed", self.lines);
            error!("audit log {}: {} lines are lost", self.path.display(), self.lines);
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.files.saturating_sub(1)).rev() {
            let _ = fs::rename(numbered(number), numbered(number + 1));
        }
        if self.files > 1 {
            fs::rename(&self.path, numbered(1))?;
        } else {
            fs::remove_file(&self.path)?;
        }
        (self.file, self.is_regular, self.size) = open(&self.path)?;
        Ok(())
    }

    fn reopen(&mut self) {
        self.flush();
        match open(&self.path) {
            Ok((file, is_regular, size)) => {
                (self.file, self.is_regular, self.size) = (file, is_regular, size);
            }
            Err(error) => {
                self.report(&format_args!("cannot open it again, the old file is used: {error}"));
            }
        }
    }

    fn report(&mut self, problem: &dyn core::fmt::Display) {
        if self.problems.has_passed() {
            warn!("audit log {}: {problem}", self.path.display());
        }
    }
}

/// Opens the file with its size. A new one has mode 0600, since keys are in it.
fn open(path: &Path) -> io::Result<(File, bool, u64)> {
    // Without it, opening a named pipe waits until another process reads from it.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).custom_flags(flags);
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => {
            io::Error::other("a pipe that no process reads: start its reader first")
        }
        _ => error,
    })?;
    // Lines are written whole: the thread waits for a slow reader.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    let metadata = file.metadata()?;
    Ok((file, metadata.is_file(), metadata.len()))
}
