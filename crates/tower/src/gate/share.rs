//! Which part of all keys a gate is enforced for.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// A share of all keys, told by hash: a key that is in stays in, in every process and over
/// restarts, and also when the share grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    percent: u8,
}

impl Share {
    /// Every key.
    pub const ALL: Self = Self { percent: 100 };

    /// A share of 0 to 100 percent; none beyond.
    pub fn new(percent: u8) -> Option<Self> {
        (percent <= 100).then_some(Self { percent })
    }

    /// Whether every key is in.
    pub fn is_all(self) -> bool {
        self.percent == 100
    }

    /// Whether a key of this policy is in. Other policies choose other keys, so that it is not
    /// always the same clients that try everything first.
    pub fn holds(self, policy: &str, key: &[u8]) -> bool {
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
mod tests {
    use super::*;

    fn within(percent: u8, policy: &str) -> Vec<u32> {
        let share = Share::new(percent).unwrap();
        (0..10_000u32).filter(|number| share.holds(policy, &number.to_be_bytes())).collect()
    }

    #[test]
    fn a_share_is_about_its_size_and_grows_by_adding() {
        let mut before = Vec::new();
        for percent in [0, 1, 10, 50, 99, 100] {
            let now = within(percent, "api");
            let expected = usize::from(percent) * 100;
            assert!(now.len().abs_diff(expected) <= 200, "{} of {expected}", now.len());
            assert!(before.iter().all(|key| now.contains(key)), "{percent} lost a key");
            before = now;
        }
        assert_eq!(within(0, "api").len(), 0);
        assert_eq!(within(100, "api").len(), 10_000);
        assert_eq!(Share::new(101), None);
    }

    // A share that changed with the version of a library would move the limits of live clients.
    #[test]
    fn the_same_keys_in_every_process() {
        let share = Share::new(30).unwrap();
        let held: Vec<u8> = (0..12).filter(|key| share.holds("api", &[*key])).collect();
        assert_eq!(held, [3, 4, 5, 6, 8]);
        assert_ne!(within(30, "api"), within(30, "search"));
    }
}
