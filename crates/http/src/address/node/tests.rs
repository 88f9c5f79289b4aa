//! Tests of `node`.

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
