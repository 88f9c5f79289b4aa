//! Keys: what is counted separately.

use core::fmt;
use core::hash::Hasher;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use siphasher::sip::SipHasher13;

use crate::fingerprint::Fingerprint;

/// A key that is counted separately: text, bytes, integers, addresses, and options and tuples of
/// them.
///
/// A key is never stored. It is hashed to a 64-bit fingerprint with a secret, so that no client can
/// make two keys collide on purpose. With ten million keys, the probability that any two collide is
/// three in a million. Tuples are hashed so that different tuples have different encodings: `("ab",
/// "c")` and `("a", "bc")` differ.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota};
///
/// let limiter = Limiter::new(Policy::new("demo", Quota::per_minute(1))?)?;
/// assert!(limiter.check(&("alice", "/login")).is_allowed());
/// assert!(limiter.check(&("alice", "/search")).is_allowed());
/// assert!(!limiter.check(&("alice", "/login")).is_allowed());
/// # Ok::<(), slidegate::Error>(())
/// ```
///
/// To implement it for a custom type, feed its parts:
///
/// ```
/// use slidegate::{Key, KeyHasher};
///
/// struct Account {
///     tenant: u32,
///     name: String,
/// }
///
/// impl Key for Account {
///     fn feed(&self, hasher: &mut KeyHasher) {
///         (self.tenant, &self.name).feed(hasher);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a rate limit key",
    label = "not a key",
    note = "keys are text, bytes, integers, `bool`, `char`, IP and socket addresses, and options and tuples of keys",
    note = "for another type, pass one of its fields or a tuple of them, or implement `slidegate::Key`"
)]
pub trait Key {
    /// Feeds the key to the hasher in an encoding that marks its end.
    fn feed(&self, hasher: &mut KeyHasher);

    /// Returns the fingerprint of the key under a secret.
    #[inline]
    fn fingerprint(&self, secret: &Secret) -> u64 {
        let mut hasher = KeyHasher(secret.parts);
        self.feed(&mut hasher);
        hasher.0.finish()
    }
}

/// Hashes the parts of a key. Its `Debug` form does not show the secret.
pub struct KeyHasher(SipHasher13);

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}

impl KeyHasher {
    /// Adds a part of any length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.write_u64(bytes.len() as u64);
        self.0.write(bytes);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.0.write_u64(number);
    }
}

/// The secret of fingerprints: 128 random bits. Without it, fingerprints cannot be predicted.
///
/// Its `Debug` form does not show it.
#[derive(Clone)]
pub struct Secret {
    /// For keys that are one sequence of bytes.
    whole: Fingerprint,
    /// For all other keys. It is a separate secret, so that the two forms cannot collide on
    /// purpose.
    parts: SipHasher13,
    bytes: [u8; 16],
}

impl Secret {
    /// Creates a secret from these bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        let (first, second) = halves(bytes);
        Self {
            whole: Fingerprint::new(first, second),
            parts: SipHasher13::new_with_keys(!first, second),
            bytes,
        }
    }

    /// Creates a random secret, from the random source of `HashMap`.
    pub fn random() -> Self {
        use core::hash::BuildHasher;
        let half = || std::collections::hash_map::RandomState::new().build_hasher().finish();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half().to_le_bytes());
        bytes[8..].copy_from_slice(&half().to_le_bytes());
        Self::new(bytes)
    }

    pub(crate) fn bytes(&self) -> [u8; 16] {
        self.bytes
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

fn halves(bytes: [u8; 16]) -> (u64, u64) {
    let number = u128::from_le_bytes(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of 128 bits")]
    let halves = (number as u64, (number >> 64) as u64);
    halves
}

impl Key for [u8] {
    fn feed(&self, hasher: &mut KeyHasher) {
        hasher.bytes(self);
    }

    #[inline]
    fn fingerprint(&self, secret: &Secret) -> u64 {
        secret.whole.of(self)
    }
}

impl Key for str {
    fn feed(&self, hasher: &mut KeyHasher) {
        hasher.bytes(self.as_bytes());
    }

    #[inline]
    fn fingerprint(&self, secret: &Secret) -> u64 {
        secret.whole.of(self.as_bytes())
    }
}

/// Implements `Key` for types by their target.
macro_rules! key_as {
    ($({$($generics:tt)*} $owned:ty => $borrowed:ty;)*) => {$(
        impl<$($generics)*> Key for $owned {
            fn feed(&self, hasher: &mut KeyHasher) {
                <$borrowed>::feed(self, hasher);
            }

            #[inline]
            fn fingerprint(&self, secret: &Secret) -> u64 {
                <$borrowed>::fingerprint(self, secret)
            }
        }
    )*};
}

key_as! {
    {} String => str;
    {} Vec<u8> => [u8];
    {K: Key + ?Sized} &K => K;
    {K: Key + ?Sized} Box<K> => K;
    {K: Key + ?Sized} Rc<K> => K;
    {K: Key + ?Sized} Arc<K> => K;
    {'a, K: Key + ToOwned + ?Sized} Cow<'a, K> => K;
}

impl<const N: usize> Key for [u8; N] {
    fn feed(&self, hasher: &mut KeyHasher) {
        hasher.bytes(self);
    }

    #[inline]
    fn fingerprint(&self, secret: &Secret) -> u64 {
        secret.whole.of(self)
    }
}

/// Implements `Key` for integers of up to 64 bits, as one number.
macro_rules! key_integers {
    ($($integer:ty)*) => {$(
        impl Key for $integer {
            #[expect(clippy::allow_attributes, reason = "which lints fire depends on the type")]
            #[allow(
                clippy::cast_lossless,
                clippy::cast_sign_loss,
                trivial_numeric_casts,
                reason = "different integers of one type stay different"
            )]
            fn feed(&self, hasher: &mut KeyHasher) {
                hasher.number(*self as u64);
            }
        }
    )*};
}

key_integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize bool char);

