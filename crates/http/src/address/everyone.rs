//! Detects trusted networks that together contain every client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The public addresses, as inclusive ranges. Loopback, private and multicast blocks at the borders
/// are not included: networks without them can still contain every client.
const PUBLIC_V4: [(Ipv4Addr, Ipv4Addr); 3] = [
    (Ipv4Addr::new(1, 0, 0, 0), Ipv4Addr::new(9, 255, 255, 255)),
    (Ipv4Addr::new(11, 0, 0, 0), Ipv4Addr::new(126, 255, 255, 255)),
    (Ipv4Addr::new(128, 0, 0, 0), Ipv4Addr::new(223, 255, 255, 255)),
];

/// `2000::/3`, from which all public IPv6 addresses are allocated.
const PUBLIC_V6: (Ipv6Addr, Ipv6Addr) = (
    Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0),
    Ipv6Addr::new(0x3fff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff),
);

/// Returns the IP version whose public addresses are all in the union of the networks.
pub(super) fn covered(networks: &[IpNet]) -> Option<&'static str> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for network in networks {
        match (network.network(), network.broadcast()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                v4.push((u128::from(first.to_bits()), u128::from(last.to_bits())));
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.to_bits(), last.to_bits())),
            _ => {}
        }
    }
    v4.sort_unstable();
    v6.sort_unstable();
    let public_v4 = PUBLIC_V4.map(|(first, last)| (first.to_bits().into(), last.to_bits().into()));
    let public_v6 = (PUBLIC_V6.0.to_bits(), PUBLIC_V6.1.to_bits());
    if public_v4.iter().all(|range| contains(&v4, *range)) {
        return Some("IPv4");
    }
    contains(&v6, public_v6).then_some("IPv6")
}

/// Returns `true` if the union of sorted inclusive ranges contains a whole range.
fn contains(ranges: &[(u128, u128)], (first, last): (u128, u128)) -> bool {
    // Every address before this one is contained.
    let mut missing = first;
    for (start, end) in ranges {
        if *start > missing {
            return false;
        }
        if *end >= last {
            return true;
        }
        missing = missing.max(end + 1);
    }
    false
}

#[cfg(test)]
mod tests;
