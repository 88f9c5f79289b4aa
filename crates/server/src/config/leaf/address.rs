//! Addresses: to listen on, of proxies, of servers.

use core::net::SocketAddr;

use slidegate_http::{ClientAddress, HopField};
use slidegate_redis::Redis;

/// What to listen on; `None` is off.
pub(in crate::config) fn endpoint(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return endpoint(&format!("127.0.0.1:{port}"));
    }
    text.parse().map(Some).map_err(|_| match text.strip_prefix(':').or(Some(text)) {
        Some(port) if port.parse::<u16>().is_ok() => format!(
            "say on which address too: 127.0.0.1:{port} for this machine, 0.0.0.0:{port} for all"
        ),
        _ => "use an address with a port, such as 127.0.0.1:8080 or [::1]:8080, or off".to_owned(),
    })
}

/// A network of trusted proxies.
pub(in crate::config) fn network(text: &str) -> Result<(), String> {
    let alone = ClientAddress::builder().field(HopField::XForwardedFor).trust(text).build();
    alone.map(|_| ()).map_err(|error| error.to_string())
}

/// A server's address.
pub(in crate::config) fn redis(text: &str) -> Result<(), String> {
    Redis::single(text).map(|_| ()).map_err(|_| {
        "use redis://host:6379, rediss://host:6379 for TLS, or unix:///path/to/socket".to_owned()
    })
}

/// A collector's address.
pub(in crate::config) fn collector(text: &str) -> Result<(), String> {
    let is_one = |uri: &http::Uri| uri.scheme_str() == Some("http") && uri.authority().is_some();
    if text.parse().is_ok_and(|uri| is_one(&uri)) {
        return Ok(());
    }
    Err("use http://host:4317; for TLS, run a collector on this machine that speaks it".to_owned())
}
