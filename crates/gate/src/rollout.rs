//! How far a gate's denials are enforced.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Whether a gate enforces its denials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rollout {
    /// Denials are enforced.
    #[default]
    Enforce,
    /// Evaluated and counted, never enforced.
    Shadow,
    /// Neither evaluated nor counted: the kill switch.
    Off,
}

impl Rollout {
    /// Returns the name of the mode in the daemon's configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }
}

/// A share of all keys, chosen by hash. A key stays in the share in every process, across restarts,
/// and when the share grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    percent: u8,
}

impl Share {
    /// Every key.
    pub const ALL: Self = Self { percent: 100 };

    /// Returns a share of 0 to 100 percent, or `None` for a larger number.
    pub fn new(percent: u8) -> Option<Self> {
        (percent <= 100).then_some(Self { percent })
    }

    /// Returns whether every key is in the share.
    pub fn is_all(self) -> bool {
        self.percent == 100
    }

    /// Returns `true` if a key of this policy is in the share. Each policy selects other keys, so
    /// that the same clients are not always the first to get a new limit.
    #[inline]
    pub fn contains(self, policy: &str, key: &[u8]) -> bool {
        if self.is_all() {
            return true;
        }
        let mut hasher = SipHasher13::new();
        hasher.write(policy.as_bytes());
        hasher.write_u8(0xff);
        hasher.write(key);
        hasher.finish() % 100 < u64::from(self.percent)
    }
}

#[cfg(test)]
mod tests;
