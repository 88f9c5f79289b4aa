//! An address as a key.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use slidegate::{Key, KeyHasher, Secret};

/// The network whose addresses are counted together, as a key.
///
/// Its bytes are the network's address: four for IPv4, sixteen for IPv6, so the two never collide.
/// The bytes alone are the same key, for stores that take bytes.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota};
/// use slidegate_http::ClientAddress;
///
/// let limiter = Limiter::new(Policy::new("ip", Quota::per_minute(1))?)?;
/// let key = ClientAddress::peer().key_of("2001:db8:1:2:3:4:5:6".parse().unwrap());
/// assert_eq!(key.to_string(), "2001:db8:1:2::/64");
/// assert!(limiter.check(&key).is_allowed());
/// assert!(!limiter.check(key.as_bytes()).is_allowed());
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey {
    network: IpNet,
    bytes: [u8; 16],
}

impl AddressKey {
    pub(super) fn new(network: IpNet) -> Self {
        let network = network.trunc();
        let mut bytes = [0; 16];
        match network.network() {
            IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes = address.octets(),
        }
        Self { network, bytes }
    }

    /// Returns the network.
    pub fn network(&self) -> IpNet {
        self.network
    }

    /// Returns the bytes of the network address: four for IPv4, sixteen for IPv6.
    pub fn as_bytes(&self) -> &[u8] {
        match self.network {
            IpNet::V4(_) => &self.bytes[..4],
            IpNet::V6(_) => &self.bytes,
        }
    }
}

impl Key for AddressKey {
    fn feed(&self, hasher: &mut KeyHasher) {
        self.as_bytes().feed(hasher);
    }

    fn fingerprint(&self, secret: &Secret) -> u64 {
        self.as_bytes().fingerprint(secret)
    }
}

impl AsRef<[u8]> for AddressKey {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Formats the address if it counts individually, otherwise the network: `192.0.2.7`,
/// `2001:db8::/64`.
impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.network.prefix_len() == self.network.max_prefix_len() {
            return self.network.network().fmt(f);
        }
        self.network.fmt(f)
    }
}
