//! The audit log: one line of JSON per decision, in files that are rotated by size.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde_json::json;
use slidegate::{Clock, Decision, Key, MonotonicClock, Secret};
use slidegate_gate::{GateOutcome, Observation, Observer};

use crate::admin::ResultCounts;
use crate::config::{AuditDecisions, AuditSettings};

/// The maximum number of lines that wait to be written. More are dropped and counted.
const WAITING_MAX: usize = 16_384;
/// The maximum time that a line is buffered.
const FLUSH: Duration = Duration::from_millis(200);

/// Logs decisions. A slow disk never delays a request: lines are dropped instead.
#[derive(Debug)]
pub struct Audit {
    lines: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
    decisions: AuditDecisions,
    sample_percent: u64,
    asked: AtomicU64,
    counts: Arc<ResultCounts>,
    clock: MonotonicClock,
    /// Hashes secret keys, so that equal keys of one run have equal hashes.
    secret: Secret,
}

impl Audit {
    /// Opens the file and starts writing.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn start(settings: &AuditSettings) -> Result<Self, String> {
        let mut file = Rotated::open(settings)
            .map_err(|error| format!("audit log {}: {error}", settings.path.display()))?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let results = ["written", "dropped", "failed"];
        let (name, help) = ("slidegate_audit_lines_total", "Audit lines by result.");
        let counts = Arc::new(ResultCounts::new(name, help, &results));
        let of_writer = Arc::clone(&counts);
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || file.write_all(&receiver, &of_writer))
            .map_err(|error| format!("audit log: {error}"))?;
        Ok(Self {
            lines: Some(sender),
            writer: Some(writer),
            decisions: settings.decisions,
            sample_percent: u64::from(settings.sample_percent.min(100)),
            asked: AtomicU64::new(0),
            counts,
            clock: MonotonicClock::new(),
            secret: Secret::random(),
        })
    }

    /// Returns what became of the lines so far.
    pub fn counts(&self) -> &Arc<ResultCounts> {
        &self.counts
    }

    fn wants(&self, observation: &Observation<'_>) -> bool {
        match self.decisions {
            AuditDecisions::All => true,
            AuditDecisions::Denials => !matches!(observation.outcome, GateOutcome::Allowed),
            AuditDecisions::Sampled => {
                let number = self.asked.fetch_add(1, Ordering::Relaxed);
                number.wrapping_mul(self.sample_percent) % 100 < self.sample_percent
            }
        }
    }

    fn line(&self, observation: &Observation<'_>, decision: &Decision) -> String {
        let Observation { gate, key, cost, caller, .. } = *observation;
        let key = if gate.has_secret_keys() {
            format!("hash:{:016x}", key.fingerprint(&self.secret))
        } else {
            String::from_utf8_lossy(key).into_owned()
        };
        let now = Duration::from_nanos(self.clock.now());
        let mut line = json!({
            "time": now.as_secs_f64(),
            "policy": gate.name(),
            "key": key,
            "cost": cost.get(),
            "outcome": observation.outcome.name(),
            "remaining": decision.remaining(),
            "retry_after": decision.retry_after().duration().map(|wait| wait.as_secs_f64()),
            "degraded": decision.is_degraded(),
        });
        if let Some(reason) = decision.degraded_reason() {
            line["degraded_reason"] = reason.name().into();
        }
        if let Some(trace) = caller.trace() {
            line["trace_id"] = trace.trace_id().into();
        }
        line.to_string()
    }
}

impl Observer for Audit {
    fn decided(&self, observation: &Observation<'_>) {
        let Some(decision) = observation.decision else { return };
        // A gate that is switched off decides nothing.
        if observation.outcome == GateOutcome::Off || !self.wants(observation) {
            return;
        }
        let line = self.line(observation, decision);
        let sent = self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        if !sent {
            self.counts.add("dropped", 1);
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        // Without a sender the writer finishes its queue.
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// A file that is renamed when it is full: `audit.log.1`, `audit.log.2`, ...
#[derive(Debug)]
struct Rotated {
    path: PathBuf,
    size_max: u64,
    files: u32,
    file: BufWriter<File>,
    size: u64,
}

impl Rotated {
    fn open(settings: &AuditSettings) -> io::Result<Self> {
        let (file, size) = open(&settings.path)?;
        Ok(Self {
            path: settings.path.clone(),
            size_max: settings.size_max.max(1),
            files: settings.files.max(1),
            file,
            size,
        })
    }

    /// Writes lines until the sender is dropped. A line that cannot be written is lost; the daemon keeps
    /// limiting.
    fn write_all(&mut self, lines: &Receiver<String>, counts: &ResultCounts) {
        // Lines in the buffer: written or failed when it is flushed.
        let mut buffered = 0;
        let flush = |file: &mut BufWriter<File>, buffered: &mut u64| {
            let result = if file.flush().is_ok() { "written" } else { "failed" };
            counts.add(result, core::mem::take(buffered));
        };
        loop {
            match lines.recv_timeout(FLUSH) {
                Ok(line) => match self.write(&line) {
                    Ok(()) => buffered += 1,
                    Err(_) => counts.add("failed", 1),
                },
                Err(RecvTimeoutError::Timeout) => flush(&mut self.file, &mut buffered),
                Err(RecvTimeoutError::Disconnected) => {
                    return flush(&mut self.file, &mut buffered);
                }
            }
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let length = line.len() as u64 + 1;
        if self.size > 0 && self.size + length > self.size_max {
            self.rotate()?;
        }
        self.size += length;
        writeln!(self.file, "{line}")
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
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
        (self.file, self.size) = open(&self.path)?;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let size = file.metadata()?.len();
    Ok((BufWriter::new(file), size))
}
