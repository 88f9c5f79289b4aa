//! Keys of client addresses.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use slidegate::{Error, ErrorKind};
use slidegate_http::{ClientAddress, HopField};

/// How addresses are found and grouped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AddressOptions {
    /// The networks of the proxies that are trusted, such as `10.0.0.0/8`.
    #[serde(alias = "trustedProxies")]
    pub trusted_proxies: Vec<String>,
    /// The field that they write: `x-forwarded-for` by default, `forwarded`, or a field with one
    /// address, such as `x-real-ip`.
    pub header: Option<String>,
    /// Bits of an IPv4 address that count: 32 by default.
    #[serde(alias = "ipv4Prefix")]
    pub ipv4_prefix: Option<u8>,
    /// Bits of an IPv6 address that count: 64 by default.
    #[serde(alias = "ipv6Prefix")]
    pub ipv6_prefix: Option<u8>,
}

impl AddressOptions {
    /// Reads options as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is unknown or a value is invalid.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        serde_json::from_str(json).map_err(|error| {
            Error::new(ErrorKind::Setting, format!("invalid address options: {error}"))
        })
    }

    /// Returns the rules for keys of addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if a network or a prefix is invalid, or if there is a header but no trusted
    /// proxy.
    pub fn build(&self) -> Result<ClientAddress, Error> {
        let mut builder = ClientAddress::builder().trust_all(&self.trusted_proxies);
        let default = (!self.trusted_proxies.is_empty()).then_some("x-forwarded-for");
        if let Some(header) = self.header.as_deref().or(default) {
            builder = match header.to_ascii_lowercase().as_str() {
                "x-forwarded-for" => builder.field(HopField::XForwardedFor),
                "forwarded" => builder.field(HopField::Forwarded),
                single => builder.single_field(single),
            };
        }
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
    Ok(rules.key_of(parse(text)?).to_string())
}

/// Returns the key of the client's address: the peer's, unless the peer is a trusted proxy and the
/// header fields name the client. `fields` are names and values, several lines of one name in order.
///
/// # Errors
///
/// Returns an error if the peer is not an address.
pub fn client_key<'a>(
    rules: &ClientAddress,
    peer: &str,
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<String, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        // A field that is not valid names no client.
        let field = (HeaderName::try_from(name), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = field
            && headers.try_append(name, value).is_err()
        {
            break;
        }
    }
    Ok(rules.key(parse(peer)?, &headers).to_string())
}

fn parse(text: &str) -> Result<IpAddr, Error> {
    let found = match text.split_once('%') {
        None => ClientAddress::parse(text),
        // A zone ends with the text, or at the bracket before a port.
        Some((address, zone)) => match zone.split_once(']') {
            None => ClientAddress::parse(address),
            Some((_, port)) => ClientAddress::parse(&format!("{address}]{port}")),
        },
    };
    found.ok_or_else(|| {
        let message = format!("{text:?} is not an IP address: set a key for this request");
        Error::new(ErrorKind::Setting, message)
    })
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
    fn ports_and_zones_are_removed() {
        for text in ["203.0.113.9:51234", "203.0.113.9", "::ffff:203.0.113.9"] {
            assert_eq!(key(text).unwrap(), "203.0.113.9", "{text}");
        }
        for text in
            ["[2001:db8::9]:443", "[2001:db8::9]", "2001:db8::9%eth0", "[2001:db8::9%1]:443"]
        {
            assert_eq!(key(text).unwrap(), "2001:db8::/64", "{text}");
        }
        for text in ["", "%eth0", "203.0.113.9:", "203.0.113.9:x", "[2001:db8::9", "host:80"] {
            assert!(key(text).unwrap_err().to_string().contains("not an IP address"), "{text}");
        }
        let rules = AddressOptions::default().build().unwrap();
        assert_eq!(client_key(&rules, "203.0.113.9:51234", []).unwrap(), "203.0.113.9");
    }

    #[test]
    fn other_text_and_prefixes_out_of_range_are_rejected() {
        assert!(key("unknown").unwrap_err().to_string().contains("not an IP address"));
        assert!(AddressOptions { ipv6_prefix: Some(129), ..Default::default() }.build().is_err());
    }

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let options = AddressOptions::from_json(r#"{"trustedProxies": ["10.0.0.0/8"]}"#).unwrap();
        let rules = options.build().unwrap();
        let fields = [("x-forwarded-for", &b"1.1.1.1, 192.0.2.7"[..])];
        assert_eq!(client_key(&rules, "10.0.0.1", fields).unwrap(), "192.0.2.7");
        assert_eq!(client_key(&rules, "203.0.113.9", fields).unwrap(), "203.0.113.9");
        assert_eq!(client_key(&rules, "10.0.0.1", []).unwrap(), "10.0.0.1");
        let json = r#"{"trusted_proxies": ["10.0.0.1"], "header": "X-Real-IP"}"#;
        let rules = AddressOptions::from_json(json).unwrap().build().unwrap();
        let fields = [("x-real-ip", &b"2001:db8::1"[..])];
        assert_eq!(client_key(&rules, "10.0.0.1", fields).unwrap(), "2001:db8::/64");
        assert!(AddressOptions::from_json(r#"{"header": "x-real-ip"}"#).unwrap().build().is_err());
    }
}
