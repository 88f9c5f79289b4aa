//! The settings of the process, which are not about limits and are read once at the start.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;

use slidegate_http::{ClientAddress, HopField};

use super::access::{ACCESS, AccessSettings, admin_token, check_data_listeners};
use super::headers::{HEADERS, HeaderSettings};
use super::report::Report;
use super::statsd::{STATSD, StatsdSettings};
use super::table::{ListenAddress, Read, Reader, given, keywords, section};
use super::yaml::Node;
use crate::access::Token;
use crate::spec::{
    DOMAIN, EnvoyFailureMode, HitsUsage, MEMORY_KEYS, POLICY, RULE, STORE, key_secret, mebibytes,
};

section! {
    /// Settings of the process. Each has a default, so that no file is needed.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Settings, ROOT = "the configuration" {
        /// The version of this format.
        key slidegate = Whole(1, 1), absent "the format is detected from the other keys",
            example "1";
        /// Whether a reload may remove any limits. By default such a reload is rejected, because an
        /// incomplete file or directory is usually a mistake.
        allow_empty: bool = Flag, default "false", example "true";
        /// The limits that a reload may remove, as the error of a rejected reload names them.
        allow_removed: Vec<String> = List(&Leaf(&TEXT), 1000), default "[]",
            example "[policy old, limit shop.user]";
        /// The addresses of the listeners.
        listen: ListenSettings = Section(&LISTEN), absent "all listeners on loopback",
            example "{http: 0.0.0.0:8080, resp: off}";
        /// TLS of the data listeners.
        tls: Option<TlsSettings> = Section(&TLS), absent "no TLS",
            example "{certificate: server.pem, key: server.key}";
        /// TLS of the gRPC listener, instead of `tls`.
        grpc_tls: Option<TlsSettings> = Section(&TLS), absent "`tls`, if set",
            example "{certificate: server.pem, key: server.key}";
        /// Access to the data listeners.
        access: AccessSettings = Section(&ACCESS), absent "the defaults below",
            example "{tokens: [{file: app.token, scopes: [check]}]}";
        /// Access to the admin listener.
        admin: AdminSettings = Section(&ADMIN), absent "loopback only",
            example "{token_file: admin.token}";
        /// The store named `memory`, which always exists.
        key memory = Section(&MEMORY_KEYS), absent "the defaults below", example "{limit_mb: 512}";
        /// Keeps the counts in memory across a restart.
        snapshot: Option<SnapshotSettings> = Section(&SNAPSHOT),
            absent "counts are lost at a restart", example "{path: /var/lib/slidegate}";
        /// Redis or Valkey servers that share counts, by name.
        key stores = Named(&NAME, &Section(&STORE), 64), absent "only `memory`",
            example "{shared: {redis: \"redis://127.0.0.1:6379\"}}";
        /// Networks of proxies that are trusted to report the client's address.
        key trusted_proxies = List(&Leaf(&NETWORK), 256), default "[]", example "[10.0.0.0/8]";
        /// How the client's address is found, and how many of its bits count.
        key address = Section(&ADDRESS), absent "the defaults below",
            example "{header: forwarded}";
        /// Limits, by the name that callers and rules use.
        key policies = List(&Section(&POLICY), 10_000), default "[]",
            example "[{name: api, quotas: [100/minute]}]";
        /// The policies of HTTP requests, for forward auth.
        key rules = List(&Section(&RULE), 1000), default "[]",
            example "[{name: all, key: [address], policy: api}]";
        /// Trees of descriptors for Envoy, as in envoyproxy/ratelimit.
        key domains = List(&Section(&DOMAIN), 1000), default "[]",
            example "[{domain: shop, descriptors: [{key: user}]}]";
        /// Replies to Envoy.
        envoy: EnvoySettings = Section(&ENVOY), absent "the defaults below",
            example "{response_headers: true}";
        /// The rate limit fields of HTTP replies.
        headers: HeaderSettings = Section(&HEADERS), absent "the defaults below",
            example "{x_ratelimit: epoch}";
        /// The guard against overload.
        overload: OverloadSettings = Section(&OVERLOAD), absent "no guard",
            example "{enabled: true, concurrency_max: 512}";
        /// A line of JSON for every decision.
        audit: Option<AuditSettings> = Section(&AUDIT), absent "no audit log",
            example "{path: audit.log}";
        /// Bounds on requests.
        limits: LimitSettings = Section(&LIMITS), absent "the defaults below",
            example "{connections: 2000}";
        /// The log of the daemon.
        log: LogSettings = Section(&LOG), absent "the defaults below", example "{level: debug}";
        /// Spans of decisions, for an OpenTelemetry collector.
        tracing: Option<TracingSettings> = Section(&TRACING), absent "no spans",
            example "{endpoint: \"http://127.0.0.1:4317\", sample_ratio: 0.01}";
        /// The StatsD server for statistics of Envoy's domains.
        statsd: Option<StatsdSettings> = Section(&STATSD), absent "not sent",
            example "{address: \"127.0.0.1:8125\"}";
        /// How the client's address is found in rules: from `trusted_proxies` and `address`.
        let address: ClientAddress = client_address, else ClientAddress::default();
    }
}

