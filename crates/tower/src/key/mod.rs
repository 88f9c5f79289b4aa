//! By what requests are counted.

mod bytes;
mod digest;
mod key_part;
mod part;

use core::net::IpAddr;

use http::HeaderName;
use slidegate_http::ClientAddress;

pub(crate) use bytes::{KeyBytes, Kind};
pub(crate) use digest::Digest;
pub use key_part::KeyPart;
pub(crate) use part::{Absent, Part};

use crate::head::Head;

/// The most bytes of a part that are taken as they are; of a longer one, its digest is taken.
pub(crate) const PART_MAX: usize = 256;

/// By what requests are counted: one part, or several together.
///
/// ```
/// use slidegate_tower::KeyBy;
///
/// // Every user apart on every route.
/// let _by_user_and_route = KeyBy::header("x-user").and(KeyBy::route());
/// // Keys that are credentials are hashed before they go anywhere.
/// let _by_api_key = KeyBy::header("x-api-key");
/// ```
///
/// Parts are put together so that no two lists of parts have the same key: `a` with `bc` is not
/// `ab` with `c`. Of a part above 256 bytes a digest stands for it.
///
/// A key is missing when one of its parts is: a header field that is absent, empty or there twice,
/// a route that was not matched, a function that answered `None`. What happens then is chosen by
/// [`Rule::missing`](crate::Rule::missing).
///
/// Before a client is authenticated, count by what it names *and* its address: by the name alone
/// anybody could use up the units of somebody else.
#[derive(Debug, Clone)]
pub struct KeyBy {
    parts: Vec<Part>,
}

/// The most parts of a key.
pub(crate) const PARTS_MAX: usize = 8;

impl KeyBy {
    /// By the address at the other end of the connection, IPv6 by /64. Behind a proxy that is the
    /// proxy's: use [`KeyBy::client`].
    pub fn peer() -> Self {
        Self::one(Part::Peer)
    }

    /// By the client's address, which trusted proxies may tell.
    pub fn client(address: ClientAddress) -> Self {
        Self::one(Part::client(address))
    }

    /// By a header field. Those that carry credentials (`authorization`, `cookie`,
    /// `proxy-authorization`, `x-api-key`, `x-auth-token`) are secret without being told.
    ///
    /// A name that cannot be one is refused when the layer is built.
    pub fn header(name: &str) -> Self {
        let Ok(parsed) = name.parse::<HeaderName>() else {
            return Self::one(Part::Unusable(name.into()));
        };
        let secret = SECRET_FIELDS.contains(&parsed.as_str());
        let key = Self::one(Part::Header { name: parsed, secret: false });
        if secret { key.secret() } else { key }
    }

    /// By the template of the matched route, never the path that was asked for.
    pub fn route() -> Self {
        Self::one(Part::Route)
    }

    /// By the method. Methods that HTTP does not define are one.
    pub fn method() -> Self {
        Self::one(Part::Method)
    }

    /// By what another layer has noted, a user's id for example.
    ///
    /// ```
    /// use slidegate_tower::KeyBy;
    ///
    /// #[derive(Clone)]
    /// struct UserId(u64);
    ///
    /// let _by_user = KeyBy::extension(|user: &UserId| user.0);
    /// ```
    pub fn extension<T, K>(of: impl Fn(&T) -> K + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        K: KeyPart,
    {
        Self::one(Part::custom(move |head, put| {
            head.extensions().get::<T>().is_some_and(|value| {
                of(value).with_bytes(put);
                true
            })
        }))
    }

    /// By whatever a function makes of the request.
    pub fn with<K: KeyPart>(of: impl Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static) -> Self {
        Self::one(Part::custom(move |head, put| {
            of(head).is_some_and(|value| {
                value.with_bytes(put);
                true
            })
        }))
    }

    /// By a text of the request that a function points out.
    ///
    /// ```
    /// use slidegate_tower::KeyBy;
    ///
    /// let _by_host = KeyBy::text(|head| head.uri().host());
    /// ```
    pub fn text(of: impl for<'a> Fn(&Head<'a>) -> Option<&'a str> + Send + Sync + 'static) -> Self {
        Self::one(Part::custom(move |head, put| {
            of(head).is_some_and(|value| {
                put(value.as_bytes());
                true
            })
        }))
    }

    /// By nothing: all requests are counted together, on purpose.
    pub fn global() -> Self {
        Self::one(Part::Global)
    }

    /// By this and by another.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Takes the parts named so far as secret: a keyed hash of them leaves the process, never they.
    #[must_use]
    pub fn secret(mut self) -> Self {
        for part in &mut self.parts {
            part.make_secret();
        }
        self
    }

    fn one(part: Part) -> Self {
        Self { parts: vec![part] }
    }

    /// The key of a request. `hide` says whether it may leave the process, so that secret parts
    /// are hashed.
    #[inline]
    pub(crate) fn of(
        &self,
        head: &Head<'_>,
        digest: &Digest,
        hide: bool,
    ) -> Result<KeyBytes, Absent> {
        let mut key = KeyBytes::new();
        for part in &self.parts {
            part.add(head, digest, hide, &mut key)?;
        }
        Ok(key)
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }
}

/// The peer's address in place of a key that is missing.
pub(crate) fn fallback(head: &Head<'_>) -> Result<KeyBytes, Absent> {
    let peer = head.peer().ok_or(Absent::Peer)?;
    let mut key = KeyBytes::new();
    with_address(peer, |bytes| key.push(Kind::Fallback, bytes));
    Ok(key)
}

/// An address as it counts unless told otherwise: IPv4 alone, IPv6 by /64. The same bytes as
/// `ClientAddress::peer().key_of(address)`, with less ado.
#[inline]
fn with_address(address: IpAddr, put: impl FnOnce(&[u8])) {
    match address.to_canonical() {
        IpAddr::V4(address) => put(&address.octets()),
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            put(&octets);
        }
    }
}

const SECRET_FIELDS: &[&str] =
    &["authorization", "cookie", "proxy-authorization", "x-api-key", "x-auth-token"];

#[cfg(test)]
mod tests;
