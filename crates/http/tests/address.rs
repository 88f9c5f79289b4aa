//! Client addresses: reading hops, keys by prefix, and invalid settings.
//!
//! What could go wrong: a client that chooses its key with a header, two keys for two notations of
//! one address, one key for all clients of a dual-stack socket, a panic on input from a client.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use slidegate::{ErrorKind, Key, Secret};
use slidegate_http::{ClientAddress, ClientAddressBuilder, HopField};

const FIELDS: [HopField; 2] = [HopField::Forwarded, HopField::XForwardedFor];

fn name(field: HopField) -> &'static str {
    if field == HopField::Forwarded { "forwarded" } else { "x-forwarded-for" }
}

fn behind(field: HopField) -> ClientAddress {
    let networks = ["10.0.0.0/8", "192.0.2.7", "fd00::/8"];
    ClientAddress::builder().field(field).trust_all(networks).build().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn headers<T: AsRef<[u8]>>(field: HopField, lines: &[T]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name(field), HeaderValue::from_bytes(line.as_ref()).unwrap());
    }
    headers
}

fn found(field: HopField, peer: &str, lines: &[&str]) -> String {
    behind(field).find(ip(peer), &headers(field, lines)).to_string()
}

#[test]
fn uses_the_peer_by_default() {
    let mut all = headers(HopField::XForwardedFor, &["1.1.1.1"]);
    all.insert("forwarded", "for=1.1.1.1".parse().unwrap());
    assert_eq!(ClientAddress::peer().find(ip("10.0.0.1"), &all), ip("10.0.0.1"));
    assert_eq!(ClientAddress::default(), ClientAddress::builder().build().unwrap());
    for field in FIELDS {
        assert_eq!(behind(field).find(ip("8.8.8.8"), &all), ip("8.8.8.8"), "not a proxy");
    }
}

#[test]
fn reads_x_forwarded_for_from_the_right() {
    for (lines, expected) in [
        (&["203.0.113.9"][..], "203.0.113.9"),
        (&["127.0.0.1, 203.0.113.9"], "203.0.113.9"),
        (&["127.0.0.1", "203.0.113.9"], "203.0.113.9"),
        (&["127.0.0.1", "203.0.113.9, 10.9.9.9", "192.0.2.7"], "203.0.113.9"),
        (&["203.0.113.9:4711, [fd00::1]:80"], "203.0.113.9"),
        (&["2001:db8::9, ::ffff:10.1.1.1"], "2001:db8::9"),
        (&["203.0.113.9, ,,"], "203.0.113.9"),
        // Only trusted hops: the farthest of them.
        (&["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        // No hop, or one without an address: the last trusted one.
        (&[], "10.0.0.1"),
        (&[""], "10.0.0.1"),
        (&["203.0.113.9, unknown"], "10.0.0.1"),
        (&["203.0.113.9, unknown, 10.2.2.2"], "10.2.2.2"),
        (&["203.0.113.9, 203.0.113.999, 10.2.2.2"], "10.2.2.2"),
        (&["203.0.113.9, for=1.1.1.1, 10.2.2.2"], "10.2.2.2"),
    ] {
        assert_eq!(found(HopField::XForwardedFor, "10.0.0.1", lines), expected, "{lines:?}");
        // A dual-stack socket shows an IPv4 proxy like this.
        assert_eq!(found(HopField::XForwardedFor, "::ffff:10.0.0.1", lines), expected);
    }
}

#[test]
fn reads_forwarded_from_the_right() {
    for (lines, expected) in [
        (&["for=203.0.113.9;proto=https;by=10.0.0.1"][..], "203.0.113.9"),
        (&["for=127.0.0.1, For=\"203.0.113.9:4711\""], "203.0.113.9"),
        (&["for=127.0.0.1", "for=\"[2001:db8:cafe::17]:4711\""], "2001:db8:cafe::17"),
        (&["for=203.0.113.9, for=\"[fd00::1]\"", "for=192.0.2.7"], "203.0.113.9"),
        (&["for=203.0.113.9, for=_hidden, for=10.2.2.2"], "10.2.2.2"),
        (&["for=203.0.113.9, for=unknown"], "10.0.0.1"),
        (&["for=203.0.113.9, proto=https"], "10.0.0.1"),
        (&["for=203.0.113.9, 203.0.113.10"], "10.0.0.1"),
        // The host that a client sent, copied into the proxy's entry without quotes.
        (&["for=203.0.113.9;host=a;for=1.1.1.1"], "10.0.0.1"),
        (&["for=\"203.0.113.9, for=10.2.2.2"], "10.2.2.2"),
    ] {
        assert_eq!(found(HopField::Forwarded, "10.0.0.1", lines), expected, "{lines:?}");
    }
}

#[test]
fn reads_a_field_with_one_address() {
    let rule = ClientAddress::builder()
        .single_field("CF-Connecting-IP")
        .trust("10.0.0.0/8")
        .build()
        .unwrap();
    let found = |peer: &str, lines: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("cf-connecting-ip", HeaderValue::from_static(line));
        }
        headers.insert("x-forwarded-for", HeaderValue::from_static("1.1.1.1"));
        rule.find(ip(peer), &headers).to_string()
    };
    assert_eq!(found("10.0.0.1", &["203.0.113.9"]), "203.0.113.9");
    assert_eq!(found("::ffff:10.0.0.1", &[" 2001:db8::9 "]), "2001:db8::9");
    assert_eq!(found("10.0.0.1", &["::ffff:203.0.113.9"]), "203.0.113.9");
    // A client in the same network as the proxy.
    assert_eq!(found("10.0.0.1", &["10.2.2.2"]), "10.2.2.2");
    // Not a proxy.
    assert_eq!(found("8.8.8.8", &["203.0.113.9"]), "8.8.8.8");
    // None, two, a list, or no address: the proxy passed it on.
    for lines in [&[][..], &["1.1.1.1", "2.2.2.2"], &["1.1.1.1, 2.2.2.2"], &["unknown"], &[""]] {
        assert_eq!(found("10.0.0.1", lines), "10.0.0.1", "{lines:?}");
    }
}

