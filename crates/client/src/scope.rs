//! Scopes: groups of requests that share a server's quotas.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;

use http::header::HOST;
use http::{HeaderMap, Method, Uri};

/// A group of requests that share a server's quotas: by default a host with its port.
///
/// Requests of one scope learn from each other's responses and wait for each other. Parts that are
/// added to a scope are stored only as a digest, so a credential does not stay in memory or in a
/// log.
///
/// ```
/// use slidegate_client::Scope;
///
/// let search = Scope::new("api.example.com").and("search");
/// assert_ne!(search, Scope::new("api.example.com"));
/// assert_eq!(search, Scope::new("API.example.com").and("search"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    host: Box<str>,
    /// The digest of all added parts, in order.
    digest: u64,
}

/// The maximum length of a stored host name. The rest becomes part of the digest.
const HOST_BYTES_MAX: usize = 256;

impl Scope {
    /// Creates the scope of a host. Case does not matter.
    pub fn new(host: &str) -> Self {
        let (host, rest) = split_at_most(host, HOST_BYTES_MAX);
        let scope = Self { host: host.to_ascii_lowercase().into(), digest: 0 };
        if rest.is_empty() { scope } else { scope.and(rest) }
    }

    /// Adds a part to the scope, such as a group of paths or an account.
    #[must_use]
    pub fn and(mut self, part: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.digest, part).hash(&mut hasher);
        self.digest = hasher.finish();
        self
    }

    /// Returns the host.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.digest {
            0 => write!(f, "Scope({})", self.host),
            digest => write!(f, "Scope({}, {digest:016x})", self.host),
        }
    }
}

/// The parts of a request from which a scope can be created.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    method: &'a Method,
    host: &'a str,
    port: Option<u16>,
    path: &'a str,
    headers: &'a HeaderMap,
}

impl<'a> Target<'a> {
    /// Reads the parts of a request. If the URI has no host, the `Host` field is used.
    pub fn new(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        let host = uri.host().or_else(|| headers.get(HOST)?.to_str().ok()).unwrap_or_default();
        let port = uri.port_u16().or_else(|| default_port(uri.scheme_str()?));
        Self { method, host, port, path: uri.path(), headers }
    }

    #[cfg(feature = "reqwest")]
    pub(crate) fn of_url(
        method: &'a Method,
        url: &'a reqwest::Url,
        headers: &'a HeaderMap,
    ) -> Self {
        let host = url.host_str().unwrap_or_default();
        Self { method, host, port: url.port_or_known_default(), path: url.path(), headers }
    }

    /// Returns the method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// Returns the host without its port.
    pub fn host(&self) -> &'a str {
        self.host
    }

    /// Returns the port, or the default port of the scheme.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the path.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// Returns the header fields.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// Returns the default scope: the host with its port, independent of the path.
    pub fn scope(&self) -> Scope {
        match self.port {
            Some(port) => Scope::new(&format!("{}:{port}", self.host)),
            None => Scope::new(self.host),
        }
    }
}

/// Splits a text after at most `bytes` bytes.
pub(crate) fn split_at_most(text: &str, bytes: usize) -> (&str, &str) {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.split_at(end)
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
