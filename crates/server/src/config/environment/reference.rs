//! The variables of envoyproxy/ratelimit.

use super::Environment;
use super::reference_table::{IGNORED, SETS};
use super::variables;
use crate::config::report::Report;
use crate::config::source::{Origin, Span};
use crate::config::yaml::Node;

/// What the store of its domains is called, when variables name a Redis.
pub(in crate::config) const STORE: &str = "redis";

/// The variables of envoyproxy/ratelimit.
pub(in crate::config) struct Reference<'a> {
    environment: &'a Environment,
}

impl<'a> Reference<'a> {
    pub(in crate::config) fn new(environment: &'a Environment) -> Self {
        Self { environment }
    }

    /// Puts what the variables say into a tree. Gives the store of the domains, if it is not
    /// memory.
    pub(in crate::config) fn apply(
        &self,
        root: &mut Node,
        report: &mut Report,
    ) -> Option<&'static str> {
        for (name, path) in SETS {
            self.set(root, path, name, report);
        }
        self.charge_all(root, report);
        for (why, names) in IGNORED {
            for name in names.split_whitespace() {
                if self.environment.get(name).is_some() {
                    let span = self.span(name, report);
                    report.note(span, "ignored-variable", format!("{name} is ignored: {why}"));
                }
            }
        }
        self.listeners(root, report);
        self.tls(root, report);
        self.log_level(root, report);
        self.config_type(report);
        self.redis(root, report)
    }

    /// Puts the value of a variable at a path, if it has one.
    fn set(&self, root: &mut Node, path: &str, name: &str, report: &mut Report) {
        if let Some(value) = self.environment.get(name) {
            put(root, path, name, value, report);
        }
    }

    /// Whether a flag is set; absent and malformed ones are not.
    pub(in crate::config) fn is_set(&self, name: &str) -> bool {
        self.environment.get(name).and_then(truth).unwrap_or(false)
    }

    /// That service can stop to charge, and this one can charge all: the opposite.
    fn charge_all(&self, root: &mut Node, report: &mut Report) {
        const NAME: &str = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
        let Some(value) = self.environment.get(NAME) else { return };
        let opposite = match truth(value) {
            Some(true) => "false",
            Some(false) => "true",
            None => value,
        };
        put(root, "envoy.charge_all", NAME, opposite, report);
    }

    /// `HOST` and `PORT`: if either is set, both are as that service has them.
    fn listeners(&self, root: &mut Node, report: &mut Report) {
        for (path, host, any, port, usual) in [
            ("listen.http", "HOST", "0.0.0.0", "PORT", "8080"),
            ("listen.grpc", "GRPC_HOST", "0.0.0.0", "GRPC_PORT", "8081"),
            // Its debug port is open to all; ours asks for a token beyond loopback.
            ("listen.admin", "DEBUG_HOST", "127.0.0.1", "DEBUG_PORT", "6070"),
        ] {
            let (given_host, given_port) = (self.environment.get(host), self.environment.get(port));
            let name = if given_port.is_some() { port } else { host };
            if given_host.or(given_port).is_none() {
                continue;
            }
            let (host, port) = (given_host.unwrap_or(any), given_port.unwrap_or(usual));
            let bare = host.contains(':') && !host.starts_with('[');
            let address = if bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            put(root, path, name, &address, report);
        }
    }

    fn tls(&self, root: &mut Node, report: &mut Report) {
        if !self.is_set("GRPC_SERVER_USE_TLS") {
            return;
        }
        for (path, name) in [
            ("tls.certificate", "GRPC_SERVER_TLS_CERT"),
            ("tls.key", "GRPC_SERVER_TLS_KEY"),
            ("tls.client_authority", "GRPC_CLIENT_TLS_CACERT"),
        ] {
            self.set(root, path, name, report);
        }
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
        let message = format!("limits cannot be had by {kind}");
        report.error(span, "config-type", message).help("use files, and CONFIG_TYPE=FILE");
    }

    /// The Redis that `REDIS_URL` names, as a store.
    fn redis(&self, root: &mut Node, report: &mut Report) -> Option<&'static str> {
        if let Some(kind) = self.environment.get("BACKEND_TYPE").filter(|kind| *kind != "redis") {
            let span = self.span("BACKEND_TYPE", report);
            let message = format!(
                "{kind} is not a store here: counts live in this process, and N nodes let through \
                 up to N times the limit"
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
                put_url("sentinel.addresses", &addresses(list), root, report);
            }
            other => {
                let span = self.span("REDIS_TYPE", report);
                let message = format!("`{other}` is not a REDIS_TYPE");
                let finding = report.error(span, "value", message);
                finding.choices(other, ["SINGLE", "SENTINEL", "CLUSTER"]);
            }
        }
        self.credentials(root, &store, report);
        for (key, name) in [
            ("tls_authority", "REDIS_TLS_CACERT"),
            ("prefix", "CACHE_KEY_PREFIX"),
            ("deadline", "REDIS_TIMEOUT"),
        ] {
            self.set(root, &format!("{store}.{key}"), name, report);
        }
        Some(STORE)
    }

    /// `REDIS_AUTH` is a password, or a user and a password with a colon between.
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

/// Puts the value of a variable at a path.
fn put(root: &mut Node, path: &str, name: &str, value: &str, report: &mut Report) {
    variables::put(root, path, Origin::Environment(name.to_owned()), value, report);
}

/// Flags as that service's language reads them.
fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