section! {
    /// The addresses of the listeners. `None` is `off`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListenSettings, LISTEN = "listeners" {
        /// The HTTP API, forward auth, and Envoy's `/json`.
        http: Option<SocketAddr> = Leaf(&ENDPOINT), default "127.0.0.1:8080",
            example "0.0.0.0:8080", via ListenAddress::get;
        /// Envoy's rate limit service.
        grpc: Option<SocketAddr> = Leaf(&ENDPOINT), default "127.0.0.1:8081",
            example "\"[::1]:8081\"", via ListenAddress::get;
        /// The Redis protocol.
        resp: Option<SocketAddr> = Leaf(&ENDPOINT), default "127.0.0.1:6380", example "off",
            via ListenAddress::get;
        /// Metrics, health, reload. An address other than loopback needs `admin.token_file` or
        /// `admin.tls.client_authority`.
        admin: Option<SocketAddr> = Leaf(&ENDPOINT), default "127.0.0.1:9090",
            example "127.0.0.1:9091", via ListenAddress::get;
        /// Only metrics, on every path and without a token, for Prometheus on another machine.
        metrics: Option<SocketAddr> = Leaf(&ENDPOINT), default "off", example "0.0.0.0:9090",
            via ListenAddress::get;
    }
}

section! {
    /// A certificate with its key, both as PEM files that may be replaced while the daemon runs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TlsSettings, TLS = "TLS" {
        /// The certificate chain as PEM, the server's certificate first. Read again when it
        /// changes.
        certificate: PathBuf = Leaf(&FILE), required, example "server.pem";
        /// The private key as PEM.
        key: PathBuf = Leaf(&FILE), required, example "server.key";
        /// Authorities as PEM. Clients must present a certificate of one of them.
        client_authority: Option<PathBuf> = Leaf(&FILE), absent "no client certificates",
            example "clients.pem";
        /// A DNS name that the client's certificate must have, with `client_authority`.
        client_name: Option<String> = Leaf(&HOST), absent "any name", example "envoy.internal";
    }
}

section! {
    /// Access to the admin listener.
    ///
    /// On an address other than loopback, it needs a token or a client authority.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AdminSettings, ADMIN = "admin access" {
        /// A file with the token that requests must send as `Authorization: Bearer`.
        token_file: Option<PathBuf> = Leaf(&PATH), absent "no token is required",
            example "admin.token";
        /// TLS of the admin listener.
        tls: Option<TlsSettings> = Section(&TLS), absent "no TLS",
            example "{certificate: admin.pem, key: admin.key}";
        /// The token in that file.
        let token: Option<Token> = admin_token, else None;
    }
}

