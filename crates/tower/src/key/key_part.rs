//! Values that can be part of a key.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderValue;
use slidegate_http::AddressKey;

/// A value that can be a part of a key, as bytes.
///
/// Implemented for texts, bytes, integers and addresses. To implement it for a custom type, pass
/// its bytes to `put`. Values that must be counted separately need different bytes.
#[diagnostic::on_unimplemented(
    message = "requests cannot be counted by `{Self}`",
    label = "cannot be part of a key",
    note = "return a text, bytes, an integer or an IP address, such as `user.id` or `user.name.clone()`",
    note = "a text that is borrowed from the request: use `KeyBy::text(|head| ..)`",
    note = "a type of your own: implement `slidegate_tower::KeyPart` for it"
)]
pub trait KeyPart {
    /// Calls `put` once with the bytes.
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8]));
}

macro_rules! as_bytes {
    ($($type:ty),+) => {$(
        impl KeyPart for $type {
            fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
                put(self.as_bytes());
            }
        }
    )+};
}

as_bytes!(str, String, Box<str>, Arc<str>, Cow<'_, str>, HeaderValue, AddressKey);

/// Big-endian.
macro_rules! integers {
    ($($type:ty),+) => {$(
        impl KeyPart for $type {
            fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
                put(&self.to_be_bytes());
            }
        }
    )+};
}

integers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl KeyPart for [u8] {
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
        put(self);
    }
}

impl<const N: usize> KeyPart for [u8; N] {
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
        put(self);
    }
}

impl KeyPart for Vec<u8> {
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
        put(self);
    }
}

impl KeyPart for Ipv4Addr {
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
        put(&self.octets());
    }
}

impl KeyPart for Ipv6Addr {
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
        put(&self.octets());
    }
}

/// The whole address. [`KeyBy::peer`](crate::KeyBy::peer) and
/// [`KeyBy::client`](crate::KeyBy::client) count IPv6 by /64 instead.
impl KeyPart for IpAddr {
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
        match self.to_canonical() {
            Self::V4(address) => address.with_bytes(put),
            Self::V6(address) => address.with_bytes(put),
        }
    }
}

impl<T: KeyPart + ?Sized> KeyPart for &T {
    fn with_bytes(&self, put: &mut dyn FnMut(&[u8])) {
        (**self).with_bytes(put);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(part: &(impl KeyPart + ?Sized)) -> Vec<u8> {
        let mut all = Vec::new();
        part.with_bytes(&mut |bytes| all.push(bytes.to_vec()));
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn bytes_of_each_kind() {
        assert_eq!(bytes("ab"), b"ab");
        assert_eq!(bytes(&Arc::<str>::from("ab")), b"ab");
        assert_eq!(bytes(&[1, 2]), [1, 2]);
        assert_eq!(bytes(&258_u32), [0, 0, 1, 2]);
        assert_eq!(bytes(&-1_i16), [255, 255]);
        let (v4, mapped) = ("192.0.2.7", "::ffff:192.0.2.7");
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(bytes(&address(v4)), [192, 0, 2, 7]);
        assert_eq!(bytes(&address(mapped)), bytes(&address(v4)));
    }
}
