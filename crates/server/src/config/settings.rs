//! Settings of the process: what is not about limits, and is read once at the start.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;

use slidegate_http::ClientAddress;

/// All settings; each has a default, so that no file is needed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Where it listens.
    pub listen: ListenSettings,
    /// TLS of the data listeners.
    pub tls: Option<TlsSettings>,
    /// Who may use the admin listener.
    pub admin: AdminSettings,
    /// What is kept on disk; `None` for nothing.
    pub snapshot: Option<SnapshotSettings>,
    /// How the client's address is found in rules.
    pub address: ClientAddress,
    /// What Envoy is answered.
    pub envoy: EnvoySettings,
    /// The guard against overload.
    pub overload: OverloadSettings,
    /// The audit log; `None` for none.
    pub audit: Option<AuditSettings>,
    /// Bounds on what clients may send.
    pub limits: LimitSettings,
    /// The process's own log.
    pub log: LogSettings,
    /// Spans of decisions; `None` for none.
    pub tracing: Option<TracingSettings>,
}

/// Where it listens; `None` is "off".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenSettings {
    /// The HTTP API, forward auth, and Envoy's `/json`.
    pub http: Option<SocketAddr>,
    /// Envoy's gRPC service.
    pub grpc: Option<SocketAddr>,
    /// The Redis protocol.
    pub resp: Option<SocketAddr>,
    /// Metrics, health, reload.
    pub admin: Option<SocketAddr>,
}

/// A certificate with its key, both as PEM files that may be replaced while the daemon runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Whose certificates clients must show; `None` asks for none.
    pub client_authority: Option<PathBuf>,
}

/// Who may use the admin listener.
///
/// Beyond loopback, a token or a client authority is there: loading makes sure of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdminSettings {
    /// A file with the token that requests must carry.
    pub token_file: Option<PathBuf>,
    /// TLS of the admin listener.
    pub tls: Option<TlsSettings>,
}

/// What is kept on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// A file, or a directory for files of our naming.
    pub path: PathBuf,
    /// How often it is written.
    pub interval: Duration,
    /// Whether a damaged file means to start without counts; otherwise it means not to start.
    pub start_empty_if_damaged: bool,
}

/// What Envoy is answered, by the words of envoyproxy/ratelimit.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the reference service")]
#[derive(Debug, Clone, PartialEq)]
pub struct EnvoySettings {
    /// A request denied by one descriptor is charged to all, as the reference service does.
    pub charge_all: bool,
    /// No request is denied.
    pub shadow_mode: bool,
    /// All descriptors are in quota mode.
    pub quota_mode: bool,
    /// Answers carry the three headers below.
    pub response_headers: bool,
    /// The header that tells the limit.
    pub limit_header: String,
    /// The header that tells what remains.
    pub remaining_header: String,
    /// The header that tells when more is available.
    pub reset_header: String,
    /// Answers carry the metadata of descriptors.
    pub dynamic_metadata: bool,
    /// Several files may add to one domain.
    pub merge_domains: bool,
    /// The share of a limit from which on a request counts as near it, in thousandths.
    pub near_limit_thousandths: u16,
}

/// The guard against overload; the settings of `slidegate-tower`'s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverloadSettings {
    /// Whether it guards.
    pub enabled: bool,
    /// How far arrivals may exceed their baseline, in per cent of it.
    pub multiple_percent: u32,
    /// Requests served at a time; `None` for no bound.
    pub concurrency_max: Option<usize>,
    /// Requests queued at a time.
    pub queue_max: usize,
    /// How long a request may be queued.
    pub delay_max: Duration,
}

/// The audit log: a line of JSON a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file; older ones get a number behind the name.
    pub path: PathBuf,
    /// Which decisions.
    pub decisions: AuditDecisions,
    /// Of all decisions when they are sampled.
    pub sample_percent: u8,
    /// The size from which on a new file is begun, in bytes.
    pub size_max: u64,
    /// Files kept, the current one included.
    pub files: u32,
}

/// Which decisions are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditDecisions {
    /// What was denied.
    #[default]
    Denials,
    /// Everything.
    All,
    /// A share of everything.
    Sampled,
}

/// Bounds on what clients may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// Connections open at a time, over all data listeners.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// The largest body or message, in bytes.
    pub body_max: usize,
    /// Checks in one batch.
    pub batch_max: usize,
    /// The longest key, in bytes.
    pub key_max: usize,
    /// Descriptors in one request, and entries in one descriptor.
    pub descriptors_max: usize,
    /// Requests under way on one HTTP/2 connection.
    pub streams_max: u32,
}

/// The process's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogSettings {
    /// What is logged: this and what is worse.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

/// Where spans of decisions go, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct TracingSettings {
    /// The collector: `http://host:4317`.
    pub endpoint: String,
    /// The share of requests without a parent that are traced, 0 to 1.
    pub sample_ratio: f64,
    /// Spans that wait to be sent.
    pub queue_max: usize,
}

/// How bad a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something will.
    Warn,
    /// What an operator wants to know.
    #[default]
    Info,
    /// What a developer wants to know.
    Debug,
    /// Everything.
    Trace,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

impl Default for ListenSettings {
    fn default() -> Self {
        let loopback = |port: u16| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Self {
            http: loopback(8080),
            grpc: loopback(8081),
            resp: loopback(6380),
            admin: loopback(9090),
        }
    }
}

impl Default for EnvoySettings {
    fn default() -> Self {
        Self {
            charge_all: false,
            shadow_mode: false,
            quota_mode: false,
            response_headers: false,
            limit_header: "RateLimit-Limit".to_owned(),
            remaining_header: "RateLimit-Remaining".to_owned(),
            reset_header: "RateLimit-Reset".to_owned(),
            dynamic_metadata: false,
            merge_domains: false,
            near_limit_thousandths: 800,
        }
    }
}

impl Default for OverloadSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            multiple_percent: 200,
            concurrency_max: None,
            queue_max: 256,
            delay_max: Duration::from_millis(250),
        }
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            connections: 10_000,
            header_timeout: Duration::from_secs(10),
            body_max: 64 << 10,
            batch_max: 1000,
            key_max: 1024,
            descriptors_max: 64,
            streams_max: 1024,
        }
    }
}
