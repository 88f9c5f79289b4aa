//! Any hop fields into `ClientAddress`: no panic, and nothing a client sends changes its key.
//!
//! What could go wrong: a quote that a client opens and the proxy's entry falls into, an entry that is
//! cut in the wrong place, a spelling that is taken for another address.

#![no_main]

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use slidegate_http::{ClientAddress, HopField};

#[derive(Debug, Arbitrary)]
struct Input {
    forwarded: bool,
    /// What the client sent.
    lines: Vec<Vec<u8>>,
    /// Whether the proxy adds to the last line or writes one of its own.
    same_line: bool,
    address: IpAddr,
}

const PROXY: [u8; 4] = [10, 0, 0, 1];

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let field = if input.forwarded { HopField::Forwarded } else { HopField::XForwardedFor };
    let name = if input.forwarded { "forwarded" } else { "x-forwarded-for" };
    let rule = ClientAddress::builder()
        .field(field)
        .trust("10.0.0.0/8")
        .build()
        .expect("a field and a network");
    let proxy = IpAddr::from(PROXY);

    let mut lines = input.lines.clone();
    let alone = headers(name, &lines);
    let _ = rule.key(proxy, &alone).to_string();

    let added = match input.forwarded {
        true => format!("proto=https;for=\"{}\"", node(input.address)),
        false => node(input.address),
    };
    match lines.last_mut().filter(|_| input.same_line) {
        Some(last) => last.extend([b", ", added.as_bytes()].concat()),
        None => lines.push(added.into_bytes()),
    }
    let headers = headers(name, &lines);
    // Bytes that no header line can hold take the proxy's entry with them.
    let is_whole = headers.get_all(name).iter().count() == lines.len();
    if is_whole && !rule.is_trusted(input.address) {
        assert_eq!(rule.key(proxy, &headers), rule.key_of(input.address));
    }
}

fn node(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]:80"),
    }
}

fn headers(name: &'static str, lines: &[Vec<u8>]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(name, value);
        }
    }
    headers
}
