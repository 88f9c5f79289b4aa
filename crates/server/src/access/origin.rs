//! Requests that a browser sends for a page of another site.
//!
//! A page can make the browsers of its visitors send requests to this machine. Browsers say so in
//! `Sec-Fetch-Site` and `Origin`, but neither is sent if the page's own name leads here (DNS rebinding).
//! Then only `Host` is foreign: on loopback, names other than `localhost` must be configured.

use core::fmt;
use core::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Uri};

/// The names by which clients call a listener. By default any.
#[derive(Debug, Clone)]
pub struct HostNames {
    /// Without ports.
    allowed: Vec<String>,
    accepts_any: bool,
}

impl Default for HostNames {
    fn default() -> Self {
        Self::new(&[], false)
    }
}

/// Why a request is foreign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignRequest {
    /// A browser sent it for a page of another site.
    Page,
    /// It is for another host.
    Host,
}

impl fmt::Display for ForeignRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Page => "a page of another site may not send this request",
            Self::Host => {
                "the request is for a host that is not this one: add its name to \
                 `access.allowed_hosts`"
            }
        })
    }
}

static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl HostNames {
    /// The names of a listener: addresses, `localhost` and `allowed`. One that is reachable from other
    /// machines has names that only the operator knows, and accepts any unless some are configured.
    pub fn new(allowed: &[String], is_loopback: bool) -> Self {
        Self { accepts_any: allowed.is_empty() && !is_loopback, allowed: allowed.to_vec() }
    }

    /// Checks that no foreign page caused a request.
    ///
    /// # Errors
    ///
    /// Returns the reason if a foreign page caused it.
    #[inline]
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ForeignRequest> {
        if let Some(site) = headers.get(&FETCH_SITE)
            && !matches!(site.as_bytes(), b"same-origin" | b"none")
        {
            return Err(ForeignRequest::Page);
        }
        // HTTP/2 has the host in the URI.
        let in_uri = uri.authority().map(http::uri::Authority::as_str);
        let host = in_uri.or_else(|| headers.get(HOST)?.to_str().ok());
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            let is_same = origin.is_some_and(|(_, from)| {
                host.is_some_and(|host| from.eq_ignore_ascii_case(host))
                    || self.has(without_port(from))
            });
            if !is_same {
                return Err(ForeignRequest::Page);
            }
        }
        match host {
            // Every browser sends a host.
            None => Ok(()),
            Some(host) if self.accepts_any || self.is_ours(without_port(host)) => Ok(()),
            Some(_) => Err(ForeignRequest::Host),
        }
    }

    /// Returns `true` for addresses and `localhost`. DNS rebinding needs another name, so such a request
    /// is not from a page of another host.
    fn is_ours(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        address.unwrap_or(host).parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.has(host)
    }

    fn has(&self, host: &str) -> bool {
        self.allowed.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Returns a host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}
