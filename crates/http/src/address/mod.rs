//! The client's address.

mod builder;
mod everyone;
mod hops;
mod key;
mod node;
mod translated;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

pub use builder::ClientAddressBuilder;
pub use hops::HopField;
pub use key::AddressKey;

/// Finds the client's address and the part of it that counts as a key.
///
/// By default the address is that of the TCP peer, and no header field is read, because any client
/// can write one. Behind proxies, configure their networks and the field that they write. If the
/// peer is one of them, the field is then read from the right: entries of trusted proxies are
/// skipped, and the first address that is not trusted is the client's.
///
/// Reading stops at an entry without an address (malformed, `unknown`, obfuscated, or an entry of
/// `Forwarded` without `for`). The client is then the last trusted hop, because that proxy let the
/// entry through. The same applies if every entry is trusted, and after 64 entries or 8 KiB. So a
/// client cannot change its key with the fields it sends: they are to the left of what the proxy
/// added.
///
/// Addresses are compared by their bits, so their spelling does not matter. An IPv4-mapped IPv6
/// address (`::ffff:192.0.2.7`) is that IPv4 address. By default IPv6 addresses count by /64, IPv4
/// addresses individually. The addresses that translators and tunnels make of IPv4 addresses count
/// as those: NAT64 (`64:ff9b::/96`), 6to4 (`2002::/16`) and Teredo (`2001::/32`). In NAT64 networks
/// of an operator's own (`64:ff9b:1::/48`), IPv6 addresses count individually.
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
/// // The field is not read if the peer is not a trusted proxy.
/// let stranger = "198.51.100.7".parse().unwrap();
/// assert_eq!(behind_proxy.find(stranger, &headers), stranger);
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    field: Option<AddressField>,
    /// Empty if and only if there is no field.
    trusted: Box<[IpNet]>,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

/// The field that trusted proxies write.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AddressField {
    /// A list of hops.
    Hops(HopField),
    /// One line with one address.
    Single(HeaderName),
}

impl AddressField {
    fn name(&self) -> HeaderName {
        match self {
            Self::Hops(field) => field.name(),
            Self::Single(name) => name.clone(),
        }
    }
}

impl ClientAddress {
    /// Uses the TCP peer's address and ignores the header fields.
    pub fn peer() -> Self {
        Self { field: None, trusted: Box::default(), ipv4_prefix: 32, ipv6_prefix: 64 }
    }

    /// Returns a builder that uses the peer's address by default.
    pub fn builder() -> ClientAddressBuilder {
        ClientAddressBuilder::new()
    }

    /// Returns the client's address for a request from `peer` with these header fields.
    pub fn find(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut last = peer.to_canonical();
        let Some(field) = &self.field else { return last };
        if !self.is_trusted(last) {
            return last;
        }
        let field = match field {
            AddressField::Hops(field) => *field,
            AddressField::Single(name) => return single(headers, name).unwrap_or(last),
        };
        for hop in field.hops(headers) {
            let Some(address) = hop else { break };
            last = address;
            if !self.is_trusted(address) {
                break;
            }
        }
        last
    }

    /// Parses an address as proxies write it, with or without a port: `192.0.2.7:80`,
    /// `2001:db8::7`, `[2001:db8::7]:80`. Returns `None` for other text.
    ///
    /// An IPv4-mapped IPv6 address is returned as IPv4. An address with a zone (`%eth0`) is
    /// rejected.
    pub fn parse(text: &str) -> Option<IpAddr> {
        node::parse(text)
    }

    /// Returns the client's key: the part of [`ClientAddress::find`] that counts.
    pub fn key(&self, peer: IpAddr, headers: &HeaderMap) -> AddressKey {
        self.key_of(self.find(peer, headers))
    }

    /// Returns the key of an address.
    #[inline]
    pub fn key_of(&self, address: IpAddr) -> AddressKey {
        let address = translated::original(address);
        let bits = match address {
            IpAddr::V4(_) => self.ipv4_prefix,
            IpAddr::V6(address) if translated::counts_whole(address) => 128,
            IpAddr::V6(_) => self.ipv6_prefix,
        };
        // The prefixes were checked by the builder. The fallback counts the address individually.
        AddressKey::new(IpNet::new(address, bits).unwrap_or(IpNet::from(address)))
    }

    /// Returns `true` if there is a trusted proxy.
    pub fn has_trusted_proxies(&self) -> bool {
        !self.trusted.is_empty()
    }

    /// Returns `true` if the address belongs to a trusted proxy.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// Returns the address in the only line of a field.
fn single(headers: &HeaderMap, name: &HeaderName) -> Option<IpAddr> {
    let mut lines = headers.get_all(name).iter();
    let only = lines.next()?;
    lines.next().is_none().then_some(())?;
    node::parse(only.to_str().ok()?.trim_matches([' ', '\t']))
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}