section! {
    /// The snapshot on disk.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SnapshotSettings, SNAPSHOT = "a snapshot" {
        /// A directory for one file per policy, created if it does not exist. Each daemon needs its
        /// own.
        path: PathBuf = Leaf(&PATH), required, example "/var/lib/slidegate";
        /// The interval between snapshots. After a crash, counts since the last one are lost.
        interval: Duration = Time(SECOND, DAY), default "30s", example "10s";
        /// Whether to start without the counts of a file that is damaged; otherwise the daemon does
        /// not start.
        start_empty_if_damaged: bool = Flag, default "false", example "true";
    }
}

section! {
    /// The keys of [`ClientAddress`], with `trusted_proxies`.
    struct AddressKeys, ADDRESS = "client addresses" {
        /// The header that the trusted proxies write. Only this one is read. `x-forwarded-for` and
        /// `forwarded` are lists of hops. Any other, such as `x-real-ip` or `cf-connecting-ip`,
        /// contains one address.
        header: Option<String> = Leaf(&HEADER),
            absent "`x-forwarded-for` if there are `trusted_proxies`", example "forwarded";
        /// The number of bits of an IPv4 address that count.
        ipv4_prefix: u8 = Whole(8, 32), default "32", example "24";
        /// The number of bits of an IPv6 address that count. One client usually has a whole /64.
        ipv6_prefix: u8 = Whole(32, 128), default "64", example "56";
    }
}

section! {
    /// Replies to Envoy, in the terms of envoyproxy/ratelimit.
    #[derive(Debug, Clone, PartialEq)]
    pub struct EnvoySettings, ENVOY = "replies to Envoy" {
        /// What `hits_addend` means: the units that a request needs, of which a denied request takes
        /// none, or a report of usage that has happened, which is recorded in full. A descriptor can
        /// override it.
        usage: HitsUsage = Choice(HitsUsage::KEYWORDS), default "check", example "report";
        /// Whether one request with `hits_addend: 0` per key and window is allowed although the
        /// limit is used up. envoyproxy/ratelimit denies such requests only above the limit.
        look_grace: bool = Flag, default "false", example "true";
        /// Whether requests are only evaluated and counted, and never denied.
        shadow_mode: bool = Flag, default "false", example "true";
        /// Whether all descriptors are in quota mode.
        quota_mode: bool = Flag, default "false", example "true";
        /// Whether replies have the three headers below.
        response_headers: bool = Flag, default "false", example "true";
        /// The header with the limit.
        limit_header: String = Leaf(&HEADER), default "RateLimit-Limit",
            example "X-RateLimit-Limit";
        /// The header with the remaining units.
        remaining_header: String = Leaf(&HEADER), default "RateLimit-Remaining",
            example "X-RateLimit-Remaining";
        /// The header with the number of seconds until more units are available.
        reset_header: String = Leaf(&HEADER), default "RateLimit-Reset",
            example "X-RateLimit-Reset";
        /// Whether that header contains seconds since the epoch, by this machine's clock, instead.
        reset_epoch: bool = Flag, default "false", example "true";
        /// Whether replies have the metadata of descriptors.
        dynamic_metadata: bool = Flag, default "false", example "true";
        /// The default result when the store of a domain fails: an RPC error, on which Envoy's
        /// `failure_mode_deny` decides, or a decision. A domain or a descriptor can override it.
        failure_mode: EnvoyFailureMode = Choice(EnvoyFailureMode::KEYWORDS), default "error",
            example "local";
        /// Whether `/healthcheck` and gRPC health fail while a store of a domain does not reply.
        health_needs_store: bool = Flag, default "false", example "true";
        /// Whether `/healthcheck` and gRPC health fail while there is no domain.
        health_needs_limits: bool = Flag, default "false", example "true";
        /// Whether several files may add to one domain.
        merge_domains: bool = Flag, default "false", example "true";
        /// The share of a limit from which a request counts as near it, with up to three decimals.
        near_limit_thousandths("near_limit_ratio"): u16 = Decimal(0.0, 1.0), default "0.8",
            example "0.9", via thousandths;
    }
}

