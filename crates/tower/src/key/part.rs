//! One part of a key.

use core::fmt;
use std::sync::Arc;

use http::{HeaderName, Method};
use slidegate_http::{ClientAddress, Duplicates, NoValue};

use super::bytes::{KeyBytes, Kind};
use super::digest::Digest;
use super::{PART_MAX, with_address};
use crate::head::Head;

/// One part of a key and its source.
#[derive(Clone)]
pub(crate) enum Part {
    Peer,
    Client(Arc<ClientAddress>),
    Header {
        name: HeaderName,
        secret: bool,
        duplicates: Duplicates,
    },
    Route,
    Method,
    Custom {
        find: Arc<Find>,
        secret: bool,
    },
    Global,
    /// An invalid name of a header field.
    Unusable(Box<str>),
}

/// Calls its argument with the bytes of the part. Returns `false` if the part is missing.
type Find = dyn Fn(&Head<'_>, &mut dyn FnMut(&[u8])) -> bool + Send + Sync;

/// Why a request has no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The client did not send a part of the key.
    Part,
    /// A field of the key has several values, of which the client would choose one.
    Several,
    /// The server does not provide the peer's address.
    Peer,
}

impl Part {
    pub(super) fn client(address: ClientAddress) -> Self {
        Self::Client(Arc::new(address))
    }

    pub(super) fn custom(
        find: impl Fn(&Head<'_>, &mut dyn FnMut(&[u8])) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::Custom { find: Arc::new(find), secret: false }
    }

    /// Marks the part as secret. Addresses, routes and methods are not secret.
    pub(super) fn make_secret(&mut self) {
        if let Self::Header { secret, .. } | Self::Custom { secret, .. } = self {
            *secret = true;
        }
    }

    /// Sets what happens to requests in which the field has several values.
    pub(super) fn set_duplicates(&mut self, setting: Duplicates) {
        if let Self::Header { duplicates, .. } = self {
            *duplicates = setting;
        }
    }

    /// Returns `true` if the part may be replaced by a digest, so that processes that share keys
    /// must share a secret.
    pub(crate) fn may_be_digest(&self) -> bool {
        matches!(self, Self::Header { .. } | Self::Custom { .. })
    }

    #[inline]
    pub(super) fn add(
        &self,
        head: &Head<'_>,
        digest: &Digest,
        hide: bool,
        key: &mut KeyBytes,
    ) -> Result<(), Absent> {
        match self {
            Self::Peer => {
                let peer = head.peer().ok_or(Absent::Peer)?;
                with_address(peer, |bytes| key.push(Kind::Address, bytes));
                Ok(())
            }
            _ => self.add_other(head, digest, hide, key),
        }
    }

    fn add_other(
        &self,
        head: &Head<'_>,
        digest: &Digest,
        hide: bool,
        key: &mut KeyBytes,
    ) -> Result<(), Absent> {
        let mut put = |part: &[u8], secret: bool| {
            if part.len() > PART_MAX || (secret && hide) {
                key.push(Kind::Digest, &digest.of(part));
            } else {
                key.push(Kind::Value, part);
            }
        };
        match self {
            Self::Peer | Self::Client(_) => {
                let peer = head.peer().ok_or(Absent::Peer)?;
                if let Self::Client(address) = self {
                    key.push(Kind::Address, address.key(peer, head.headers()).as_bytes());
                }
            }
            Self::Header { name, secret, duplicates } => {
                let value = duplicates.value(head.headers(), name.as_str());
                let value = value.map_err(|no_value| match no_value {
                    NoValue::Missing => Absent::Part,
                    NoValue::Several => Absent::Several,
                })?;
                put(&value, *secret);
            }
            Self::Route => put(head.route().ok_or(Absent::Part)?.as_bytes(), false),
            Self::Method => put(method(head.method()).as_bytes(), false),
            Self::Custom { find, secret } => {
                let found = find(head, &mut |part| put(part, *secret));
                return if found { Ok(()) } else { Err(Absent::Part) };
            }
            Self::Global => put(b"", false),
            Self::Unusable(_) => return Err(Absent::Part),
        }
        Ok(())
    }
}

/// Returns the name of the method. A client can invent methods, so unknown ones share a name.
fn method(method: &Method) -> &str {
    const DEFINED: &[Method] = &[
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::CONNECT,
        Method::PATCH,
        Method::TRACE,
    ];
    if DEFINED.contains(method) { method.as_str() } else { "" }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer => f.write_str("peer"),
            Self::Client(_) => f.write_str("client"),
            Self::Header { name, .. } => write!(f, "header {name}"),
            Self::Route => f.write_str("route"),
            Self::Method => f.write_str("method"),
            Self::Custom { .. } => f.write_str("custom"),
            Self::Global => f.write_str("global"),
            Self::Unusable(name) => write!(f, "header {name:?}"),
        }
    }
}
