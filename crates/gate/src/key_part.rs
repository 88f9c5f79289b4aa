//! Parts of keys that are too long to be used unchanged.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 digest of a key part that is longer than `max` bytes, and `None` for a
/// shorter part.
///
/// Clients choose the values that keys consist of. A long value must not fail the check, because
/// many proxies allow a request whose check fails, and must not take memory in stores and logs. The
/// digest has no secret, so all nodes that share a store compute the same one.
pub fn digest_if_long(part: &[u8], max: usize) -> Option<[u8; 32]> {
    (part.len() > max).then(|| Sha256::digest(part).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_parts_are_digested() {
        assert_eq!(digest_if_long(b"1234", 4), None);
        let digest = digest_if_long(b"12345", 4);
        assert!(digest.is_some());
        assert_eq!(digest, digest_if_long(b"12345", 0));
        assert_ne!(digest, digest_if_long(b"12346", 4));
    }
}
