//! Settings of the process.

use slidegate_http::{ClientAddress, HopField};

use super::read::{decimal, flag, scalar, text, texts, time, whole};
use crate::config::files::{Files, resolve};
use crate::config::leaf;
use crate::config::report::Report;
use crate::config::settings::{
    AdminSettings, AuditDecisions, AuditSettings, EnvoySettings, LimitSettings, ListenSettings,
    LogFormat, LogLevel, LogSettings, OverloadSettings, Settings, SnapshotSettings, TlsSettings,
    TracingSettings,
};
use crate::config::yaml::Node;

/// All settings of a tree; what is absent is at its default.
pub(in crate::config) fn settings(root: &Node, files: &mut Files, report: &mut Report) -> Settings {
    let settings = Settings {
        listen: listen(root),
        tls: root.get("tls").and_then(|tls| self::tls(tls, files, report)),
        admin: admin(root, files, report),
        snapshot: snapshot(root, report),
        address: address(root, report),
        envoy: envoy(root),
        overload: overload(root),
        audit: audit(root, report),
        limits: limits(root),
        log: log(root),
        tracing: tracing(root),
    };
    check_listeners(root, &settings, report);
    check_admin(root, &settings, report);
    settings
}

fn listen(root: &Node) -> ListenSettings {
    let default = ListenSettings::default();
    let endpoint = |path: &str, absent| {
        text(root, path).and_then(|text| leaf::endpoint(text).ok()).unwrap_or(absent)
    };
    ListenSettings {
        http: endpoint("listen.http", default.http),
        grpc: endpoint("listen.grpc", default.grpc),
        resp: endpoint("listen.resp", default.resp),
        admin: endpoint("listen.admin", default.admin),
    }
}

fn tls(node: &Node, files: &mut Files, report: &mut Report) -> Option<TlsSettings> {
    let mut path = |key: &str| node.get(key).and_then(|value| files.path(value, report));
    let (certificate, key) = (path("certificate"), path("key"));
    let client_authority = path("client_authority");
    Some(TlsSettings { certificate: certificate?, key: key?, client_authority })
}

fn admin(root: &Node, files: &mut Files, report: &mut Report) -> AdminSettings {
    let token = root.find("admin.token_file");
    AdminSettings {
        token_file: token.and_then(|token| files.path(token, report)),
        tls: root.find("admin.tls").and_then(|tls| self::tls(tls, files, report)),
    }
}

fn snapshot(root: &Node, report: &Report) -> Option<SnapshotSettings> {
    Some(SnapshotSettings {
        path: resolve(root.find("snapshot.path")?, report)?,
        interval: time(root, "snapshot.interval").unwrap_or(core::time::Duration::from_secs(30)),
        start_empty_if_damaged: flag(root, "snapshot.start_empty_if_damaged", false),
    })
}

fn address(root: &Node, report: &mut Report) -> ClientAddress {
    let trusted = texts(root, "trusted_proxies");
    let mut builder = ClientAddress::builder().trust_all(&trusted);
    match text(root, "address.header") {
        Some("forwarded") => builder = builder.field(HopField::Forwarded),
        Some("x-forwarded-for") => builder = builder.field(HopField::XForwardedFor),
        _ if !trusted.is_empty() => builder = builder.field(HopField::XForwardedFor),
        _ => {}
    }
    if let Some(bits) = whole(root, "address.ipv4_prefix") {
        builder = builder.ipv4_prefix(bits);
    }
    if let Some(bits) = whole(root, "address.ipv6_prefix") {
        builder = builder.ipv6_prefix(bits);
    }
    match builder.build() {
        Ok(address) => address,
        Err(error) => {
            // Each network was checked alone; what is left is how all of it fits together.
            let node = root.find("address.header").or_else(|| root.get("trusted_proxies"));
            if let (Some(node), false) = (node, report.has_errors()) {
                let finding = report.error(node.span, "address", error.to_string());
                finding.help("name the networks of your proxies under `trusted_proxies`");
            }
            ClientAddress::peer()
        }
    }
}

fn envoy(root: &Node) -> EnvoySettings {
    let default = EnvoySettings::default();
    let header = |path: &str, absent: String| text(root, path).map_or(absent, str::to_owned);
    EnvoySettings {
        charge_all: flag(root, "envoy.charge_all", default.charge_all),
        shadow_mode: flag(root, "envoy.shadow_mode", default.shadow_mode),
        quota_mode: flag(root, "envoy.quota_mode", default.quota_mode),
        response_headers: flag(root, "envoy.response_headers", default.response_headers),
        limit_header: header("envoy.limit_header", default.limit_header),
        remaining_header: header("envoy.remaining_header", default.remaining_header),
        reset_header: header("envoy.reset_header", default.reset_header),
        dynamic_metadata: flag(root, "envoy.dynamic_metadata", default.dynamic_metadata),
        merge_domains: flag(root, "envoy.merge_domains", default.merge_domains),
        near_limit_thousandths: decimal(root, "envoy.near_limit_ratio")
            .map_or(default.near_limit_thousandths, thousandths),
    }
}

