//! The variables of envoyproxy/ratelimit.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Environment;
use super::reference_table::{COMMON, IGNORED, SETS, names};
use super::variables;
use crate::config::report::{Report, Severity};
use crate::config::source::{Origin, Span};
use crate::config::yaml::Node;
use crate::spec::HitsUsage;

/// The name of the store of the domains, if variables configure a Redis.
pub(in crate::config) const STORE: &str = "redis";

/// The variables of envoyproxy/ratelimit.
pub(in crate::config) struct Reference<'a> {
    environment: &'a Environment,
}

impl<'a> Reference<'a> {
    pub(in crate::config) fn new(environment: &'a Environment) -> Self {
        Self { environment }
    }

    /// Returns the variables that show that the environment is meant for that service.
    pub(in crate::config) fn marks(&self) -> Vec<&'static str> {
        let is_common = |name: &str| COMMON.split_whitespace().any(|common| common == name);
        let set = names().filter(|name| self.environment.get(name).is_some());
        set.filter(|name| !is_common(name)).collect()
    }

    /// Applies the variables to a tree. Returns the store of the domains if it is not memory.
    ///
    /// If the environment is meant for that service, its defaults apply too.
    pub(in crate::config) fn apply(
        &self,
        root: &mut Node,
        report: &mut Report,
    ) -> Option<&'static str> {
        let marks = self.marks();
        if !marks.is_empty() {
            let message = format!(
                "environment of envoyproxy/ratelimit detected ({} set): its variables and defaults apply",
                marks.join(", ")
            );
            report.general(Severity::Note, "reference", message);
        }
        for (name, path) in SETS {
            self.set(root, path, name, report);
        }
        if !marks.is_empty() {
            put(root, "envoy.look_grace", marks[0], "true", report);
            // That service has no such listener, and a second instance would not start.
            if root.find("listen.resp").is_none() {
                put(root, "listen.resp", marks[0], "off", report);
            }
            self.usage(root, marks[0], report);
        }
        self.name_ignored(report);
        self.listeners(root, !marks.is_empty(), report);
        self.tls(root, report);
        self.statistics(root, !marks.is_empty(), report);
        self.log_level(root, report);
        self.config_type(report);
        let store = self.redis(root, report);
        if store.is_none() && !marks.is_empty() && !report.has("backend-type") {
            let message = "REDIS_URL is not set: counts are in this process, so N nodes admit up to N times the limit";
            report.general(Severity::Warning, "backend-type", message);
        }
        store
    }

    /// Applies `PORT` if there is no file, because many platforms set it.
    pub(in crate::config) fn apply_port(&self, root: &mut Node, report: &mut Report) {
        if let Some(port) = self.environment.get("PORT") {
            put(root, "listen.http", "PORT", &format!("0.0.0.0:{port}"), report);
            let message = "PORT is set but no limits are configured: using the built-in example";
            let finding = report.general(Severity::Warning, "example", message);
            finding.help("name a file with --config, or a directory with RUNTIME_ROOT");
        }
    }

    /// Reports each variable that is set but not supported.
    fn name_ignored(&self, report: &mut Report) {
        for (why, names) in IGNORED {
            for name in names.split_whitespace() {
                if self.environment.get(name).is_some() {
                    let span = self.span(name, report);
                    let message = format!("{name} is not supported: {why}");
                    report.note(span, "ignored-variable", message);
                }
            }
        }
    }

    /// Sets the value of a variable at a path, if it has one.
    fn set(&self, root: &mut Node, path: &str, name: &str, report: &mut Report) {
        if let Some(value) = self.environment.get(name) {
            put(root, path, name, value, report);
        }
    }

    /// Returns `true` if a flag is set. Absent and malformed flags are not.
    pub(in crate::config) fn is_set(&self, name: &str) -> bool {
        self.environment.get(name).and_then(truth).unwrap_or(false)
    }

    /// Applies `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`. Unless it is set, that service counts denied
    /// requests, so usage that its proxies report is recorded.
    fn usage(&self, root: &mut Node, mark: &str, report: &mut Report) {
        const NAME: &str = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
        let (name, usage) = match self.environment.get(NAME) {
            None => (mark, HitsUsage::ReportAboveOne.name()),
            Some(value) => match truth(value) {
                Some(false) => (NAME, HitsUsage::ReportAboveOne.name()),
                Some(true) => (NAME, HitsUsage::Check.name()),
                None => {
                    let message = format!("{NAME} must be true or false, but is `{value}`");
                    let span = self.span(NAME, report);
                    report.error(span, "value", message);
                    return;
                }
            },
        };
        put(root, "envoy.usage", name, usage, report);
    }

    /// Applies `HOST` and `PORT`. If either is set, or all defaults apply, both have the values of
    /// that service.
    fn listeners(&self, root: &mut Node, with_defaults: bool, report: &mut Report) {
        for (path, host, any, port, usual) in [
            ("listen.http", "HOST", "0.0.0.0", "PORT", "8080"),
            ("listen.grpc", "GRPC_HOST", "0.0.0.0", "GRPC_PORT", "8081"),
            // Its debug port is open to all clients. Here, it requires a token except on loopback.
            ("listen.admin", "DEBUG_HOST", "127.0.0.1", "DEBUG_PORT", "6070"),
        ] {
            let (given_host, given_port) = (self.environment.get(host), self.environment.get(port));
            let name = if given_port.is_some() { port } else { host };
            if given_host.or(given_port).is_none() && !with_defaults {
                continue;
            }
            let (host, port) = (given_host.unwrap_or(any), given_port.unwrap_or(usual));
            put(root, path, name, &joined(host, port), report);
        }
    }

    /// Applies TLS for the gRPC listener only.
    fn tls(&self, root: &mut Node, report: &mut Report) {
        if !self.is_set("GRPC_SERVER_USE_TLS") {
            return;
        }
        for (path, name, is_required) in [
            ("grpc_tls.certificate", "GRPC_SERVER_TLS_CERT", true),
            ("grpc_tls.key", "GRPC_SERVER_TLS_KEY", true),
            ("grpc_tls.client_authority", "GRPC_CLIENT_TLS_CACERT", false),
            ("grpc_tls.client_name", "GRPC_CLIENT_TLS_SAN", false),
        ] {
            self.set(root, path, name, report);
            if is_required && self.environment.get(name).is_none() {
                let span = self.span("GRPC_SERVER_USE_TLS", report);
                let message = format!("GRPC_SERVER_USE_TLS is set but {name} is not");
                let finding = report.error(span, "missing-key", message);
                finding.help(format!("set {name} to the path of a PEM file"));
            }
        }
    }

    /// Applies the destination of statistics: StatsD by default, as in that service, or Prometheus.
    fn statistics(&self, root: &mut Node, with_defaults: bool, report: &mut Report) {
        if self.is_set("DISABLE_STATS") {
            return;
        }
        if self.is_set("USE_PROMETHEUS") {
            let address = self.environment.get("PROMETHEUS_ADDR").unwrap_or(":9090");
            let (host, port) = address.rsplit_once(':').unwrap_or((address, "9090"));
            let host = if host.is_empty() { "0.0.0.0" } else { host };
            put(root, "listen.metrics", "PROMETHEUS_ADDR", &joined(host, port), report);
            return;
        }
        let is_dog = self.is_set("USE_DOG_STATSD");
        let wanted =
            self.environment.get("USE_STATSD").map_or(with_defaults, |_| self.is_set("USE_STATSD"));
        if !wanted && !is_dog {
            return;
        }
        let host = self.environment.get("STATSD_HOST").unwrap_or("localhost");
        let port = self.environment.get("STATSD_PORT").unwrap_or("8125");
        put(root, "statsd.address", "STATSD_HOST", &joined(host, port), report);
        let protocol = self.environment.get("STATSD_PROTOCOL").unwrap_or("tcp");
        let protocol = if is_dog { "udp" } else { protocol };
        put(root, "statsd.protocol", "STATSD_PROTOCOL", protocol, report);
        let dialect = if is_dog { "dogstatsd" } else { "statsd" };
        put(root, "statsd.dialect", "USE_DOG_STATSD", dialect, report);
        self.set(root, "statsd.interval", "STATS_FLUSH_INTERVAL", report);
        self.set(root, "statsd.tags", "EXTRA_TAGS", report);
    }

    fn log_level(&self, root: &mut Node, report: &mut Report) {
        let Some(value) = self.environment.get("LOG_LEVEL") else { return };
        let level = match value.to_ascii_lowercase().as_str() {
            "fatal" | "panic" => "error".to_owned(),
            "warning" => "warn".to_owned(),
            other => other.to_owned(),
        };
        put(root, "log.level", "LOG_LEVEL", &level, report);
    }

    fn config_type(&self, report: &mut Report) {
        let Some(kind) = self.environment.get("CONFIG_TYPE").filter(|kind| *kind != "FILE") else {
            return;
        };
        let span = self.span("CONFIG_TYPE", report);
        let message = format!("limits cannot be loaded with {kind}");
        report.error(span, "config-type", message).help("use files, and CONFIG_TYPE=FILE");
    }

    /// Applies `REDIS_URL` as a store.
    fn redis(&self, root: &mut Node, report: &mut Report) -> Option<&'static str> {
        if let Some(kind) = self.environment.get("BACKEND_TYPE").filter(|kind| *kind != "redis") {
            let span = self.span("BACKEND_TYPE", report);
            let message = format!(
                "{kind} is not a store: counts are in this process, so N nodes admit up to N times the limit"
            );
            report.warning(span, "backend-type", message).help("set REDIS_URL to share counts");
            return None;
        }
        let url = self.environment.get("REDIS_URL")?;
        let scheme = if self.is_set("REDIS_TLS") { "rediss" } else { "redis" };
        let address = |server: &str| match server {
            server if server.contains("://") => server.to_owned(),
            server if server.starts_with('/') => format!("unix://{server}"),
            server => format!("{scheme}://{server}"),
        };
        let store = format!("stores.{STORE}");
        let kind = self.environment.get("REDIS_TYPE").unwrap_or("SINGLE").to_ascii_uppercase();
        let addresses = |list: &str| list.split(',').map(address).collect::<Vec<_>>().join(",");
        let put_url = |key: &str, value: &str, root: &mut Node, report: &mut Report| {
            put(root, &format!("{store}.{key}"), "REDIS_URL", value, report);
        };
        match kind.as_str() {
            "SINGLE" => put_url("redis", &address(url), root, report),
            "CLUSTER" => put_url("cluster", &addresses(url), root, report),
            "SENTINEL" => {
                let (service, list) = url.split_once(',').unwrap_or((url, ""));
                put_url("sentinel.service", service, root, report);
                put_url("sentinel.addresses", &self.sentinels(&addresses(list)), root, report);
            }
            other => {
                let span = self.span("REDIS_TYPE", report);
                let message = format!("unknown REDIS_TYPE `{other}`");
                let finding = report.error(span, "value", message);
                finding.choices(other, ["SINGLE", "SENTINEL", "CLUSTER"]);
            }
        }
        self.credentials(root, &store, report);
        for (key, name) in [("tls_authority", "REDIS_TLS_CACERT"), ("deadline", "REDIS_TIMEOUT")] {
            self.set(root, &format!("{store}.{key}"), name, report);
        }
        if let Some(prefix) = self.environment.get("CACHE_KEY_PREFIX") {
            // Keys have a colon after the prefix anyway.
            let prefix = prefix.strip_suffix(':').filter(|rest| !rest.is_empty()).unwrap_or(prefix);
            put(root, &format!("{store}.prefix"), "CACHE_KEY_PREFIX", prefix, report);
        }
        Some(STORE)
    }

    /// Adds the password of the Sentinels to their addresses.
    fn sentinels(&self, addresses: &str) -> String {
        let Some(password) = self.environment.get("REDIS_SENTINEL_AUTH") else {
            return addresses.to_owned();
        };
        let password = utf8_percent_encode(password, NON_ALPHANUMERIC).to_string();
        let with_password = |address: &str| match address.split_once("://") {
            Some((scheme, rest)) if !rest.contains('@') => format!("{scheme}://:{password}@{rest}"),
            _ => address.to_owned(),
        };
        addresses.split(',').map(with_password).collect::<Vec<_>>().join(",")
    }

    /// Applies `REDIS_AUTH`: a password, or a user and a password separated by a colon.
    fn credentials(&self, root: &mut Node, store: &str, report: &mut Report) {
        let Some(auth) = self.environment.get("REDIS_AUTH") else { return };
        let (user, password) =
            auth.split_once(':').map_or((None, auth), |(user, rest)| (Some(user), rest));
        if let Some(user) = user.filter(|user| !user.is_empty()) {
            put(root, &format!("{store}.username"), "REDIS_AUTH", user, report);
        }
        put(root, &format!("{store}.password"), "REDIS_AUTH", password, report);
    }

    fn span(&self, name: &str, report: &mut Report) -> Span {
        let value = self.environment.get(name).unwrap_or_default();
        report.sources.add_pair(Origin::Environment(name.to_owned()), value)
    }
}

/// Sets the value of a variable at a path.
fn put(root: &mut Node, path: &str, name: &str, value: &str, report: &mut Report) {
    variables::put(root, path, Origin::Environment(name.to_owned()), value, report);
}

/// Joins a host and a port.
fn joined(host: &str, port: &str) -> String {
    let bare = host.contains(':') && !host.starts_with('[');
    if bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Parses flags as Go does.
fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
