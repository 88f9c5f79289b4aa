//! Tests of `hops`.

use super::*;
use http::HeaderValue;

fn hops(field: HopField, lines: &[&str]) -> Vec<Option<String>> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(field.name(), HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    field.hops(&headers).map(|hop| hop.map(|address| address.to_string())).collect()
}

fn some(addresses: &[&str]) -> Vec<Option<String>> {
    addresses.iter().map(|address| Some((*address).to_owned())).collect()
}

#[test]
fn lines_form_one_list_read_from_the_right() {
    let lines = ["1.1.1.1, 2.2.2.2", "", " 3.3.3.3 ,,4.4.4.4"];
    let expected = some(&["4.4.4.4", "3.3.3.3", "2.2.2.2", "1.1.1.1"]);
    assert_eq!(hops(HopField::XForwardedFor, &lines), expected);
}

#[test]
fn reads_forwarded_entries() {
    let lines = [
        "for=192.0.2.60;proto=http;by=203.0.113.43",
        "For=\"[2001:db8:cafe::17]:4711\", proto=https ; FOR=\"192.0.2.7:_p\" ;host=\"a,b;c\\\"\"",
        "for=[2001:db8::1]:80, for=192.0.2.9:8080;by=\"_a\"",
    ];
    let expected =
        some(&["192.0.2.9", "2001:db8::1", "192.0.2.7", "2001:db8:cafe::17", "192.0.2.60"]);
    assert_eq!(hops(HopField::Forwarded, &lines), expected);
}

#[test]
fn rejects_forwarded_entries_without_an_address() {
    for entry in [
        "for=unknown",
        "for=_gazonk",
        "proto=https",
        "for",
        "for=",
        "for=1.1.1.1;for=2.2.2.2",
        "for=1.1.1.1;",
        "for=1.1.1.1 2.2.2.2",
        "for=\"1.1.1.1",
        "for=\"1.1.1.1\"x",
        "for=1.1.1.1\"",
        "for==1.1.1.1",
        "1.1.1.1",
    ] {
        assert_eq!(hops(HopField::Forwarded, &[entry]), [None], "{entry}");
    }
    assert_eq!(hops(HopField::Forwarded, &["for=\"1.1\\.1.1\""]), some(&["1.1.1.1"]));
}

// A quote that a client left open must not hide the entry that the proxy appends.
#[test]
fn an_open_quote_does_not_hide_later_entries() {
    for left in ["for=\"", "\"", "for=\"x\\", "\\\"", "for=1.1.1.1;host=\"", "\"\"\""] {
        let line = format!("{left}, for=\"2.2.2.2:80\"");
        assert_eq!(hops(HopField::Forwarded, &[&line])[0], some(&["2.2.2.2"])[0], "{line}");
        let lines = [left, "for=2.2.2.2"];
        assert_eq!(hops(HopField::Forwarded, &lines)[0], some(&["2.2.2.2"])[0], "{left}");
    }
}

#[test]
fn reading_is_bounded() {
    let many = vec!["1.1.1.1"; 1000].join(",");
    assert_eq!(hops(HopField::XForwardedFor, &[&many]).len(), HOPS_MAX);
    let blanks = ",".repeat(5000);
    assert_eq!(hops(HopField::XForwardedFor, &[&blanks]).len(), 0);
    let long = format!("{}, 1.1.1.1", "x".repeat(3 * BYTES_MAX));
    assert_eq!(hops(HopField::XForwardedFor, &[&long]), some(&["1.1.1.1"]));
    let longs = vec!["x".repeat(BYTES_MAX / 4); 8].join(",");
    assert_eq!(hops(HopField::XForwardedFor, &[&longs]).len(), 3);
}
