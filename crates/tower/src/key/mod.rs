//! Keys that requests are counted by.

mod bytes;
mod digest;
mod key_part;
mod part;

use core::net::IpAddr;

use http::HeaderName;
use slidegate_http::{ClientAddress, Duplicates};

pub(crate) use bytes::{KeyBytes, Kind};
pub(crate) use digest::Digest;
pub use key_part::KeyPart;
pub(crate) use part::{Absent, Part};

use crate::head::Head;

/// The maximum length of a part in bytes. Longer parts are replaced by their digest.
pub(crate) const PART_MAX: usize = 256;

/// The key that requests are counted by: one part, or several together.
///
/// ```
/// use slidegate_tower::KeyBy;
///
/// // Separately for each user and route.
/// let _by_user_and_route = KeyBy::header("x-user").and(KeyBy::route());
/// // Credentials are hashed before they leave the process.
/// let _by_api_key = KeyBy::header("x-api-key");
/// ```
///
/// Parts are combined so that different lists of parts have different keys: `a` with `bc` is not
/// `ab` with `c`. A part longer than 256 bytes is replaced by a digest.
///
/// A key is missing if one of its parts is: a header field that is absent or empty, a route that was
/// not matched, a function that returned `None`. The effect is set by
/// [`Rule::missing`](crate::Rule::missing). A request whose header field has several values is
/// denied: see [`KeyBy::duplicates`].
///
/// Before a client is authenticated, count by its name *and* its address: with the name alone,
/// a client could use up the units of another client.
#[derive(Debug, Clone)]
pub struct KeyBy {
    parts: Vec<Part>,
}

/// The maximum number of parts of a key.
pub(crate) const PARTS_MAX: usize = 8;

impl KeyBy {
    /// Counts by the peer's address, IPv6 by /64. Behind a proxy, the peer is the proxy: use
    /// [`KeyBy::client`].
    pub fn peer() -> Self {
        Self::one(Part::Peer)
    }

    /// Counts by the client's address, as trusted proxies report it.
    pub fn client(address: ClientAddress) -> Self {
        Self::one(Part::client(address))
    }

    /// Counts by a header field. Fields that contain credentials (`authorization`, `cookie`,
    /// `proxy-authorization`, `x-api-key`, `x-auth-token`) are secret by default.
    ///
    /// A client that adds a cookie changes the whole field `cookie`: count by the session that your
    /// program finds in it, with [`KeyBy::with`].
    ///
    /// An invalid name is an error when the layer is built.
    pub fn header(name: &str) -> Self {
        let Ok(parsed) = name.parse::<HeaderName>() else {
            return Self::one(Part::Unusable(name.into()));
        };
        let secret = SECRET_FIELDS.contains(&parsed.as_str());
        let duplicates = Duplicates::default();
        let key = Self::one(Part::Header { name: parsed, secret: false, duplicates });
        if secret { key.secret() } else { key }
    }

    /// Counts by the template of the matched route, never by the path of the request.
    pub fn route() -> Self {
        Self::one(Part::Route)
    }

    /// Counts by the method. All non-standard methods count as one.
    pub fn method() -> Self {
        Self::one(Part::Method)
    }

    /// Counts by a request extension, such as a user id that an outer layer inserted.
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

    /// Counts by the result of a function.
    pub fn with<K: KeyPart>(of: impl Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static) -> Self {
        Self::one(Part::custom(move |head, put| {
            of(head).is_some_and(|value| {
                value.with_bytes(put);
                true
            })
        }))
    }

    /// Counts by a text of the request that a function returns.
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

    /// Counts all requests together.
    pub fn global() -> Self {
        Self::one(Part::Global)
    }

    /// Counts by this key and another one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Marks the parts so far as secret: only a keyed hash of them leaves the process.
    #[must_use]
    pub fn secret(mut self) -> Self {
        for part in &mut self.parts {
            part.make_secret();
        }
        self
    }

    /// Sets what happens to requests in which a header field of the parts so far has several values:
    /// by default they are denied with 403. A comma separates values too.
    ///
    /// ```
    /// use slidegate_tower::{Duplicates, KeyBy};
    ///
    /// // The service reads the last line.
    /// let _by_user = KeyBy::header("x-user").duplicates(Duplicates::Last);
    /// ```
    #[must_use]
    pub fn duplicates(mut self, duplicates: Duplicates) -> Self {
        for part in &mut self.parts {
            part.set_duplicates(duplicates);
        }
        self
    }

    fn one(part: Part) -> Self {
        Self { parts: vec![part] }
    }

    /// Returns the key of a request. `hide` is set if the key may leave the process, so that secret
    /// parts are hashed.
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

/// Returns the peer's address as a replacement for a missing key.
pub(crate) fn fallback(head: &Head<'_>) -> Result<KeyBytes, Absent> {
    let peer = head.peer().ok_or(Absent::Peer)?;
    let mut key = KeyBytes::new();
    with_address(peer, |bytes| key.push(Kind::Fallback, bytes));
    Ok(key)
}

/// Calls `put` with the bytes of an address: IPv4 whole, IPv6 by /64. They are the same as those of
/// `ClientAddress::peer().key_of(address)`, and for IPv4 faster to compute.
#[inline]
fn with_address(address: IpAddr, put: impl FnOnce(&[u8])) {
    match address.to_canonical() {
        IpAddr::V4(address) => put(&address.octets()),
        address @ IpAddr::V6(_) => put(ClientAddress::peer().key_of(address).as_bytes()),
    }
}

const SECRET_FIELDS: &[&str] =
    &["authorization", "cookie", "proxy-authorization", "x-api-key", "x-auth-token"];

#[cfg(test)]
mod tests;