// A client may send a field that its proxy does not know and does not replace.
#[test]
fn only_the_chosen_field_is_read() {
    for (chosen, other) in [(FIELDS[0], FIELDS[1]), (FIELDS[1], FIELDS[0])] {
        let mut all = headers(other, &["for=1.1.1.1"]);
        all.append(name(other), "1.1.1.1".parse().unwrap());
        assert_eq!(behind(chosen).find(ip("10.0.0.1"), &all), ip("10.0.0.1"));
    }
}

#[test]
fn keys_use_prefixes_of_addresses() {
    let usual = ClientAddress::peer();
    let key = |address: &str| usual.key_of(ip(address)).to_string();
    assert_eq!(key("192.0.2.7"), "192.0.2.7");
    assert_eq!(key("::ffff:192.0.2.7"), "192.0.2.7");
    assert_eq!(key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    // Not an IPv4 address, although it ends like one.
    assert_eq!(key("2001:db8::192.0.2.7"), "2001:db8::/64");

    let other = ClientAddress::builder().ipv4_prefix(24).ipv6_prefix(48).build().unwrap();
    assert_eq!(other.key_of(ip("192.0.2.7")).to_string(), "192.0.2.0/24");
    assert_eq!(other.key_of(ip("::ffff:192.0.2.7")).as_bytes(), [192, 0, 2, 0]);
    assert_eq!(other.key_of(ip("2001:db8:1:2::")).to_string(), "2001:db8:1::/48");
    let single = ClientAddress::builder().ipv6_prefix(128).build().unwrap();
    assert_eq!(single.key_of(ip("2001:db8::1")).to_string(), "2001:db8::1");
}

// Masked as IPv6, all IPv4 clients of a dual-stack socket would share one key.
#[test]
fn clients_of_a_dual_stack_socket_are_counted_separately() {
    for bits in [32, 48, 64, 96, 128] {
        let rule = ClientAddress::builder().ipv6_prefix(bits).build().unwrap();
        let none = HeaderMap::new();
        let one = rule.key(ip("::ffff:192.0.2.7"), &none);
        assert_ne!(one, rule.key(ip("::ffff:192.0.2.8"), &none));
        assert_eq!(one, rule.key(ip("192.0.2.7"), &none));
    }
}

// Grouped by /64, all clients behind a translator would share one key, and one of them could starve
// the others. A 6to4 network (a /48) and a Teredo client belong to one IPv4 address.
#[test]
fn addresses_of_translators_count_by_the_ipv4_address_inside() {
    let usual = ClientAddress::peer();
    let key = |address: &str| usual.key_of(ip(address)).to_string();
    for (address, expected) in [
        ("64:ff9b::192.0.2.7", "192.0.2.7"),
        ("64:ff9b::c000:208", "192.0.2.8"),
        // RFC 8215: the operator chooses where the IPv4 address is, so the whole address counts.
        ("64:ff9b:1::192.0.2.7", "64:ff9b:1::c000:207"),
        ("64:ff9b:1:fffe::192.0.2.8", "64:ff9b:1:fffe::c000:208"),
        // Only the first 96 bits of the well-known prefix.
        ("64:ff9b::1:c000:207", "64:ff9b::/64"),
        ("64:ff9b:2::192.0.2.7", "64:ff9b:2::/64"),
        ("2002:c000:207::1", "192.0.2.7"),
        ("2002:c000:207:ffff:1:2:3:4", "192.0.2.7"),
        // Teredo: the address of the client is inverted, that of the server is not its own.
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "192.0.2.45"),
        ("2001:1:4136:e378:8000:63bf:3fff:fdd2", "2001:1:4136:e378::/64"),
    ] {
        assert_eq!(key(address), expected, "{address}");
    }
    let coarse = ClientAddress::builder().ipv4_prefix(24).build().unwrap();
    assert_eq!(coarse.key_of(ip("64:ff9b::192.0.2.7")).to_string(), "192.0.2.0/24");
}

