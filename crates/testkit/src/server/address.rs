//! Addresses of servers, as clients take them.

use std::fmt::Write as _;
use std::path::Path;

/// `redis://USER:PASSWORD@127.0.0.1:PORT/`; an empty user is the default one.
pub(super) fn of_port(scheme: &str, port: u16, user: &str, password: &str) -> String {
    let who = match (user, password) {
        ("", "") => String::new(),
        _ => format!("{}:{}@", encoded(user), encoded(password)),
    };
    format!("{scheme}://{who}127.0.0.1:{port}/")
}

/// `redis+unix://PATH?pass=PASSWORD`.
pub(super) fn of_socket(path: &Path, password: &str) -> String {
    let path = path.display();
    match password {
        "" => format!("redis+unix://{path}"),
        _ => format!("redis+unix://{path}?pass={}", encoded(password)),
    }
}

/// A part of an address, whatever characters it has.
fn encoded(word: &str) -> String {
    let mut encoded = String::with_capacity(word.len());
    for byte in word.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_cannot_leave_its_place() {
        let url = of_port("redis", 7, "", "p@ss/w?rd");
        assert_eq!(url, "redis://:p%40ss%2Fw%3Frd@127.0.0.1:7/");
        let url = of_socket(Path::new("/s"), "a&b");
        assert_eq!(url, "redis+unix:///s?pass=a%26b");
    }
}
