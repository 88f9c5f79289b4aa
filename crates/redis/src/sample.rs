//! How much of the servers' memory is ours, by policy, estimated from random keys.

use std::collections::BTreeMap;

use redis::Value;
use slidegate::Error;

use crate::redis::Redis;

/// Random keys of the servers: how many are ours, and what they take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KeySample {
    /// Keys that were sampled, also those that are not ours.
    pub samples: u64,
    /// By the name of the policy as stored, with its algorithm if that is not `log`: the number of sampled
    /// keys and their bytes, for at most 1000 policies.
    pub policies: BTreeMap<String, (u64, u64)>,
    /// All keys of the servers.
    keys: u64,
}

/// The maximum number of policies in a sample.
const POLICIES_MAX: usize = 1000;
/// Older samples weigh less: from this number on, all counts are halved.
const SAMPLES_MAX: u64 = 4096;

impl Redis {
    /// Samples `samples` random keys of each server with `RANDOMKEY`, and the memory of those that are
    /// ours with `MEMORY USAGE`. This takes the same time whatever the number of keys.
    ///
    /// # Errors
    ///
    /// When a server gave no answer, or the user may not send these commands.
    pub async fn sample(&self, samples: usize) -> Result<KeySample, Error> {
        let (names, servers) = (&self.shared.names, &self.shared.servers);
        let mut sample = KeySample::default();
        for node in servers.primaries().await? {
            for _ in 0..samples {
                let random = redis::cmd("RANDOMKEY");
                let Value::BulkString(name) = node.query(&random, servers.query_deadline()).await?
                else {
                    // The server has no keys.
                    break;
                };
                sample.samples += 1;
                let Some(policy) = names.stored_policy_of(&name) else { continue };
                let mut usage = redis::cmd("MEMORY");
                usage.arg("USAGE").arg(name.as_slice());
                // It may have expired meanwhile.
                if let Value::Int(bytes) = node.query(&usage, servers.query_deadline()).await? {
                    sample.note(policy, 1, u64::try_from(bytes).unwrap_or(0));
                }
            }
        }
        Ok(sample)
    }
}

impl KeySample {
    fn note(&mut self, policy: &str, keys: u64, bytes: u64) {
        if let Some(noted) = self.policies.get_mut(policy) {
            *noted = (noted.0 + keys, noted.1 + bytes);
        } else if self.policies.len() < POLICIES_MAX {
            self.policies.insert(policy.to_owned(), (keys, bytes));
        }
    }

    /// Adds another sample, of servers that have `keys` keys.
    pub(crate) fn add(&mut self, sample: &Self, keys: u64) {
        if self.samples >= SAMPLES_MAX {
            self.samples /= 2;
            self.policies.retain(|_, (keys, bytes)| {
                (*keys, *bytes) = (*keys / 2, *bytes / 2);
                *keys > 0
            });
        }
        self.samples += sample.samples;
        for (policy, (keys, bytes)) in &sample.policies {
            self.note(policy, *keys, *bytes);
        }
        self.keys = keys;
    }

    /// Estimates the number of keys of a policy and their bytes. Returns `None` without samples.
    pub(crate) fn estimate(&self, policy: &str) -> Option<(u64, u64)> {
        let samples = u128::from(self.samples);
        let (keys, bytes) = self.policies.get(policy).copied().unwrap_or_default();
        let scale = |part: u64| {
            let whole = (u128::from(part) * u128::from(self.keys)).checked_div(samples)?;
            u64::try_from(whole).ok()
        };
        Some((scale(keys)?, scale(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(samples: u64, policies: &[(&str, u64, u64)]) -> KeySample {
        let mut sample = KeySample { samples, ..KeySample::default() };
        for (policy, keys, bytes) in policies {
            sample.note(policy, *keys, *bytes);
        }
        sample
    }

    #[test]
    fn a_share_of_the_samples_is_a_share_of_the_keys() {
        let mut all = KeySample::default();
        assert_eq!(all.estimate("api"), None);
        all.add(&sample(32, &[("api", 8, 800), ("web", 16, 3200)]), 1000);
        assert_eq!(all.estimate("api"), Some((250, 25_000)));
        all.add(&sample(32, &[("api", 8, 800)]), 2000);
        assert_eq!(all.estimate("api"), Some((500, 50_000)));
        assert_eq!(all.estimate("web"), Some((500, 100_000)));
        assert_eq!(all.estimate("gone"), Some((0, 0)));
    }

    #[test]
    fn old_samples_lose_their_weight() {
        let mut all = KeySample::default();
        for _ in 0..1000 {
            all.add(&sample(32, &[("old", 32, 3200)]), 100);
        }
        for _ in 0..2000 {
            all.add(&sample(32, &[("new", 32, 3200)]), 100);
        }
        assert!(all.estimate("old").unwrap().0 <= 1, "{all:?}");
        assert!(all.estimate("new").unwrap().0 >= 99, "{all:?}");
        assert!(all.samples <= 2 * SAMPLES_MAX);
    }
}