fn refusal(builder: ClientAddressBuilder) -> String {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting);
    error.to_string()
}

#[test]
fn rejects_invalid_settings() {
    let field = || ClientAddress::builder().field(HopField::XForwardedFor);
    for (builder, message) in [
        (
            field(),
            "the field x-forwarded-for is set but no proxy is trusted: name the networks of the proxies",
        ),
        (
            ClientAddress::builder().trust("10.0.0.0/8"),
            "1 trusted networks are set but no field: choose the field that the proxies write",
        ),
        (
            field().trust("10.0.0.1/8"),
            "trusted network 10.0.0.1/8 has bits beyond its prefix: use 10.0.0.0/8 or 10.0.0.1",
        ),
        (
            field().trust("10.0.0.0/33"),
            "trusted network \"10.0.0.0/33\" is malformed: use an address or a CIDR like 10.0.0.0/8",
        ),
        (ClientAddress::builder().ipv6_prefix(31), "IPv6 prefix 31 is out of range: use 32 to 128"),
        (ClientAddress::builder().ipv4_prefix(33), "IPv4 prefix 33 is out of range: use 8 to 32"),
    ] {
        assert_eq!(refusal(builder), message);
    }
    let everyone = [
        &["0.0.0.0/0"][..],
        &["::/0"],
        &["::ffff:0:0/96"],
        &["0.0.0.0/1", "128.0.0.0/1"],
        &["::ffff:0.0.0.0/97", "128.0.0.0/1"],
        &["::/1", "8000::/1"],
    ];
    for networks in everyone {
        let refused = refusal(field().trust_all(networks));
        assert!(refused.starts_with("the trusted networks contain every IPv"), "{refused}");
    }
    for name in ["X-Forwarded-For", "forwarded", "no name"] {
        let refused = refusal(ClientAddress::builder().single_field(name).trust("10.0.0.1"));
        assert!(refused.contains("hops") || refused.contains("not a header"), "{refused}");
    }
    assert!(
        refusal(ClientAddress::builder().single_field("x-real-ip"))
            .starts_with("the field x-real-ip is")
    );
    assert!(refusal(field().trust_all(vec!["10.0.0.0/8"; 257])).starts_with("257 trusted"));
    assert!(ClientAddress::builder().ipv6_prefix(129).build().is_err());
    assert!(ClientAddress::builder().ipv4_prefix(7).build().is_err());
}

#[test]
fn trusted_networks_match_any_notation() {
    let mapped = ClientAddress::builder()
        .field(HopField::XForwardedFor)
        .trust("::ffff:10.0.0.0/104")
        .build()
        .unwrap();
    for proxy in ["10.9.9.9", "::ffff:10.9.9.9", "::ffff:a09:909"] {
        assert!(mapped.is_trusted(ip(proxy)), "{proxy}");
    }
    assert!(!mapped.is_trusted(ip("11.0.0.1")));
    assert!(!mapped.is_trusted(ip("::10.9.9.9")));
}

/// Returns several notations of one address.
fn spellings(address: Ipv6Addr) -> Vec<String> {
    let parts = address.segments().map(|part| format!("{part:x}")).join(":");
    let padded = address.segments().map(|part| format!("{part:04X}")).join(":");
    let [.., a, b, c, d] = address.octets();
    let (first, _) = padded.split_at(30);
    let mut all = vec![
        address.to_string(),
        address.to_string().to_uppercase(),
        parts,
        padded.clone(),
        format!("{first}{a}.{b}.{c}.{d}"),
    ];
    if let Some(v4) = address.to_ipv4_mapped() {
        all.extend([v4.to_string(), format!("{v4}:80"), format!("::ffff:{v4}")]);
    }
    let bracketed = all.iter().filter(|text| text.parse::<Ipv6Addr>().is_ok());
    let bracketed: Vec<_> = bracketed.map(|text| format!("[{text}]:4711")).collect();
    all.extend(bracketed);
    all
}

