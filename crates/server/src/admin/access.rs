//! Who may use the admin listener.

use core::fmt;
use core::hint::black_box;
use core::net::SocketAddr;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue};
use slidegate::{Error, ErrorKind};

use crate::http::Peer;
use crate::http::error::{ApiError, ApiErrorKind};

/// Who may use the admin listener. With a token, clients that send it; without one, clients on this
/// machine and clients with a verified certificate.
#[derive(Clone, Default)]
pub struct Access {
    token: Option<Box<[u8]>>,
}

/// The minimum length of a token.
const TOKEN_MIN: usize = 16;

/// Checks whether the admin listener may use an address.
///
/// # Errors
///
/// When it is not loopback and there is neither a token nor a client authority.
pub fn may_listen(address: SocketAddr, has_token: bool, has_mtls: bool) -> Result<(), Error> {
    if address.ip().to_canonical().is_loopback() || has_token || has_mtls {
        return Ok(());
    }
    let message = format!(
        "admin on {address} could be used by anybody: listen on loopback, or set `admin.token_file` \
         or `admin.tls.client_authority`"
    );
    Err(Error::new(ErrorKind::Setting, message))
}

impl Access {
    /// Access without a token.
    pub fn local() -> Self {
        Self::default()
    }

    /// Access with a token, which every client must send.
    ///
    /// # Errors
    ///
    /// When it is shorter than 16 bytes or not valid in a header field.
    pub fn token(token: &str) -> Result<Self, Error> {
        let token = token.trim();
        let refused = |why: String| Err(Error::new(ErrorKind::Setting, why));
        if token.len() < TOKEN_MIN {
            let len = token.len();
            return refused(format!(
                "a token of {len} bytes is too short: use at least {TOKEN_MIN}"
            ));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refused("a token has letters, digits and signs of ASCII only".to_owned());
        }
        Ok(Self { token: Some(token.as_bytes().into()) })
    }

    pub(super) fn check(&self, peer: &Peer, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(token) = &self.token else {
            if peer.is_verified || peer.address.ip().to_canonical().is_loopback() {
                return Ok(());
            }
            let detail = "this address may not ask: no token is configured";
            return Err(ApiError::new(ApiErrorKind::Forbidden, detail));
        };
        let sent = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        match sent.and_then(bearer) {
            Some(sent) if is_same(sent, token) => Ok(()),
            _ => {
                let detail = "send the token: Authorization: Bearer TOKEN";
                Err(ApiError::new(ApiErrorKind::Unauthorized, detail))
            }
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_token = self.token.is_some();
        formatter.debug_struct("Access").field("has_token", &has_token).finish()
    }
}

/// Refuses requests that a browser sends for a page of another site.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let from = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match (from, host) {
        (Some((_, from)), Some(host)) if from.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(ApiError::new(ApiErrorKind::Forbidden, "a page of another site may not ask this")),
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Compares in constant time, except for the length.
fn is_same(sent: &[u8], token: &[u8]) -> bool {
    if sent.len() != token.len() {
        return false;
    }
    let differing = sent
        .iter()
        .zip(token)
        .fold(0, |differing, (one, other)| black_box(differing | (one ^ other)));
    black_box(differing) == 0
}

#[cfg(test)]
mod tests;
