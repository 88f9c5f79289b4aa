//! The address of a hop as proxies write it, with or without a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest that can be an address with a port: a bracketed IPv6 address that ends in an IPv4
/// one, and an obfuscated port of some length.
const NODE_MAX: usize = 128;

/// The address, or `None` if the hop has none: `unknown`, `_hidden`, or anything else.
///
/// Accepts `192.0.2.7`, `192.0.2.7:80`, `2001:db8::7`, `[2001:db8::7]` and `[2001:db8::7]:80`. The port
/// may be a name (`_x`), as RFC 7239 allows. Parts of an IPv4 address are decimal and without
/// leading zeros; a zone (`%eth0`) has a meaning on one machine only and is not accepted.
///
/// An IPv4-mapped IPv6 address (`::ffff:c000:207`) is returned as IPv4, however it is written.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    if text.len() > NODE_MAX {
        return None;
    }
    let address = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            is_port(port).then_some(())?;
            IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)
        }
        None => bare(text)?,
    };
    Some(address.to_canonical())
}

fn bare(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let at = text.find(':')?;
    let (address, port) = text.split_at(at);
    is_port(port).then_some(())?;
    Some(IpAddr::V4(address.parse::<Ipv4Addr>().ok()?))
}

/// Nothing, or a colon with up to five digits or a name.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return text.is_empty() };
    let is_number = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !name.is_empty() && name.bytes().all(is_part)
    };
    is_number || port.strip_prefix('_').is_some_and(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spellings_of_one_address() {
        let v4 = Some(IpAddr::from([192, 0, 2, 7]));
        for text in [
            "192.0.2.7",
            "192.0.2.7:80",
            "192.0.2.7:_port",
            "::ffff:192.0.2.7",
            "::ffff:c000:207",
            "0:0:0:0:0:FFFF:C000:0207",
            "[::ffff:192.0.2.7]:443",
        ] {
            assert_eq!(parse(text), v4, "{text}");
        }
        let v6 = Some("2001:db8::c000:207".parse().unwrap());
        for text in [
            "2001:db8::c000:207",
            "2001:DB8::192.0.2.7",
            "[2001:0db8:0:0:0:0:c000:0207]",
            "[2001:db8::c000:207]:4711",
            "[2001:db8::c000:207]:_a.b-c",
        ] {
            assert_eq!(parse(text), v6, "{text}");
        }
    }

    #[test]
    fn anything_else_is_rejected() {
        for text in [
            "",
            "unknown",
            "_hidden",
            "_",
            "localhost",
            "192.0.2",
            "192.0.2.7.1",
            "192.0.2.256",
            "192.0.2.07",
            "0300.0.2.7",
            "3221225991",
            "192.0.2.7:",
            "192.0.2.7:123456",
            "192.0.2.7:-1",
            "192.0.2.7:_",
            "192.0.2.7:80:80",
            "[192.0.2.7]",
            "[2001:db8::7",
            "2001:db8::7]",
            "[2001:db8::7]80",
            "[2001:db8::7]:",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            " 192.0.2.7",
            "192.0.2.7/32",
            "[]",
            "[::]x",
            ":80",
            "1::2::3",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let long = format!("192.0.2.7:_{}", "a".repeat(NODE_MAX));
        assert_eq!(parse(&long), None);
    }
}