section! {
    /// The guard against overload, with the settings of `slidegate-tower`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OverloadSettings, OVERLOAD = "the overload guard" {
        /// Whether the HTTP listener and gRPC calls are guarded.
        enabled: bool = Flag, default "false", example "true";
        /// The maximum of arrivals in percent of their baseline.
        multiple_percent: u32 = Whole(101, 10_000), default "200", example "300";
        /// The maximum number of requests in service, over both.
        concurrency_max: Option<usize> = Whole(1, 10_000_000), absent "no bound", example "512";
        /// The maximum number of requests in the queue.
        queue_max: usize = Whole(0, 10_000_000), default "256", example "64";
        /// The maximum time of a request in the queue.
        delay_max: Duration = Time(Duration::ZERO, MINUTE), default "250ms", example "100ms";
    }
}

section! {
    /// The audit log: a line of JSON for each decision.
    #[derive(Clone, PartialEq, Eq)]
    pub struct AuditSettings, AUDIT = "the audit log" {
        /// The file. Older ones get a number after the name.
        path: PathBuf = Leaf(&PATH), required, example "audit.log";
        /// The decisions that are recorded.
        decisions: AuditDecisions = Choice(AuditDecisions::KEYWORDS), default "denials",
            example "sampled";
        /// The percentage of decisions, with `decisions: sampled`.
        sample_percent: u8 = Whole(1, 100), default "1", example "10";
        /// The size of a file in MiB from which a new one is started.
        size_max("size_max_mb"): u64 = Whole(1, 1 << 20), default "100", example "500",
            via mebibytes;
        /// The number of files, including the current one.
        files: u32 = Whole(1, 1000), default "5", example "10";
        /// Whether lines are flushed to the disk (fsync) when they are written, five times per
        /// second.
        fsync: bool = Flag, default "false", example "true";
        /// Whether requests are denied while decisions cannot be recorded, with `decisions: all`.
        required: bool = Flag, default "false", example "true";
        /// A file of at least 16 bytes that secret keys are hashed with, so that the same key has
        /// the same hash on all nodes.
        key key_secret_file = Leaf(&PATH),
            absent "the file `PATH.secret` next to the log, which is created",
            example "audit.secret";
        /// What secret keys are hashed with: never shown.
        let key_secret: Option<Vec<u8>> = key_secret, else None;
    }
}

impl fmt::Debug for AuditSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret is left out.
        formatter.debug_struct("AuditSettings").field("path", &self.path).finish_non_exhaustive()
    }
}

keywords! {
    /// The decisions that are recorded.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum AuditDecisions {
        /// Denials only.
        #[default]
        Denials = "denials",
        /// All decisions.
        All = "all",
        /// A sample of all decisions.
        Sampled = "sampled",
    }
}

