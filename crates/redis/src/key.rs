//! The names of keys in Redis.
//!
//! ```text
//! sg:{012345}:policy;tkey
//! |   |       |     ||
//! |   |       |     |+ the key: text with %XX for other bytes, or a digest
//! |   |       |     + what it is: t text, d digest of a long key, s digest of a secret
//! |   |       + the policy's name, behind @ the algorithm and the tick if not log and a millisecond
//! |   + digest of the key alone, so that one key's policies share a slot
//! + prefix
//! ```
//!
//! Injective: no two keys have one name. The only braces are ours, so no key can choose its slot
//! by its text.

use core::fmt;
use core::fmt::Write;
use core::hash::Hasher;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher13;
use slidegate::{Error, ErrorKind};

/// Names keys. Its `Debug` form does not show the secret.
#[derive(Clone)]
pub(crate) struct KeyNames {
    prefix: Box<str>,
    secret: Option<Box<[u8]>>,
    /// Derived from the secret if there is one, so that a client without it cannot choose its slot.
    tag_keys: (u64, u64),
}

/// Hexadecimal digits of the digest: a thousand values per slot of a cluster, of which there are 16,384.
const TAG_DIGITS: usize = 6;

/// A key in the tables of this process: its fingerprint and its tier.
///
/// A denial of one tier says nothing about another, while a refund concerns all tiers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TieredKey {
    pub(crate) key: u64,
    /// Zero for the policy's own quotas.
    pub(crate) tier: u64,
}

/// Keys longer than this are named by their digest.
const TEXT_MAX: usize = 128;

impl KeyNames {
    /// # Errors
    ///
    /// When the prefix is not 1 to 32 of `a-z A-Z 0-9 _ - . :`, or the secret is shorter than 16
    /// bytes.
    pub(crate) fn new(prefix: &str, secret: Option<&[u8]>) -> Result<Self, Error> {
        let usable = (1..=32).contains(&prefix.len())
            && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte));
        if !usable {
            let message =
                format!("key prefix {prefix:?} is not usable: use 1 to 32 of a-z A-Z 0-9 _ - . :");
            return Err(Error::new(ErrorKind::Setting, message));
        }
        if let Some(len) = secret.map(<[u8]>::len).filter(|len| *len < 16) {
            let message = format!("a key secret of {len} bytes is too short: use at least 16");
            return Err(Error::new(ErrorKind::Setting, message));
        }
        let digest = Sha256::digest(secret.unwrap_or_default());
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&digest[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let tag_keys = (word(0), word(8));
        Ok(Self { prefix: prefix.into(), secret: secret.map(Into::into), tag_keys })
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// The name of a policy's state of a key.
    pub(crate) fn name(&self, policy: &str, key: &[u8], is_secret: bool) -> Vec<u8> {
        let mut name = String::with_capacity(32 + policy.len() + key.len());
        // Writing to a string does not fail.
        let _ = write!(name, "{}:{{{:0TAG_DIGITS$x}}}:{policy};", self.prefix, self.tag(key));
        if is_secret {
            name.push('s');
            push_hex(&mut name, &self.secret_digest(key)[..16]);
        } else if key.len() > TEXT_MAX {
            name.push('d');
            push_hex(&mut name, &Sha256::digest(key));
        } else {
            name.push('t');
            push_text(&mut name, key);
        }
        name.into_bytes()
    }

    /// What every name begins with; no character of it means anything in a pattern.
    pub(crate) fn start(&self) -> String {
        format!("{}:{{", self.prefix)
    }

    /// Returns the policy of a name, and its tick in microseconds. `None` if the name is not ours.
    pub(crate) fn policy_of<'a>(&self, name: &'a [u8]) -> Option<(&'a str, u64)> {
        let stored = self.stored_policy_of(name)?;
        let (policy, mark) = stored.split_once('@').unwrap_or((stored, ""));
        let tick = mark.rsplit('-').next().and_then(|tick| tick.strip_suffix("us")?.parse().ok());
        Some((policy, tick.unwrap_or(1000)))
    }

    /// The policy that a name is of, with algorithm and tick if they are part of it.
    pub(crate) fn stored_policy_of<'a>(&self, name: &'a [u8]) -> Option<&'a str> {
        let rest = name.strip_prefix(self.start().as_bytes())?;
        let (tag, rest) = rest.split_at_checked(TAG_DIGITS)?;
        let rest = rest.strip_prefix(b"}:")?;
        let end = rest.iter().position(|byte| *byte == b';')?;
        let known = tag.iter().all(u8::is_ascii_hexdigit)
            && rest.get(end + 1).is_some_and(|form| b"tds".contains(form));
        core::str::from_utf8(&rest[..end]).ok().filter(|_| known)
    }

    fn tag(&self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.tag_keys.0, self.tag_keys.1);
        hasher.write(key);
        hasher.finish() % (1 << (4 * TAG_DIGITS))
    }

    fn secret_digest(&self, key: &[u8]) -> [u8; 32] {
        let secret = self.secret.as_deref().unwrap_or_default();
        // A key of any length will do, so this never fails.
        match Hmac::<Sha256>::new_from_slice(secret) {
            Ok(mut mac) => {
                mac.update(key);
                mac.finalize().into_bytes().into()
            }
            Err(_) => Sha256::digest(key).into(),
        }
    }
}

/// Joins the parts of a key, a user and an endpoint for example, so that no two different lists
/// of parts give the same bytes.
///
/// ```
/// use slidegate_redis::join;
///
/// assert_ne!(join(&["a:b", "c"]), join(&["a", "b:c"]));
/// assert_eq!(join(&["alice", "/login"]), b"5:alice6:/login");
/// ```
pub fn join<P: AsRef<[u8]>>(parts: &[P]) -> Vec<u8> {
    let mut joined = Vec::new();
    for part in parts {
        let part = part.as_ref();
        joined.extend_from_slice(part.len().to_string().as_bytes());
        joined.push(b':');
        joined.extend_from_slice(part);
    }
    joined
}

fn push_text(name: &mut String, key: &[u8]) {
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"_-.:/@".contains(&byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
}

fn push_hex(name: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
}

impl fmt::Debug for KeyNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyNames").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
