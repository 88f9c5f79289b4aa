//! Builds a [`ClientAddress`].

use std::net::IpAddr;

use http::HeaderName;
use ipnet::{IpNet, Ipv4Net};
use slidegate::{Error, ErrorKind};

use super::everyone;
use super::{AddressField, ClientAddress, HopField};

/// Builds a [`ClientAddress`].
#[derive(Debug, Clone)]
pub struct ClientAddressBuilder {
    /// Has no trusted networks until [`build`](Self::build).
    address: ClientAddress,
    /// The name given to [`single_field`](Self::single_field), until it is parsed.
    single: Option<String>,
    trusted: Vec<String>,
}

/// The maximum number of trusted networks. Each hop is compared with all of them.
const TRUSTED_MAX: usize = 256;

impl ClientAddressBuilder {
    pub(super) fn new() -> Self {
        Self { address: ClientAddress::peer(), single: None, trusted: Vec::new() }
    }

    /// Sets the list of hops that the trusted proxies write.
    ///
    /// Only one field is read, because a client can write anything into a field that the proxies do
    /// not write.
    #[must_use]
    pub fn field(mut self, field: HopField) -> Self {
        self.address.field = Some(AddressField::Hops(field));
        self.single = None;
        self
    }

    /// Sets a field in which the trusted proxy writes only the client's address, such as
    /// `X-Real-IP`, `CF-Connecting-IP`, `True-Client-IP` or `Fly-Client-IP`.
    ///
    /// The field is used if the peer is trusted and there is exactly one line with exactly one
    /// address. Otherwise the client's address is the peer's. Use it only if the proxy replaces the
    /// field of every request: with a proxy that passes it on, a client chooses its own address.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use slidegate_http::ClientAddress;
    ///
    /// let address = ClientAddress::builder().single_field("x-real-ip").trust("10.0.0.1").build()?;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-real-ip", "203.0.113.9".parse().unwrap());
    /// let proxy = "10.0.0.1".parse().unwrap();
    /// assert_eq!(address.find(proxy, &headers).to_string(), "203.0.113.9");
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    #[must_use]
    pub fn single_field(mut self, name: &str) -> Self {
        self.single = Some(name.to_owned());
        self
    }

    /// Trusts the proxies of a network, `10.0.0.0/8`, or a single one, `192.0.2.7`.
    #[must_use]
    pub fn trust(mut self, network: &str) -> Self {
        self.trusted.push(network.to_owned());
        self
    }

    /// Trusts the proxies of several networks.
    #[must_use]
    pub fn trust_all<T: AsRef<str>>(mut self, networks: impl IntoIterator<Item = T>) -> Self {
        self.trusted.extend(networks.into_iter().map(|network| network.as_ref().to_owned()));
        self
    }

    /// Sets the number of bits of an IPv4 address that count: 8 to 32, by default 32.
    #[must_use]
    pub fn ipv4_prefix(mut self, bits: u8) -> Self {
        self.address.ipv4_prefix = bits;
        self
    }

    /// Sets the number of bits of an IPv6 address that count: 32 to 128, by default 64, because one
    /// client usually has a whole /64.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.address.ipv6_prefix = bits;
        self
    }

    /// Checks the settings and builds the [`ClientAddress`].
    ///
    /// # Errors
    ///
    /// If a network is malformed or has bits set beyond its prefix; if there are more than 256; if
    /// all of them together contain every public IPv4 address or every public IPv6 address; if a
    /// prefix is out of range; if a field name is invalid; if there is a field but no trusted
    /// network, or the other way around.
    pub fn build(mut self) -> Result<ClientAddress, Error> {
        if let Some(name) = &self.single {
            self.address.field = Some(AddressField::Single(single_field(name)?));
        }
        check_prefix("IPv4 prefix", self.address.ipv4_prefix, 8, 32)?;
        check_prefix("IPv6 prefix", self.address.ipv6_prefix, 32, 128)?;
        if self.trusted.len() > TRUSTED_MAX {
            let count = self.trusted.len();
            return Err(refused(format!(
                "{count} trusted networks are too many: use at most {TRUSTED_MAX}"
            )));
        }
        let networks = self.trusted.iter().map(|text| parse_network(text));
        let trusted = networks.collect::<Result<Box<[_]>, _>>()?;
        if let Some(version) = everyone::covered(&trusted) {
            return Err(refused(format!(
                "the trusted networks contain every {version} address, so any client could choose \
                 its address: name the networks of the proxies only"
            )));
        }
        match (&self.address.field, trusted.is_empty()) {
            (Some(field), true) => Err(refused(format!(
                "the field {} is set but no proxy is trusted: name the networks of the proxies",
                field.name()
            ))),
            (None, false) => Err(refused(format!(
                "{} trusted networks are set but no field: choose the field that the proxies write",
                trusted.len()
            ))),
            _ => Ok(ClientAddress { trusted, ..self.address }),
        }
    }
}

fn check_prefix(what: &str, bits: u8, least: u8, most: u8) -> Result<(), Error> {
    if (least..=most).contains(&bits) {
        return Ok(());
    }
    Err(refused(format!("{what} {bits} is out of range: use {least} to {most}")))
}

fn parse_network(text: &str) -> Result<IpNet, Error> {
    let single = || text.parse::<IpAddr>().map(IpNet::from).ok();
    let Some(network) = text.parse().ok().or_else(single) else {
        return Err(refused(format!(
            "trusted network {text:?} is malformed: use an address or a CIDR like 10.0.0.0/8"
        )));
    };
    if network != network.trunc() {
        // Ambiguous: either of the two could be intended.
        return Err(refused(format!(
            "trusted network {text} has bits beyond its prefix: use {} or {}",
            network.trunc(),
            network.addr()
        )));
    }
    Ok(unmapped(network))
}

/// Parses the name of a field with one address. Lists of hops are rejected, because the client
/// writes their left entries.
fn single_field(name: &str) -> Result<HeaderName, Error> {
    let Ok(parsed) = name.parse::<HeaderName>() else {
        return Err(refused(format!("{name:?} is not a header field name")));
    };
    for field in [HopField::Forwarded, HopField::XForwardedFor] {
        if parsed == field.name() {
            return Err(refused(format!(
                "{parsed} is a list of hops, not one address: use HopField::{field:?}"
            )));
        }
    }
    Ok(parsed)
}

/// Converts a network of IPv4-mapped IPv6 addresses to IPv4, as for hops.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let mapped = v6.network().to_ipv4_mapped();
    let bits = v6.prefix_len().checked_sub(MAPPED_BITS);
    match (mapped, bits) {
        (Some(address), Some(bits)) => Ipv4Net::new(address, bits).map_or(network, IpNet::V4),
        _ => network,
    }
}

/// The number of bits before the IPv4 address in a mapped address.
const MAPPED_BITS: u8 = 96;

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}