section! {
    /// Bounds on requests.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LimitSettings, LIMITS = "bounds" {
        /// The maximum number of open connections per data listener. Lowered at the start if the
        /// limit of file descriptors is too low.
        connections: Option<usize> = Whole(1, 10_000_000),
            absent "10000, or as many as the limit of file descriptors allows", example "2000";
        /// The maximum number of open connections of one client address per data listener. Addresses of
        /// `trusted_proxies` and loopback have no maximum, because many clients share them.
        connections_per_address: Option<usize> = Whole(1, 10_000_000),
            absent "half of the connections of the listener", example "100";
        /// The time for a client to send the head of a request, or a command of the Redis protocol.
        header_timeout: Duration = Time(Duration::from_millis(10), HOUR), default "10s",
            example "5s";
        /// The maximum size of a body of the HTTP API, in KiB.
        body_max("body_max_kb"): usize = Whole(1, 64 << 10), default "64", example "256",
            via kibibytes;
        /// The maximum size of a message of Envoy's protocol, over gRPC and at `/json`, in KiB. It
        /// must fit all descriptors of a request: on an error, Envoy allows the request by default.
        message_max("message_max_kb"): usize = Whole(1, 64 << 10), default "1024", example "4096",
            via kibibytes;
        /// The memory for bodies, messages and commands that have not arrived completely, over all
        /// connections, in MiB. The first 16 KiB of each connection are not counted. Above it, incomplete
        /// ones are refused.
        bodies_max("bodies_max_mb"): usize = Whole(1, 1 << 20), default "64", example "256",
            via mebibytes;
        /// The maximum number of checks in a batch.
        batch_max: usize = Whole(1, 1_000_000), default "1000", example "100";
        /// The maximum length of a key of the HTTP API and of the Redis protocol, in bytes. Longer
        /// values in Envoy's descriptors and in the keys of rules are counted by their digest.
        key_max: usize = Whole(16, 65_536), default "1024", example "256";
        /// The longest time that a request of the HTTP API, of forward auth or of the Redis protocol may
        /// wait for units; 0 for none.
        wait_max: Duration = Time(Duration::ZERO, HOUR), default "30s", example "5s";
        /// Requests that wait for units at a time. More are denied immediately.
        waiters_max: usize = Whole(1, 1_000_000), default "1024", example "100";
        /// The maximum number of descriptors in a request of Envoy.
        descriptors_max: usize = Whole(1, 64), default "64", example "16";
        /// The maximum number of requests in flight on one HTTP/2 connection.
        streams_max: u32 = Whole(1, 1 << 20), default "128", example "256";
    }
}

section! {
    /// The log of the process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LogSettings, LOG = "the log" {
        /// The minimum severity of events that are logged.
        level: LogLevel = Choice(LogLevel::KEYWORDS), default "info", example "warn";
        /// Text, or one JSON object per line.
        format: LogFormat = Choice(LogFormat::KEYWORDS), default "text", example "json";
    }
}

keywords! {
    /// The severity of an event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
    pub enum LogLevel {
        /// A failure.
        Error = "error",
        /// A future failure.
        Warn = "warn",
        /// For operators.
        #[default]
        Info = "info",
        /// For developers.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

keywords! {
    /// The format of the log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum LogFormat {
        /// For people.
        #[default]
        Text = "text",
        /// One object per line.
        Json = "json",
    }
}

section! {
    /// The collector of spans, and the sampling.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TracingSettings, TRACING = "tracing" {
        /// The collector, with OTLP over gRPC. `OTEL_EXPORTER_OTLP_ENDPOINT` sets it too. Needs a
        /// program built with `--features otlp`.
        endpoint: String = Leaf(&COLLECTOR), needed "no spans", example "http://127.0.0.1:4317";
        /// The share of requests that get a span, unless the caller decides.
        sample_ratio: f64 = Decimal(0.0, 1.0), default "1", example "0.01";
        /// The maximum number of spans that wait to be sent. More are dropped.
        queue_max: usize = Whole(1, 1_000_000), default "2048", example "10000";
    }
}

fn kibibytes(count: usize) -> usize {
    count << 10
}

/// Converts a share to thousandths, rounded to the nearest.
fn thousandths(share: f64) -> u16 {
    (0..=1000).rev().find(|whole| f64::from(*whole) <= share * 1000.0 + 0.5).unwrap_or(0)
}

