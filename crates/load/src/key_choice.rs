//! Which keys requests are for.

use core::fmt;

use slidegate_sim::Random;
use slidegate_sim::number::to_whole;
use slidegate_sim::traffic::Zipf;

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyChoice {
    /// All keys are equally frequent.
    Uniform(u32),
    /// The key of rank `r` is drawn in proportion to `1 / r^exponent`.
    Zipf {
        /// The number of keys.
        keys: u32,
        /// How much more frequent the first keys are. Around 1 for many kinds of real traffic.
        exponent: f64,
    },
    /// One key has this share of all requests, the others share the rest.
    Hot {
        /// The number of keys, with the hot one.
        keys: u32,
        /// The share of the hot key, from 0 to 1.
        share: f64,
    },
}

impl KeyChoice {
    /// Returns the number of keys.
    pub fn keys(&self) -> u32 {
        match *self {
            Self::Uniform(keys) | Self::Zipf { keys, .. } | Self::Hot { keys, .. } => keys,
        }
    }

    pub(crate) fn draws(self, seed: u64) -> KeyDraws {
        let zipf = match self {
            Self::Zipf { keys, exponent } => Some(Zipf::new(u64::from(keys), exponent)),
            Self::Uniform(_) | Self::Hot { .. } => None,
        };
        KeyDraws { choice: self, zipf, random: Random::new(seed) }
    }
}

impl fmt::Display for KeyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(1) => f.write_str("one key"),
            Self::Uniform(keys) => write!(f, "{keys} keys, uniform"),
            Self::Zipf { keys, exponent } => {
                write!(f, "{keys} keys, Zipf with exponent {exponent}")
            }
            Self::Hot { keys, share } => {
                write!(f, "{keys} keys, one with {} % of the requests", share * 100.0)
            }
        }
    }
}

/// Draws keys. A key is its number, from 0 on.
#[derive(Debug)]
pub(crate) struct KeyDraws {
    choice: KeyChoice,
    zipf: Option<Zipf>,
    random: Random,
}

impl KeyDraws {
    pub(crate) fn draw(&mut self) -> u32 {
        let uniform = |random: &mut Random, low: u32, keys: u32| {
            let last = u64::from(keys.max(low + 1)) - 1;
            u32::try_from(random.between(u64::from(low), last)).unwrap_or_default()
        };
        match (self.choice, &self.zipf) {
            (KeyChoice::Zipf { .. }, Some(zipf)) => {
                let rank = to_whole(zipf.draw(&mut self.random));
                u32::try_from(rank.saturating_sub(1)).unwrap_or_default()
            }
            (KeyChoice::Hot { keys, share }, _) => {
                let is_hot = keys < 2 || self.random.unit() < share;
                if is_hot { 0 } else { uniform(&mut self.random, 1, keys) }
            }
            (KeyChoice::Uniform(keys) | KeyChoice::Zipf { keys, .. }, _) => {
                uniform(&mut self.random, 0, keys)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(choice: KeyChoice) -> Vec<u32> {
        let mut draws = choice.draws(7);
        let mut counts = vec![0; choice.keys() as usize];
        for _ in 0..10_000 {
            counts[draws.draw() as usize] += 1;
        }
        counts
    }

    #[test]
    fn uniform_keys_are_equally_frequent() {
        assert!(counts(KeyChoice::Uniform(10)).iter().all(|count| (850..1150).contains(count)));
        assert_eq!(counts(KeyChoice::Uniform(1)), [10_000]);
    }

    #[test]
    fn a_hot_key_has_its_share_and_the_others_the_rest() {
        let counts = counts(KeyChoice::Hot { keys: 11, share: 0.9 });
        assert!((8800..9200).contains(&counts[0]), "{counts:?}");
        assert!(counts[1..].iter().all(|count| (50..150).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_keys_are_frequent_by_rank() {
        let counts = counts(KeyChoice::Zipf { keys: 100, exponent: 1.0 });
        // The sum of 1/r up to 100 is 5.19.
        assert!((1800..2050).contains(&counts[0]), "{counts:?}");
        assert!((880..1050).contains(&counts[1]), "{counts:?}");
    }
}