fn any_address() -> impl Strategy<Value = Ipv6Addr> {
    prop_oneof![
        any::<u128>().prop_map(Ipv6Addr::from),
        any::<u32>().prop_map(|bits| Ipv4Addr::from(bits).to_ipv6_mapped()),
        any::<u32>().prop_map(|bits| Ipv6Addr::from(u128::from(bits))),
    ]
}

fn outside(address: &Ipv6Addr) -> bool {
    FIELDS.iter().all(|field| !behind(*field).is_trusted(IpAddr::V6(*address)))
}

/// Generates header lines with many characters that have a meaning there.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        "[\"\\\\,;= \tfor:.\\[\\]0-9a-f_]{0,60}".prop_map(String::into_bytes),
        "(for=)?\"?10\\.0\\.0\\.[0-9]\"?(, ?(for=)?\"?10\\.0\\.0\\.[0-9]\"?){0,3}"
            .prop_map(String::into_bytes),
    ];
    line.prop_filter("not a header value", |line| HeaderValue::from_bytes(line).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn all_spellings_of_an_address_give_one_key(address in any_address().prop_filter("", outside)) {
        let secret = Secret::new([7; 16]);
        let peer = ip("10.0.0.1");
        for field in FIELDS {
            let rule = behind(field);
            let expected = rule.key_of(IpAddr::V6(address));
            for spelling in spellings(address) {
                let entry = match field {
                    HopField::Forwarded => format!("for=\"{spelling}\""),
                    _ => spelling,
                };
                let key = rule.key(peer, &headers(field, &[&entry]));
                prop_assert_eq!(key, expected, "{}", entry);
                prop_assert_eq!(key.fingerprint(&secret), expected.as_bytes().fingerprint(&secret));
            }
        }
    }

    // Entries from a client are to the left of those from its proxy, in the same line or before it.
    #[test]
    fn entries_from_a_client_do_not_change_its_key(
        address in any_address().prop_filter("", outside),
        lines in proptest::collection::vec(any_line(), 0..3),
        prefix in any_line(),
        same_line: bool,
        hops in 0..3_usize,
    ) {
        for field in FIELDS {
            let rule = behind(field);
            let mut added = match field {
                HopField::Forwarded => format!("for=\"[{address}]:80\";host=\"a,\\\"b\""),
                _ => address.to_string(),
            };
            for hop in 0..hops {
                let quoted = format!(", for=\"10.1.1.{hop}\"");
                let bare = format!(", 10.1.1.{hop}");
                added.push_str(if field == HopField::Forwarded { &quoted } else { &bare });
            }
            let mut all = lines.clone();
            if same_line {
                all.push([&prefix[..], b", ", added.as_bytes()].concat());
            } else {
                all.extend([prefix.clone(), added.into_bytes()]);
            }
            let key = rule.key(ip("10.0.0.1"), &headers(field, &all));
            prop_assert_eq!(key, rule.key_of(IpAddr::V6(address)));
        }
    }

    #[test]
    fn addresses_of_one_64_share_a_key_and_others_do_not(network: u64, one: u64, two: u64, other: u64) {
        let address = |network: u64, host: u64| {
            IpAddr::V6(Ipv6Addr::from(u128::from(network) << 64 | u128::from(host)))
        };
        let rule = ClientAddress::peer();
        // The first /64 contains the IPv4-mapped addresses, others those of translators.
        let is_plain = |network: u64| network != 0 && ![0x64, 0x2001, 0x2002].contains(&(network >> 48));
        prop_assume!(is_plain(network) && is_plain(other));
        prop_assert_eq!(rule.key_of(address(network, one)), rule.key_of(address(network, two)));
        let same = rule.key_of(address(network, one)) == rule.key_of(address(other, one));
        prop_assert_eq!(same, network == other);
    }

    #[test]
    fn no_client_input_panics(lines in proptest::collection::vec(any_line(), 0..6)) {
        for field in FIELDS {
            let rule = behind(field);
            let _ = rule.key(ip("10.0.0.1"), &headers(field, &lines)).to_string();
        }
    }
}
