//! Builds a [`ClientAddress`].

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use slidegate::{Error, ErrorKind};

use super::{ClientAddress, HopField};

/// Builds a [`ClientAddress`].
#[derive(Debug, Clone)]
pub struct ClientAddressBuilder {
    /// Without trusted networks until [`build`](Self::build).
    address: ClientAddress,
    trusted: Vec<String>,
}

/// The most trusted networks; each hop is compared with all of them.
const TRUSTED_MAX: usize = 256;

impl ClientAddressBuilder {
    pub(super) fn new() -> Self {
        Self { address: ClientAddress::peer(), trusted: Vec::new() }
    }

    /// The field that the trusted proxies write. Only one is read: a client can write anything
    /// into a field that they do not write.
    #[must_use]
    pub fn field(mut self, field: HopField) -> Self {
        self.address.field = Some(field);
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

    /// The number of bits of an IPv4 address that count, 8 to 32; 32 by default.
    #[must_use]
    pub fn ipv4_prefix(mut self, bits: u8) -> Self {
        self.address.ipv4_prefix = bits;
        self
    }

    /// The number of bits of an IPv6 address that count, 32 to 128; 64 by default, because one
    /// client commonly has a whole /64.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.address.ipv6_prefix = bits;
        self
    }

    /// Checks the settings and builds the [`ClientAddress`].
    ///
    /// # Errors
    ///
    /// If a network is malformed, has bits set beyond its prefix, or contains every address; if there
    /// are more than 256; if a prefix is out of range; if there is a field but no trusted network,
    /// or the other way around.
    pub fn build(self) -> Result<ClientAddress, Error> {
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
        match (self.address.field, trusted.is_empty()) {
            (Some(field), true) => Err(refused(format!(
                "{field:?} is to be read but no proxy is trusted to write it: name their networks"
            ))),
            (None, false) => Err(refused(format!(
                "{} trusted networks but no field to read: choose Forwarded or XForwardedFor",
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
        // Probably a mistake, and it is unclear which of the two was meant.
        return Err(refused(format!(
            "trusted network {text} has bits beyond its prefix: use {} or {}",
            network.trunc(),
            network.addr()
        )));
    }
    let network = unmapped(network);
    if network.prefix_len() == 0 {
        return Err(refused(format!(
            "trusted network {text} is everybody, so that any client could choose its address: \
             name the networks of the proxies"
        )));
    }
    Ok(network)
}

/// Converts a network of IPv4-mapped IPv6 addresses to IPv4, as is done with hops.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let mapped = v6.network().to_ipv4_mapped();
    let bits = v6.prefix_len().checked_sub(MAPPED_BITS);
    match (mapped, bits) {
        (Some(address), Some(bits)) => Ipv4Net::new(address, bits).map_or(network, IpNet::V4),
        _ => network,
    }
}

/// The bits before the IPv4 address in a mapped one.
const MAPPED_BITS: u8 = 96;

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}
