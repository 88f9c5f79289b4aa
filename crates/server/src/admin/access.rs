//! Access control of the admin listener.

use core::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::{HeaderMap, Uri};
use slidegate::{Error, ErrorKind};

use crate::access::{HostNames, Token, bearer_token, is_loopback};
use crate::http::Peer;
use crate::http::error::{ApiError, ApiErrorKind};

/// Access to the admin listener. With a token, clients that send it have access. Without one, clients
/// on this machine and clients with a verified certificate have access.
///
/// Clones share the token, which a reload replaces.
#[derive(Debug, Clone, Default)]
pub struct Access {
    token: Arc<ArcSwapOption<Token>>,
    names: HostNames,
}

/// Checks whether the admin listener may use an address.
///
/// # Errors
///
/// Returns an error if the address is not loopback and there is neither a token nor a client
/// authority.
pub fn may_listen(address: SocketAddr, has_token: bool, has_mtls: bool) -> Result<(), Error> {
    if is_loopback(address) || has_token || has_mtls {
        return Ok(());
    }
    let message = format!(
        "the admin listener on {address} would be open to every client: listen on loopback, or set `admin.token_file` \
         or `admin.tls.client_authority`"
    );
    Err(Error::new(ErrorKind::Setting, message))
}

impl Access {
    /// Returns access without a token.
    pub fn local() -> Self {
        Self::default()
    }

    /// Returns access with a token, which every client must send.
    ///
    /// # Errors
    ///
    /// Returns an error if it is shorter than 16 bytes or not valid in a header field.
    pub fn token(token: &str) -> Result<Self, Error> {
        let token = Token::new(token.as_bytes());
        let token = token.map_err(|problem| Error::new(ErrorKind::Setting, problem))?;
        let access = Self::local();
        access.set(Some(token));
        Ok(access)
    }

    /// Sets the names by which clients call the listener.
    #[must_use]
    pub fn names(mut self, names: HostNames) -> Self {
        self.names = names;
        self
    }

    /// Replaces the token. The old one is refused from now on.
    pub fn set(&self, token: Option<Token>) {
        self.token.store(token.map(Arc::new));
    }

    pub(super) fn check(
        &self,
        peer: &Peer,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        let token = self.token.load();
        let Some(token) = &*token else {
            if peer.is_verified || is_loopback(peer.address) {
                // No page of another site knows a token, but every page can send a request.
                return Ok(self.names.check(uri, headers)?);
            }
            let detail =
                "no token is configured, so only this machine has access: set admin.token_file";
            return Err(ApiError::new(ApiErrorKind::Forbidden, detail));
        };
        match bearer_token(headers) {
            Some(sent) if token.is(sent) => Ok(()),
            _ => {
                let detail = "send the token: Authorization: Bearer TOKEN";
                Err(ApiError::new(ApiErrorKind::Unauthorized, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests;