impl Key for u128 {
    fn feed(&self, hasher: &mut KeyHasher) {
        let (low, high) = halves(self.to_le_bytes());
        hasher.number(low);
        hasher.number(high);
    }
}

impl Key for i128 {
    fn feed(&self, hasher: &mut KeyHasher) {
        self.cast_unsigned().feed(hasher);
    }
}

impl Key for Ipv4Addr {
    fn feed(&self, hasher: &mut KeyHasher) {
        hasher.bytes(&self.octets());
    }
}

impl Key for Ipv6Addr {
    fn feed(&self, hasher: &mut KeyHasher) {
        hasher.bytes(&self.octets());
    }
}

impl Key for IpAddr {
    fn feed(&self, hasher: &mut KeyHasher) {
        match self {
            Self::V4(address) => address.feed(hasher),
            Self::V6(address) => address.feed(hasher),
        }
    }
}

impl Key for SocketAddrV4 {
    fn feed(&self, hasher: &mut KeyHasher) {
        self.ip().feed(hasher);
        self.port().feed(hasher);
    }
}

impl Key for SocketAddrV6 {
    fn feed(&self, hasher: &mut KeyHasher) {
        self.ip().feed(hasher);
        self.port().feed(hasher);
        self.flowinfo().feed(hasher);
        self.scope_id().feed(hasher);
    }
}

impl Key for SocketAddr {
    fn feed(&self, hasher: &mut KeyHasher) {
        match self {
            Self::V4(address) => address.feed(hasher),
            Self::V6(address) => address.feed(hasher),
        }
    }
}

#[cfg(feature = "uuid")]
impl Key for uuid::Uuid {
    fn feed(&self, hasher: &mut KeyHasher) {
        self.as_bytes().feed(hasher);
    }

    #[inline]
    fn fingerprint(&self, secret: &Secret) -> u64 {
        self.as_bytes().fingerprint(secret)
    }
}

/// Whether there is a key comes first, so that `None` differs from every `Some`.
impl<K: Key> Key for Option<K> {
    fn feed(&self, hasher: &mut KeyHasher) {
        self.is_some().feed(hasher);
        if let Some(key) = self {
            key.feed(hasher);
        }
    }
}

/// Tuples start with their length, so that a short one is not a prefix of a long one.
macro_rules! key_tuples {
    ($($length:literal: $($name:ident)*;)*) => {$(
        impl<$($name: Key),*> Key for ($($name,)*) {
            #[expect(non_snake_case, reason = "the names of the types serve for the parts")]
            fn feed(&self, hasher: &mut KeyHasher) {
                let ($($name,)*) = self;
                hasher.number($length);
                $($name.feed(hasher);)*
            }
        }
    )*};
}

key_tuples! {
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
}

#[cfg(test)]
mod tests;
