//! What clients may do: tokens with scopes for the data listeners, the token of the admin listener, and
//! the requests that a browser sends for a foreign page.
//!
//! All protocols use this module. They differ only in where the token is and how an error is written.

mod origin;
mod token;

use core::fmt;
use core::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use slidegate::Decision;

pub use self::origin::{ForeignRequest, HostNames};
pub use self::token::Token;
use crate::config::table::keywords;

keywords! {
    /// What a token allows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Scope {
        /// Checks, which take units.
        Check = "check",
        /// Reading what counts against a key.
        Look = "look",
        /// Changing what counts against a key, other than by a check.
        Change = "change",
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// All scopes.
    pub const ALL: Self = Self(0b111);
    /// Checks only.
    pub const CHECK: Self = Self(1 << Scope::Check as u8);

    /// Returns whether the scope is in the set.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |all, scope| all | (1 << scope as u8)))
    }
}

/// The configured access to the data listeners.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AccessRules {
    /// Tokens, and what each allows.
    pub tokens: Vec<(Token, Scopes)>,
    /// What requests without a token or a client certificate may do. By default everything on loopback
    /// if there are no tokens, and otherwise only checks.
    pub anonymous: Option<Scopes>,
}

/// The current rules. A reload replaces them.
pub type SharedRules = Arc<ArcSwap<AccessRules>>;

/// The clients that can reach a listener. Selects what they may do without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Clients on this machine.
    Loopback,
    /// Clients with a verified certificate.
    Verified,
    /// Any client.
    Network,
}

impl Exposure {
    /// Returns the exposure of a listener. The address that it is bound to counts, not that of the
    /// client, because a proxy on this machine forwards requests of other machines.
    pub fn new(address: SocketAddr, verifies_clients: bool) -> Self {
        if verifies_clients {
            Self::Verified
        } else if is_loopback(address) {
            Self::Loopback
        } else {
            Self::Network
        }
    }
}

/// Returns whether only this machine reaches an address.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Access to one data listener.
#[derive(Debug, Clone)]
pub struct Access {
    rules: SharedRules,
    exposure: Exposure,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessError {
    /// The token is not among those configured.
    UnknownToken,
    /// A token with this scope is needed.
    TokenNeeded(Scope),
    /// The token does not have this scope.
    ScopeMissing(Scope),
    /// The listener is beyond loopback, and neither tokens nor client certificates are configured.
    Off(Scope),
}

impl Access {
    /// Access by `rules` to a listener.
    pub fn new(rules: SharedRules, exposure: Exposure) -> Self {
        Self { rules, exposure }
    }

    /// Access to everything, as on loopback without tokens.
    pub fn open() -> Self {
        Self::new(SharedRules::default(), Exposure::Loopback)
    }

    /// Checks that a request with this token, or without one, may do something.
    ///
    /// # Errors
    ///
    /// Returns the reason if it may not.
    pub fn check(&self, scope: Scope, token: Option<&[u8]>) -> Result<(), AccessError> {
        self.rules.load().check(scope, token, self.exposure)
    }

    /// Checks that a token is known.
    ///
    /// # Errors
    ///
    /// [`AccessError::UnknownToken`] if it is not, and `None` if there are no tokens.
    pub fn log_in(&self, token: &[u8]) -> Result<(), Option<AccessError>> {
        let rules = self.rules.load();
        if rules.tokens.is_empty() {
            return Err(None);
        }
        rules.find(token).map(|_| ()).ok_or(Some(AccessError::UnknownToken))
    }

    /// Hides what remains from a client that may not look, if its check took nothing. Otherwise a check
    /// of a cost that is always denied would be a look.
    pub fn hide(&self, decision: &mut Decision, token: Option<&[u8]>) {
        let took_nothing = !decision.is_allowed() || decision.is_shadow_denied();
        if took_nothing && self.check(Scope::Look, token).is_err() {
            decision.hide_remaining();
        }
    }

    /// As [`hide`](Access::hide), for an HTTP request.
    pub fn hide_from(&self, headers: &HeaderMap, decision: &mut Decision) {
        self.hide(decision, own_token(headers).or_else(|| bearer_token(headers)));
    }

    /// Checks an HTTP request. Its token is in `X-Slidegate-Token` or `Authorization: Bearer`.
    ///
    /// # Errors
    ///
    /// As [`check`](Access::check).
    pub fn check_headers(&self, scope: Scope, headers: &HeaderMap) -> Result<(), AccessError> {
        self.check(scope, own_token(headers).or_else(|| bearer_token(headers)))
    }

    /// Checks a request whose `Authorization` belongs to another request, as with forward auth. Its
    /// token is in `X-Slidegate-Token`.
    ///
    /// # Errors
    ///
    /// As [`check`](Access::check).
    pub fn check_own_header(&self, scope: Scope, headers: &HeaderMap) -> Result<(), AccessError> {
        self.check(scope, own_token(headers))
    }
}

impl AccessRules {
    fn check(
        &self,
        scope: Scope,
        token: Option<&[u8]>,
        exposure: Exposure,
    ) -> Result<(), AccessError> {
        // Without configured tokens, a token is meant for another service.
        if let (Some(token), false) = (token, self.tokens.is_empty()) {
            let scopes = self.find(token).ok_or(AccessError::UnknownToken)?;
            return if scopes.has(scope) { Ok(()) } else { Err(AccessError::ScopeMissing(scope)) };
        }
        if self.anonymous(exposure).has(scope) {
            Ok(())
        } else if self.tokens.is_empty() {
            Err(AccessError::Off(scope))
        } else {
            Err(AccessError::TokenNeeded(scope))
        }
    }

    /// Returns what requests without a token may do.
    pub fn anonymous(&self, exposure: Exposure) -> Scopes {
        match (exposure, self.anonymous) {
            (Exposure::Verified, _) => Scopes::ALL,
            (_, Some(scopes)) => scopes,
            (Exposure::Loopback, None) if self.tokens.is_empty() => Scopes::ALL,
            (Exposure::Loopback | Exposure::Network, None) => Scopes::CHECK,
        }
    }

    /// Compares with all tokens, so that the time does not depend on which one it is.
    fn find(&self, token: &[u8]) -> Option<Scopes> {
        let matching = |found, (known, scopes): &(Token, Scopes)| {
            if known.is(token) { Some(*scopes) } else { found }
        };
        self.tokens.iter().fold(None, matching)
    }
}

impl AccessError {
    /// Returns whether another token, or any, would help.
    pub fn needs_token(self) -> bool {
        matches!(self, Self::UnknownToken | Self::TokenNeeded(_))
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownToken => formatter.write_str("this token is not known"),
            Self::TokenNeeded(scope) => {
                write!(formatter, "send a token that has the scope `{}`", scope.name())
            }
            Self::ScopeMissing(scope) => {
                write!(formatter, "this token does not have the scope `{}`", scope.name())
            }
            Self::Off(scope) => write!(
                formatter,
                "the scope `{}` is off beyond loopback: configure `access.tokens` or \
                 `tls.client_authority`, or add it to `access.anonymous`",
                scope.name()
            ),
        }
    }
}

/// The header that carries a token where `Authorization` belongs to another request.
static OWN_HEADER: HeaderName = HeaderName::from_static("x-slidegate-token");

fn own_token(headers: &HeaderMap) -> Option<&[u8]> {
    Some(headers.get(&OWN_HEADER)?.as_bytes())
}

/// Returns the token of `Authorization: Bearer`.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests;