/// A share as thousandths, rounded to the nearest.
fn thousandths(share: f64) -> u16 {
    (0..=1000).rev().find(|whole| f64::from(*whole) <= share * 1000.0 + 0.5).unwrap_or(0)
}

fn overload(root: &Node) -> OverloadSettings {
    let default = OverloadSettings::default();
    OverloadSettings {
        enabled: flag(root, "overload.enabled", default.enabled),
        multiple_percent: whole(root, "overload.multiple_percent")
            .unwrap_or(default.multiple_percent),
        concurrency_max: whole(root, "overload.concurrency_max"),
        queue_max: whole(root, "overload.queue_max").unwrap_or(default.queue_max),
        delay_max: time(root, "overload.delay_max").unwrap_or(default.delay_max),
    }
}

fn audit(root: &Node, report: &Report) -> Option<AuditSettings> {
    Some(AuditSettings {
        path: resolve(root.find("audit.path")?, report)?,
        decisions: match text(root, "audit.decisions") {
            Some("all") => AuditDecisions::All,
            Some("sampled") => AuditDecisions::Sampled,
            _ => AuditDecisions::Denials,
        },
        sample_percent: whole(root, "audit.sample_percent").unwrap_or(1),
        size_max: whole::<u64>(root, "audit.size_max_mb").unwrap_or(100) << 20,
        files: whole(root, "audit.files").unwrap_or(5),
    })
}

fn limits(root: &Node) -> LimitSettings {
    let default = LimitSettings::default();
    LimitSettings {
        connections: whole(root, "limits.connections").unwrap_or(default.connections),
        header_timeout: time(root, "limits.header_timeout").unwrap_or(default.header_timeout),
        body_max: whole::<usize>(root, "limits.body_max_kb")
            .map_or(default.body_max, |kilobytes| kilobytes << 10),
        batch_max: whole(root, "limits.batch_max").unwrap_or(default.batch_max),
        key_max: whole(root, "limits.key_max").unwrap_or(default.key_max),
        descriptors_max: whole(root, "limits.descriptors_max").unwrap_or(default.descriptors_max),
        streams_max: whole(root, "limits.streams_max").unwrap_or(default.streams_max),
    }
}

fn log(root: &Node) -> LogSettings {
    LogSettings {
        level: match text(root, "log.level") {
            Some("error") => LogLevel::Error,
            Some("warn") => LogLevel::Warn,
            Some("debug") => LogLevel::Debug,
            Some("trace") => LogLevel::Trace,
            _ => LogLevel::Info,
        },
        format: match text(root, "log.format") {
            Some("json") => LogFormat::Json,
            _ => LogFormat::Text,
        },
    }
}

fn tracing(root: &Node) -> Option<TracingSettings> {
    Some(TracingSettings {
        endpoint: text(root, "tracing.endpoint")?.to_owned(),
        sample_ratio: decimal(root, "tracing.sample_ratio").unwrap_or(1.0),
        queue_max: whole(root, "tracing.queue_max").unwrap_or(2048),
    })
}

/// Two listeners on one address would only be found out at the start.
fn check_listeners(root: &Node, settings: &Settings, report: &mut Report) {
    let ListenSettings { http, grpc, resp, admin } = settings.listen;
    let all = [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin)];
    for (index, (name, address)) in all.iter().enumerate() {
        // Port 0 is any free one.
        let taken = |other: &&(&str, _)| other.1 == *address;
        let Some(address) = address.filter(|address| address.port() != 0) else { continue };
        let Some((other, _)) = all[..index].iter().find(taken) else { continue };
        let node = [name, other].into_iter().find_map(|name| root.find(&format!("listen.{name}")));
        if let Some(node) = node {
            let message = format!("`{other}` and `{name}` both listen on {address}");
            report.error(node.span, "listeners", message).help("use another port for one of them");
        }
    }
}

/// Beyond loopback, anybody who reaches the port could reset limits.
fn check_admin(root: &Node, settings: &Settings, report: &mut Report) {
    let admin = &settings.admin;
    let verified = admin.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
    let guarded = verified || admin.token_file.is_some() || root.find("admin.token_file").is_some();
    let open = settings.listen.admin.is_some_and(|address| !address.ip().is_loopback());
    if let (true, false, Some(node)) = (open, guarded, root.find("listen.admin")) {
        let address = scalar(root, "listen.admin").map_or("", |scalar| &scalar.text);
        let message = format!("anybody who reaches {address} could use the admin listener");
        let finding = report.error(node.span, "admin-open", message);
        finding
            .help("set `admin.token_file` or `admin.tls.client_authority`, or listen on 127.0.0.1");
    }
}
