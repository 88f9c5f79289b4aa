//! How a [`ClientAddress`] is made.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use slidegate::{Error, ErrorKind};

use super::{ClientAddress, HopField, IPV4_PREFIX, IPV6_PREFIX};

/// Builds a [`ClientAddress`].
#[derive(Debug, Clone)]
pub struct ClientAddressBuilder {
    field: Option<HopField>,
    trusted: Vec<String>,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

/// The most networks that may be trusted; each is compared with each hop.
const TRUSTED_MAX: usize = 256;

impl ClientAddressBuilder {
    pub(super) fn new() -> Self {
        Self {
            field: None,
            trusted: Vec::new(),
            ipv4_prefix: IPV4_PREFIX,
            ipv6_prefix: IPV6_PREFIX,
        }
    }

    /// The field that the trusted proxies write. Only one is read: in one that they do not
    /// write, a client may say what it likes.
    #[must_use]
    pub fn field(mut self, field: HopField) -> Self {
        self.field = Some(field);
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

    /// How many bits of an IPv4 address count, 8 to 32; 32 unless told.
    #[must_use]
    pub fn ipv4_prefix(mut self, bits: u8) -> Self {
        self.ipv4_prefix = bits;
        self
    }

    /// How many bits of an IPv6 address count, 32 to 128; 64 unless told, since one client
    /// commonly has a whole /64 to choose addresses from.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits;
        self
    }

    /// Checks everything and makes it.
    ///
    /// # Errors
    ///
    /// When a network is malformed, has bits set beyond its prefix, or is everybody; when there are
    /// more than 256; when a prefix is out of range; when a field is to be read but nobody is
    /// trusted to write it, or somebody is trusted but no field is to be read.
    pub fn build(self) -> Result<ClientAddress, Error> {
        check_prefix("IPv4 prefix", self.ipv4_prefix, 8, 32)?;
        check_prefix("IPv6 prefix", self.ipv6_prefix, 32, 128)?;
        if self.trusted.len() > TRUSTED_MAX {
            let count = self.trusted.len();
            return Err(refused(format!(
                "{count} trusted networks are too many: use at most {TRUSTED_MAX}"
            )));
        }
        let trusted =
            self.trusted.iter().map(|text| parse_network(text)).collect::<Result<Vec<_>, _>>()?;
        match (self.field, trusted.is_empty()) {
            (Some(field), true) => Err(refused(format!(
                "{field:?} is to be read but no proxy is trusted to write it: name their networks"
            ))),
            (None, false) => Err(refused(format!(
                "{} trusted networks but no field to read: choose Forwarded or XForwardedFor",
                trusted.len()
            ))),
            (field, _) => Ok(ClientAddress {
                field,
                trusted: trusted.into_boxed_slice(),
                ipv4_prefix: self.ipv4_prefix,
                ipv6_prefix: self.ipv6_prefix,
            }),
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
        // Likely a slip, and which of the two was meant is not for us to guess.
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

/// A network of IPv4 addresses written as IPv6 ones is one of IPv4 addresses, as hops are.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let mapped = v6.network().to_ipv4_mapped();
    let bits = v6.prefix_len().checked_sub(MAPPED_BITS);
    match (mapped, bits) {
        (Some(address), Some(bits)) => Ipv4Net::new(address, bits).map_or(network, IpNet::V4),
        _ => network,
    }
}

/// What precedes the IPv4 address in an IPv6 one.
const MAPPED_BITS: u8 = 96;

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}
