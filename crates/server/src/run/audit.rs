//! The audit log: one line of JSON per decision.

mod writer;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs::OpenOptions;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde_json::json;
use slidegate::{Clock, Decision, Key, MonotonicClock, Secret};
use slidegate_gate::{GateOutcome, Observation, Observer};

use self::writer::{AuditWriter, WriterState};
use super::paths::check_directory;
use crate::admin::ResultCounts;
use crate::config::{AuditDecisions, AuditSettings, read_file};

/// The maximum number of lines that wait to be written. More are dropped and counted.
const WAITING_MAX: usize = 16_384;
/// The number of waiting lines from which on requests are denied, if the log is required. The rest is
/// for requests that are being decided at that moment.
const WAITING_HIGH: u64 = WAITING_MAX as u64 / 2;

/// Logs decisions. A slow disk never delays a request: lines are dropped instead or, if the log is
/// required, requests are denied.
#[derive(Debug)]
pub struct Audit {
    lines: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
    decisions: AuditDecisions,
    sample_percent: u64,
    is_required: bool,
    asked: AtomicU64,
    counts: Arc<ResultCounts>,
    state: Arc<WriterState>,
    clock: MonotonicClock,
    /// Hashes secret keys. It outlives the process, so that equal keys have equal hashes.
    secret: Secret,
}

impl Audit {
    /// Opens the file and starts writing.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn start(settings: &AuditSettings) -> Result<Self, String> {
        let named = |error: io::Error| format!("audit log {}: {error}", settings.path.display());
        let secret = match &settings.key_secret {
            Some(secret) => derived(secret),
            None => derived(&own_secret(&secret_path(&settings.path))?),
        };
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let results = ["written", "dropped", "failed"];
        let (name, help) = ("slidegate_audit_lines_total", "Audit lines by result.");
        let counts = Arc::new(ResultCounts::new(name, help, &results));
        let state = Arc::new(WriterState::default());
        let mut writer = AuditWriter::open(settings, &counts, &state).map_err(named)?;
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(|error| format!("audit log: {error}"))?;
        Ok(Self {
            lines: Some(sender),
            writer: Some(writer),
            decisions: settings.decisions,
            sample_percent: u64::from(settings.sample_percent.min(100)),
            is_required: settings.required,
            asked: AtomicU64::new(0),
            counts,
            state,
            clock: MonotonicClock::new(),
            secret,
        })
    }

    /// Checks whether the log can be written, without changing anything.
    ///
    /// # Errors
    ///
    /// When its directory does not exist or cannot be written.
    pub(super) fn check(settings: &AuditSettings) -> Result<(), String> {
        let path = &settings.path;
        if path.is_dir() {
            let path = path.display();
            return Err(format!("audit.path {path} is a directory: name a file in it"));
        }
        // Devices and pipes are not created here.
        if path.exists() && !path.is_file() {
            return Ok(());
        }
        check_directory("audit.path", path, path.parent().unwrap_or(Path::new(".")))
    }

    /// Returns the number of lines by result.
    pub fn counts(&self) -> &Arc<ResultCounts> {
        &self.counts
    }

    /// Returns the reason if requests are denied because of the log.
    pub fn denial(&self) -> Option<String> {
        let message =
            "the audit log cannot be written, and `audit.required` is set: every request is denied";
        (!self.can_record()).then(|| message.to_owned())
    }

    /// Opens the file again, after it was renamed or removed.
    pub fn reopen(&self) {
        self.state.reopen();
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

    fn line(&self, observation: &Observation<'_>) -> String {
        let Observation { gate, key, cost, decision, is_degraded, caller, .. } = *observation;
        // A request without a key is denied without a decision.
        let key = decision.map(|_| {
            if gate.has_secret_keys() {
                format!("hash:{:016x}", key.fingerprint(&self.secret))
            } else {
                String::from_utf8_lossy(key).into_owned()
            }
        });
        let now = Duration::from_nanos(self.clock.now());
        let mut line = json!({
            "time": now.as_secs_f64(),
            "policy": gate.name(),
            "key": key,
            "cost": cost.get(),
            "outcome": observation.outcome.name(),
            "remaining": decision.map(Decision::remaining),
            "retry_after": decision.and_then(|decision| decision.retry_after().duration()).map(|wait| wait.as_secs_f64()),
            "degraded": is_degraded,
        });
        if let Some(reason) = decision.and_then(Decision::degraded_reason) {
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
        // A gate that is switched off decides nothing.
        if observation.outcome == GateOutcome::Off || !self.wants(observation) {
            return;
        }
        // Lines about decisions that could not be recorded would only take the space of other lines.
        let is_lost = observation.outcome == GateOutcome::Unrecorded || {
            let line = self.line(observation);
            self.state.waiting_more();
            let sent = self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
            if !sent {
                self.state.waiting_less();
            }
            !sent
        };
        if is_lost {
            self.counts.add("dropped", 1);
        }
    }

    fn can_record(&self) -> bool {
        !self.is_required || (!self.state.is_failing() && self.state.waiting() < WAITING_HIGH)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        // Without a sender the writer finishes its queue.
        self.lines = None;
        self.state.end();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Two hashes of a secret of any length.
fn derived(secret: &[u8]) -> Secret {
    let mut bytes = [0; 16];
    for (number, half) in bytes.chunks_exact_mut(8).enumerate() {
        let salt = Secret::new([u8::try_from(number).unwrap_or(0); 16]);
        half.copy_from_slice(&secret.fingerprint(&salt).to_le_bytes());
    }
    Secret::new(bytes)
}

/// `audit.log.secret` for `audit.log`.
fn secret_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".secret");
    PathBuf::from(name)
}

/// The secret in a file, which is created if it does not exist. A log that is not a file has none.
fn own_secret(path: &Path) -> Result<Vec<u8>, String> {
    let random = || -> Vec<u8> {
        // The keys of each are random.
        let parts = [(); 4].map(|()| RandomState::new().hash_one(path));
        parts.iter().flat_map(|part| part.to_le_bytes()).collect()
    };
    let named = |error: io::Error| format!("audit secret {}: {error}", path.display());
    if path.parent().is_some_and(|folder| folder.starts_with("/dev") || folder.starts_with("/proc"))
    {
        return Ok(random());
    }
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let secret = random();
            file.write_all(&secret).and_then(|()| file.sync_all()).map_err(named)?;
            Ok(secret)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let secret = read_file(path).map_err(|problem| format!("audit secret {problem}"))?;
            if secret.len() < 16 {
                return Err(format!(
                    "audit secret {}: {} bytes are too few, use 16 or more, or remove the file for \
                     a new one",
                    path.display(),
                    secret.len()
                ));
            }
            Ok(secret)
        }
        Err(error) => Err(named(error)),
    }
}
