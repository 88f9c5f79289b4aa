//! IPv4 addresses inside IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the IPv4 address inside an IPv6 address of a translator or a tunnel, or the address itself.
///
/// Behind a translator, all clients are in one /64. Counted by it, one of them could use up the
/// limit of the others. A network of 6to4 or Teredo belongs to one IPv4 address and contains 2¹⁶
/// or more prefixes of /64, so a client would have as many keys.
///
/// A client chooses its address within its network only, so it cannot pretend to be another IPv4
/// address: packets of 6to4 and Teredo carry the IPv4 address too, and the last relay checks it
/// (RFC 3964, RFC 4380). Do not accept these prefixes at your border if you do not use them.
#[inline]
pub(super) fn original(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    let bits = match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => join(high, low),
        // The address of the client is inverted.
        [0x2001, 0, .., high, low] => !join(high, low),
        _ => return IpAddr::V6(v6),
    };
    IpAddr::V4(Ipv4Addr::from_bits(bits))
}

/// Returns `true` for an address of RFC 8215, `64:ff9b:1::/48`. Its operator chooses where the IPv4
/// address is, so the whole address counts.
#[inline]
pub(super) fn counts_whole(address: Ipv6Addr) -> bool {
    address.segments()[..3] == [0x64, 0xff9b, 1]
}

fn join(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}