/// Reads `trusted_proxies` and `address`.
fn client_address(root: &Node, reader: &mut Reader<'_>) -> ClientAddress {
    let trusted: Vec<String> = given(&ROOT, "trusted_proxies", root, reader).unwrap_or_default();
    let keys: AddressKeys = given(&ROOT, "address", root, reader).unwrap_or_default();
    let mut builder = ClientAddress::builder()
        .trust_all(&trusted)
        .ipv4_prefix(keys.ipv4_prefix)
        .ipv6_prefix(keys.ipv6_prefix);
    let default = (!trusted.is_empty()).then(|| "x-forwarded-for".to_owned());
    if let Some(name) = keys.header.or(default) {
        builder = match name.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => builder.field(HopField::XForwardedFor),
            "forwarded" => builder.field(HopField::Forwarded),
            single => builder.single_field(single),
        };
    }
    builder.build().unwrap_or_else(|error| {
        // Each network was checked separately. This checks how they fit together.
        let node = root.find("address.header").or_else(|| root.get("trusted_proxies"));
        if let (Some(node), false) = (node, reader.report.has_errors()) {
            let finding = reader.report.error(node.span, "address", error.to_string());
            finding.help("name the networks of your proxies under `trusted_proxies`");
        }
        ClientAddress::peer()
    })
}

/// Reads all settings of a tree. Absent ones have their defaults.
pub(super) fn settings(root: &Node, reader: &mut Reader<'_>) -> Settings {
    let settings = Settings::read(root, reader).unwrap_or_default();
    check_listeners(root, &settings, reader.report);
    check_admin(root, &settings, reader.report);
    check_audit(root, &settings, reader.report);
    check_data_listeners(root, &settings, reader.report);
    settings
}

/// A log that leaves out decisions cannot be required for them.
fn check_audit(root: &Node, settings: &Settings, report: &mut Report) {
    let Some(audit) = &settings.audit else { return };
    if let (true, Some(node)) = (audit.required, root.find("audit.required"))
        && audit.decisions != AuditDecisions::All
    {
        let message = "`required` is for a log of all decisions";
        report.error(node.span, "value", message).help("set `decisions: all`");
    }
}

/// Reports two listeners on one address, which would otherwise fail at the start.
fn check_listeners(root: &Node, settings: &Settings, report: &mut Report) {
    let ListenSettings { http, grpc, resp, admin, metrics } = settings.listen;
    let all =
        [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin), ("metrics", metrics)];
    for (index, (name, address)) in all.iter().enumerate() {
        // Port 0 is any free port.
        let Some(address) = address.filter(|address| address.port() != 0) else { continue };
        let taken = |other: &&(&str, Option<SocketAddr>)| {
            other.1.is_some_and(|other| overlap(address, other))
        };
        let Some((other, _)) = all[..index].iter().find(taken) else { continue };
        let node = [name, other].into_iter().find_map(|name| root.find(&format!("listen.{name}")));
        if let Some(node) = node {
            let message = format!("`{other}` and `{name}` both listen on {address}");
            report.error(node.span, "listeners", message).help("use another port for one of them");
        }
    }
}

/// Returns whether a process cannot listen on both addresses. `0.0.0.0` is every IPv4 address, and
/// `[::]` every address.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: SocketAddr, address: SocketAddr| {
        let is_any = wide.ip().is_unspecified();
        is_any && (wide.is_ipv6() || address.is_ipv4())
    };
    let is_same = one.ip() == other.ip() || covers(one, other) || covers(other, one);
    one.port() == other.port() && is_same
}

/// Reports an admin listener on an address other than loopback without access control.
fn check_admin(root: &Node, settings: &Settings, report: &mut Report) {
    let admin = &settings.admin;
    let verified = admin.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
    let guarded = verified || admin.token_file.is_some() || root.find("admin.token_file").is_some();
    let open = settings.listen.admin.is_some_and(|address| !address.ip().is_loopback());
    if let (true, false, Some(node)) = (open, guarded, root.find("listen.admin")) {
        let address = node.as_scalar().map_or("", |scalar| &scalar.text);
        let message = format!("every client that reaches {address} could use the admin listener");
        let finding = report.error(node.span, "admin-open", message);
        finding
            .help("set `admin.token_file` or `admin.tls.client_authority`, or listen on 127.0.0.1");
    }
}
