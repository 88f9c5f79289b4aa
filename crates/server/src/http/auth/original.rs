//! The original request, as the proxy describes it.

use core::net::Ipv6Addr;

use http::HeaderMap;
use http::header::HOST;
use slidegate_http::RequestPath;

use crate::http::error::ApiError;

/// The original request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OriginalRequest {
    pub(crate) method: String,
    /// Without the port, in lowercase. Empty if unknown.
    pub(crate) host: String,
    pub(crate) path: RequestPath,
}

/// The family of fields that describe the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldFamily {
    /// `X-Original-Method`, `X-Original-URI`, `Host`: sent by nginx if configured.
    Original,
    /// `X-Forwarded-Method`, `-Uri`, `-Host`: sent by Caddy and Traefik.
    Forwarded,
}

impl FieldFamily {
    fn method(self) -> &'static str {
        match self {
            Self::Original => "x-original-method",
            Self::Forwarded => "x-forwarded-method",
        }
    }

    fn uri(self) -> &'static str {
        match self {
            Self::Original => "x-original-uri",
            Self::Forwarded => "x-forwarded-uri",
        }
    }

    fn host(self) -> Option<&'static str> {
        match self {
            // `X-Original-Host` is not read: nginx would pass on a client's field unless configured
            // to replace it.
            Self::Original => None,
            Self::Forwarded => Some("x-forwarded-host"),
        }
    }

    /// Returns `true` if one of its distinctive fields is present.
    fn is_in(self, headers: &HeaderMap) -> bool {
        headers.contains_key(self.uri()) || headers.contains_key(self.method())
    }

    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        match (Self::Original.is_in(headers), Self::Forwarded.is_in(headers)) {
            (true, false) => Ok(Self::Original),
            (false, true) => Ok(Self::Forwarded),
            (true, true) => Err(ApiError::malformed(
                "both X-Original-* and X-Forwarded-* are present, and one may be from the client: configure the proxy to call /auth?headers=original or /auth?headers=forwarded",
            )),
            (false, false) => Err(ApiError::malformed(
                "the original request is missing: configure the proxy to send X-Original-Method and X-Original-URI, or X-Forwarded-Method and X-Forwarded-Uri",
            )),
        }
    }
}

impl OriginalRequest {
    pub(super) fn read(headers: &HeaderMap, family: Option<FieldFamily>) -> Result<Self, ApiError> {
        let family = match family {
            Some(family) => family,
            None => FieldFamily::of(headers)?,
        };
        let method = only(headers, family.method())?;
        let uri = only(headers, family.uri())?;
        let host = match family.host().filter(|name| headers.contains_key(*name)) {
            Some(name) => only(headers, name)?,
            None if headers.contains_key(HOST) => only(headers, HOST.as_str())?,
            None => "",
        };
        // A proxy may have joined two lines with a comma.
        for (name, value) in [(family.method(), method), (family.host().unwrap_or("host"), host)] {
            if value.contains([',', ' ']) {
                return Err(unclear(name, "has several values"));
            }
        }
        Ok(Self {
            method: method.to_ascii_uppercase(),
            host: host_of(host),
            path: RequestPath::new(uri),
        })
    }
}

/// Returns the value of a field that occurs exactly once. Of two, one may be from the client.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, ApiError> {
    let refused = |why: &str| unclear(name, why);
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| refused("is not plain text")),
        (None, _) => Err(refused("is missing")),
        (Some(_), Some(_)) => Err(refused("comes twice")),
    }
}

fn unclear(name: &str, why: &str) -> ApiError {
    ApiError::malformed(format!("{name} {why}: configure the proxy to set it exactly once"))
}

/// Returns the host without port and trailing dots, in lowercase. An IPv6 address is in its
/// canonical form.
fn host_of(text: &str) -> String {
    if let Some(rest) = text.strip_prefix('[') {
        let host = rest.split(']').next().unwrap_or_default();
        let address = host.parse().map(|address: Ipv6Addr| address.to_string());
        return address.unwrap_or_else(|_| host.to_ascii_lowercase());
    }
    let host = text.split(':').next().unwrap_or_default();
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
