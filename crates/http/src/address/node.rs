//! The address of a hop as proxies write it, with or without a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum length of an address with a port: a bracketed IPv6 address that ends with an IPv4
/// address, and an obfuscated port.
const NODE_MAX: usize = 128;

/// Parses the address. Returns `None` if the hop has none: `unknown`, `_hidden`, or anything else.
///
/// Accepts `192.0.2.7`, `192.0.2.7:80`, `2001:db8::7`, `[2001:db8::7]` and `[2001:db8::7]:80`. The
/// port may be a name (`_x`), as RFC 7239 allows. Parts of an IPv4 address are decimal and have no
/// leading zeros. A zone (`%eth0`) is meaningful on one machine only and is rejected.
///
/// An IPv4-mapped IPv6 address (`::ffff:c000:207`) is returned as IPv4, in any notation.
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

/// Returns `true` for an empty text, or a colon with up to five digits or a name.
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
mod tests;
