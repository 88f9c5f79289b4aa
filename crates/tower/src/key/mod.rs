//! By what requests are counted.

mod bytes;
mod digest;
mod part;

use core::net::IpAddr;

use http::HeaderName;
use slidegate_http::ClientAddress;

pub(crate) use bytes::{KeyBytes, Kind};
pub(crate) use digest::Digest;
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
/// [`Gate::missing`](crate::Gate::missing).
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
    /// let _by_user = KeyBy::extension(|user: &UserId| user.0.to_be_bytes());
    /// ```
    pub fn extension<T, K>(of: impl Fn(&T) -> K + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        K: AsRef<[u8]>,
    {
        Self::one(Part::custom(move |head, put| {
            head.extensions().get::<T>().is_some_and(|value| {
                put(of(value).as_ref());
                true
            })
        }))
    }

    /// By whatever a function makes of the request.
    pub fn with<K: AsRef<[u8]>>(
        of: impl Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        Self::one(Part::custom(move |head, put| {
            of(head).is_some_and(|value| {
                put(value.as_ref());
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
    pub fn everybody() -> Self {
        Self::one(Part::Everybody)
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
mod tests {
    use super::*;
    use http::Request;
    use proptest::prelude::*;

    fn key(by: &KeyBy, request: &Request<()>) -> Result<Vec<u8>, Absent> {
        let digest = Digest::new(&[7; 16]);
        by.of(&Head::of(request), &digest, true).map(|key| key.as_slice().to_vec())
    }

    fn with_header(name: &str, value: &str) -> Request<()> {
        Request::builder().header(name, value).body(()).unwrap()
    }

    // A token in Redis could be read by whoever may read Redis.
    #[test]
    fn credentials_are_hashed_without_being_told() {
        for name in ["authorization", "X-Api-Key", "cookie"] {
            let bytes = key(&KeyBy::header(name), &with_header(name, "s3cret-token")).unwrap();
            assert!(!bytes.windows(6).any(|window| window == b"s3cret"), "{name}");
        }
        let by = KeyBy::header("x-user");
        assert!(key(&by, &with_header("x-user", "alice")).unwrap().ends_with(b"alice"));
        let bytes = key(&by.secret(), &with_header("x-user", "alice")).unwrap();
        assert!(!bytes.ends_with(b"alice"));
    }

    // Keys must not grow with what a client sends.
    #[test]
    fn a_long_part_is_a_digest() {
        let long = "a".repeat(1 << 20);
        let by = KeyBy::header("x-user");
        let bytes = key(&by, &with_header("x-user", &long)).unwrap();
        assert!(bytes.len() < 64, "{}", bytes.len());
        let other = "a".repeat((1 << 20) - 1) + "b";
        assert_ne!(bytes, key(&by, &with_header("x-user", &other)).unwrap());
        let whole = "a".repeat(PART_MAX);
        assert_eq!(key(&by, &with_header("x-user", &whole)).unwrap().len(), PART_MAX + 3);
    }

    #[test]
    fn a_part_that_is_missing_makes_the_key_missing() {
        let by = KeyBy::header("x-user").and(KeyBy::route());
        let request = with_header("x-user", "alice");
        assert_eq!(key(&by, &request), Err(Absent::Part));
        let mut request = with_header("x-user", "alice");
        request.extensions_mut().insert(crate::MatchedRoute::new("/users/{id}"));
        assert!(key(&by, &request).unwrap().ends_with(b"/users/{id}"));
        // An empty field names nobody.
        let mut request = with_header("x-user", "");
        request.extensions_mut().insert(crate::MatchedRoute::new("/users/{id}"));
        assert_eq!(key(&by, &request), Err(Absent::Part));
        assert_eq!(key(&KeyBy::peer(), &request), Err(Absent::Peer));
    }

    #[test]
    fn made_up_methods_are_one() {
        let of = |method: &str| {
            let request = Request::builder().method(method).body(()).unwrap();
            key(&KeyBy::method(), &request).unwrap()
        };
        assert_ne!(of("GET"), of("POST"));
        assert_eq!(of("FOO"), of("BAR"));
    }

    proptest! {
        #[test]
        fn addresses_are_those_of_the_http_crate(bits: u128, v4: u32, mapped: bool) {
            let v6 = if mapped { 0xffff_0000_0000 | u128::from(v4) } else { bits };
            for address in [IpAddr::from(v4.to_be_bytes()), IpAddr::from(v6.to_be_bytes())] {
                let expected = ClientAddress::peer().key_of(address);
                with_address(address, |bytes| assert_eq!(bytes, expected.as_bytes()));
            }
        }

        // User and endpoint: no pair may be taken for another.
        #[test]
        fn pairs_are_apart(a in "[ab:/]{1,4}", b in "[ab:/]{1,4}", c in "[ab:/]{1,4}", d in "[ab:/]{1,4}") {
            let by = KeyBy::header("x-one").and(KeyBy::header("x-two"));
            let of = |one: &str, two: &str| {
                let request = Request::builder().header("x-one", one).header("x-two", two);
                key(&by, &request.body(()).unwrap()).unwrap()
            };
            prop_assert_eq!(of(&a, &b) == of(&c, &d), a == c && b == d);
        }
    }
}
