//! Keys of client addresses.

use std::net::IpAddr;

use serde::Deserialize;
use slidegate::{Error, ErrorKind};
use slidegate_http::ClientAddress;

/// How addresses are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AddressOptions {
    /// Bits of an IPv4 address that count: 32 by default.
    #[serde(alias = "ipv4Prefix")]
    pub ipv4_prefix: Option<u8>,
    /// Bits of an IPv6 address that count: 64 by default.
    #[serde(alias = "ipv6Prefix")]
    pub ipv6_prefix: Option<u8>,
}

impl AddressOptions {
    /// Returns the rules for keys of addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if a prefix is out of range.
    pub fn build(self) -> Result<ClientAddress, Error> {
        let mut builder = ClientAddress::builder();
        if let Some(bits) = self.ipv4_prefix {
            builder = builder.ipv4_prefix(bits);
        }
        if let Some(bits) = self.ipv6_prefix {
            builder = builder.ipv6_prefix(bits);
        }
        builder.build()
    }
}

/// Returns the key of an address as text: `192.0.2.7`, `2001:db8::/64`. The framework has already
/// decided which proxies to trust.
///
/// A zone (`fe80::1%eth0`) and a port are not part of an address and are removed.
///
/// # Errors
///
/// Returns an error if the text is not an address.
pub fn address_key(rules: &ClientAddress, text: &str) -> Result<String, Error> {
    let bare = text.split_once('%').map_or(text, |(address, _)| address);
    let address: IpAddr = bare.parse().map_err(|_| {
        let message = format!("{text:?} is not an IP address: set a key for this request");
        Error::new(ErrorKind::Setting, message)
    })?;
    Ok(rules.key_of(address).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<String, Error> {
        address_key(&AddressOptions::default().build()?, text)
    }

    #[test]
    fn ipv6_addresses_of_one_network_share_a_key() {
        assert_eq!(key("2001:db8:1:2:3:4:5:6").unwrap(), "2001:db8:1:2::/64");
        assert_eq!(key("2001:db8:1:2::9").unwrap(), "2001:db8:1:2::/64");
        assert_eq!(key("fe80::1%eth0").unwrap(), "fe80::/64");
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        assert_eq!(key("::ffff:192.0.2.7").unwrap(), "192.0.2.7");
        assert_eq!(key("192.0.2.7").unwrap(), "192.0.2.7");
    }

    #[test]
    fn other_text_and_prefixes_out_of_range_are_rejected() {
        assert!(key("unknown").unwrap_err().to_string().contains("not an IP address"));
        assert!(AddressOptions { ipv6_prefix: Some(129), ..Default::default() }.build().is_err());
    }
}
