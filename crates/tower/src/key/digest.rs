//! Keyed hashes of key parts that are secret or too long.

use core::fmt;
use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

use siphasher::sip128::{Hasher128, SipHasher24};

/// Hashes parts with a secret. Its `Debug` form does not show the secret.
#[derive(Clone)]
pub(crate) struct Digest(SipHasher24);

impl Digest {
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(secret))
    }

    /// Uses a random secret of this process.
    pub(crate) fn random() -> Self {
        let half = || RandomState::new().build_hasher().finish();
        Self(SipHasher24::new_with_keys(half(), half()))
    }

    /// Returns 128 bits that reveal nothing about the part without the secret.
    pub(crate) fn of(&self, part: &[u8]) -> [u8; 16] {
        let mut hasher = self.0;
        hasher.write(part);
        hasher.finish128().as_bytes()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_the_secret_and_hides_it() {
        let (one, two) = (Digest::new(&[1; 16]), Digest::new(&[2; 16]));
        assert_eq!(one.of(b"key"), Digest::new(&[1; 16]).of(b"key"));
        assert_ne!(one.of(b"key"), two.of(b"key"));
        assert_ne!(one.of(b"key"), one.of(b"kez"));
        assert_ne!(Digest::random().of(b"key"), Digest::random().of(b"key"));
        assert_eq!(format!("{one:?}"), "Digest(..)");
    }
}
