//! The part of a request that rules see: everything except its body.

use core::fmt;
use core::net::IpAddr;

use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderName, Method, Request, Uri};

use crate::{peer, route};

/// A request without its body, from which rules find keys, costs, tiers and exemptions.
///
/// Its `Debug` form shows the method and the path, but no header fields, which may contain secrets.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    /// Returns the head of a request.
    #[inline]
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// Returns the method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// Returns the request target. The client chooses it, so it is not a good key.
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// Returns all header fields.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// Returns the request extensions, which outer layers insert.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }

    /// Returns the only line of a header field as text, or `None` if there are several or it is not
    /// text.
    ///
    /// If there are two lines, some readers take the first and others the last. A client that sends
    /// both must not choose which one counts.
    pub fn only(&self, name: &HeaderName) -> Option<&'a str> {
        only(self.headers, name).and_then(|value| value.to_str().ok())
    }

    /// Returns the peer's address, if the server provides it.
    ///
    /// It comes from [`PeerAddr`](crate::PeerAddr), axum's `ConnectInfo<SocketAddr>` (feature
    /// `axum`) or tonic's `TcpConnectInfo` (feature `tonic`).
    #[inline]
    pub fn peer(&self) -> Option<IpAddr> {
        peer::find(self.extensions)
    }

    /// Returns the template of the matched route, `/users/{id}`, if the router provides it.
    ///
    /// It comes from [`MatchedRoute`](crate::MatchedRoute) or axum's `MatchedPath` (feature
    /// `axum`).
    pub fn route(&self) -> Option<&'a str> {
        route::find(self.extensions)
    }
}

/// Returns the only line of a header field.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a http::HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?;
    lines.next().is_none().then_some(first)
}

impl<'a> From<&'a Parts> for Head<'a> {
    fn from(parts: &'a Parts) -> Self {
        Self {
            method: &parts.method,
            uri: &parts.uri,
            headers: &parts.headers,
            extensions: &parts.extensions,
        }
    }
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({} {})", self.method, self.uri.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_field_is_missing() {
        let mut request = Request::new(());
        let name = HeaderName::from_static("x-api-key");
        request.headers_mut().append(&name, "one".parse().unwrap());
        assert_eq!(Head::of(&request).only(&name), Some("one"));
        request.headers_mut().append(&name, "two".parse().unwrap());
        assert_eq!(Head::of(&request).only(&name), None);
    }

    // A log line must not contain credentials.
    #[test]
    fn shows_no_field_and_no_query() {
        let mut request = Request::new(());
        *request.uri_mut() = "/a?token=s3cret".parse().unwrap();
        request.headers_mut().insert("authorization", "s3cret".parse().unwrap());
        assert_eq!(format!("{:?}", Head::of(&request)), "Head(GET /a)");
    }
}
