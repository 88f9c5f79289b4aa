//! What the daemon says when it starts.

use core::fmt::Write;
use std::net::SocketAddr;

use crate::config::Loaded;

/// Where it listens.
pub(super) struct Places {
    pub(super) http: Option<SocketAddr>,
    pub(super) grpc: Option<SocketAddr>,
    pub(super) resp: Option<SocketAddr>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) is_tls: bool,
}

/// Where it listens, and a line to try.
pub(super) fn welcome(places: &Places, loaded: &Loaded) -> String {
    let mut text = format!("slidegate {}\n", env!("CARGO_PKG_VERSION"));
    let scheme = if places.is_tls { "https" } else { "http" };
    let mut line = |name: &str, place: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<16}{place}");
    };
    if let Some(address) = places.http {
        line("HTTP API", format!("{scheme}://{address}/v1/check  (described by /openapi.json)"));
        line("forward auth", format!("{scheme}://{address}/auth"));
    }
    if let Some(address) = places.grpc {
        line("Envoy gRPC", format!("{address}  (rate limit service v3)"));
    }
    if let Some(address) = places.resp {
        line("Redis protocol", address.to_string());
    }
    if let Some(address) = places.admin {
        line("admin", format!("http://{address}/metrics"));
    }
    let spec = &loaded.spec;
    line("limits", spec.counts());
    if let (Some(address), Some(policy)) = (places.http, spec.policies.first())
        && !places.is_tls
    {
        let _ = write!(
            text,
            "\nTry it:\n  curl 'http://{address}/v1/check?policy={}&key=alice'\n\n",
            policy.name
        );
    }
    text
}
