//! Compares unions of trusted networks with a list of addresses.

use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;

use super::*;

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn finds_unions_of_all_public_addresses() {
    for (texts, expected) in [
        (&["0.0.0.0/0"][..], Some("IPv4")),
        (&["0.0.0.0/1", "128.0.0.0/1"], Some("IPv4")),
        (&["192.0.0.0/2", "64.0.0.0/2", "0.0.0.0/2", "128.0.0.0/2"], Some("IPv4")),
        // All addresses except multicast and reserved ones.
        (&["0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/3"], Some("IPv4")),
        (&["0.0.0.0/1", "10.0.0.0/8", "128.0.0.0/1"], Some("IPv4")),
        (&["::/0"], Some("IPv6")),
        (&["::/1", "8000::/1"], Some("IPv6")),
        (&["2000::/3"], Some("IPv6")),
        (&["3000::/4", "2000::/4"], Some("IPv6")),
        (&["0.0.0.0/1"], None),
        (&["0.0.0.0/1", "128.0.0.0/2"], None),
        (&["8000::/1", "2000::/4"], None),
        (&["10.0.0.0/8", "fd00::/8"], None),
        (&[], None),
    ] {
        assert_eq!(covered(&networks(texts)), expected, "{texts:?}");
    }
}

/// Splits a network into parts that cover it. The bits select which part is split next.
fn split(
    first: u128,
    bits: u8,
    length: u8,
    choices: &mut impl Iterator<Item = bool>,
) -> Vec<(u128, u8)> {
    if length >= 12 || !choices.next().unwrap_or(false) {
        return vec![(first, length)];
    }
    let half = 1 << (bits - length - 1);
    let mut parts = split(first, bits, length + 1, choices);
    parts.extend(split(first + half, bits, length + 1, choices));
    parts
}

proptest! {
    // If one part is missing, the union is complete only if that part has no public address.
    #[test]
    fn finds_every_division_of_the_whole(
        is_v6: bool,
        choices in proptest::collection::vec(any::<bool>(), 0..60),
        removed: prop::sample::Index,
    ) {
        let bits = if is_v6 { 128 } else { 32 };
        let parts = split(0, bits, 0, &mut choices.into_iter());
        let mut networks: Vec<IpNet> = parts.iter().map(|(first, length)| {
            if is_v6 {
                IpNet::V6(Ipv6Net::new(Ipv6Addr::from_bits(*first), *length).unwrap())
            } else {
                let first = Ipv4Addr::from_bits(u32::try_from(*first).unwrap());
                IpNet::V4(Ipv4Net::new(first, *length).unwrap())
            }
        }).collect();
        prop_assert!(covered(&networks).is_some());

        let gone = networks.swap_remove(removed.index(networks.len()));
        let (first, last) = (gone.network(), gone.broadcast());
        let has_public = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                PUBLIC_V4.iter().any(|(from, to)| first <= *to && *from <= last)
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => first <= PUBLIC_V6.1 && PUBLIC_V6.0 <= last,
            _ => false,
        };
        prop_assert_eq!(covered(&networks).is_some(), !has_public);
    }
}
