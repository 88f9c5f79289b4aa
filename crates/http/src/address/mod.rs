//! Who the client is, by address.

mod builder;
mod hops;
mod key;
mod node;

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;

pub use builder::ClientAddressBuilder;
pub use hops::HopField;
pub use key::AddressKey;

/// How a client's address is found, and how much of it counts.
///
/// Unless told otherwise, the address is that of the TCP peer, and no header field is read: anybody
/// can write one. Behind proxies, name their networks and the field that they write. Then, if the
/// peer is one of them, the field is walked from the right: entries of trusted proxies are passed,
/// and the first address that is not trusted is the client's.
///
/// The walk stops early at an entry that tells no address (malformed, `unknown`, obfuscated, or an
/// entry of `Forwarded` without `for`). The client is then the last trusted hop that was passed:
/// the proxy that let such an entry through answers for it. The same holds when every entry is
/// trusted, and after 64 entries or 8 KiB. So a client cannot change its key by what it sends:
/// what it wrote stands left of what the proxy added.
///
/// Addresses are compared and counted by their bits, so their spelling does not matter. An IPv4
/// address inside an IPv6 one (`::ffff:192.0.2.7`) is that IPv4 address. IPv6 addresses count by
/// /64, IPv4 addresses each alone, unless told otherwise.
///
/// ```
/// use http::HeaderMap;
/// use slidegate_http::{ClientAddress, HopField};
///
/// let behind_proxy =
///     ClientAddress::builder().field(HopField::XForwardedFor).trust("10.0.0.0/8").build()?;
///
/// let mut headers = HeaderMap::new();
/// // The left entry came from the client, the right one from the proxy that it reached.
/// headers.insert("x-forwarded-for", "127.0.0.1, 203.0.113.9".parse().unwrap());
///
/// let proxy = "10.0.0.1".parse().unwrap();
/// assert_eq!(behind_proxy.find(proxy, &headers).to_string(), "203.0.113.9");
///
/// // Somebody who is not a proxy can write what they like.
/// let stranger = "198.51.100.7".parse().unwrap();
/// assert_eq!(behind_proxy.find(stranger, &headers), stranger);
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    field: Option<HopField>,
    /// Empty exactly when there is no field.
    trusted: Box<[IpNet]>,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

/// How many bits of an address count unless told.
const IPV4_PREFIX: u8 = 32;
const IPV6_PREFIX: u8 = 64;

impl ClientAddress {
    /// The TCP peer's address, whatever the header fields say.
    pub fn peer() -> Self {
        Self {
            field: None,
            trusted: Box::default(),
            ipv4_prefix: IPV4_PREFIX,
            ipv6_prefix: IPV6_PREFIX,
        }
    }

    /// Starts from the peer's address.
    pub fn builder() -> ClientAddressBuilder {
        ClientAddressBuilder::new()
    }

    /// The client's address, of a request that came from `peer` with these header fields.
    pub fn find(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut last = peer.to_canonical();
        let Some(field) = self.field else { return last };
        if !self.is_trusted(last) {
            return last;
        }
        for hop in field.hops(headers) {
            let Some(address) = hop else { break };
            last = address;
            if !self.is_trusted(address) {
                break;
            }
        }
        last
    }

    /// The key of the client: [`ClientAddress::find`], and as much of it as counts.
    pub fn key(&self, peer: IpAddr, headers: &HeaderMap) -> AddressKey {
        self.key_of(self.find(peer, headers))
    }

    /// The key of an address.
    pub fn key_of(&self, address: IpAddr) -> AddressKey {
        let address = address.to_canonical();
        let bits = match address {
            IpAddr::V4(_) => self.ipv4_prefix,
            IpAddr::V6(_) => self.ipv6_prefix,
        };
        // The prefixes were checked to be in range; were they not, the address counts alone.
        AddressKey::new(IpNet::new(address, bits).unwrap_or(IpNet::from(address)))
    }

    /// Whether there is any trusted proxy.
    pub fn trusts_somebody(&self) -> bool {
        !self.trusted.is_empty()
    }

    /// Whether an address is that of a trusted proxy.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}
