//! What is sent, and when.

use core::fmt;
use core::time::Duration;

use slidegate::Quota;
use slidegate_sim::number::{to_float, to_whole};

use crate::KeyChoice;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// At this many requests per second, whether earlier ones were answered or not.
    Open(f64),
    /// One after another per connection, as fast as they are answered.
    Closed,
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Plan {
    /// When requests are sent.
    pub pace: Pace,
    /// For how long.
    pub duration: Duration,
    /// Connections, each with one request in flight.
    pub connections: u16,
    /// The longest time from sending a request to its answer, and for a connection to be made.
    pub deadline: Duration,
    /// Which keys requests are for.
    pub keys: KeyChoice,
    /// Names start with this text. Keys that the limiter has not seen have nothing to expire.
    pub key_prefix: String,
    /// The limits of every key. Without them, decisions are not checked.
    pub quotas: Vec<Quota>,
    /// How much longer than its window a unit may count before a denial is reported as wrong.
    pub tolerance: Duration,
    /// Makes the sequence of keys repeatable.
    pub seed: u64,
}

/// The most requests of a run whose decisions are checked. Their times take 24 bytes each.
pub(crate) const CHECKED_MAX: usize = 10_000_000;
/// The longest run.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most requests per second.
const RATE_MAX: f64 = 10_000_000.0;

/// The error of a plan that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(String);

impl Plan {
    /// Returns what is wrong with the plan.
    ///
    /// # Errors
    ///
    /// Returns an error that names the value and the bounds.
    pub fn check(&self) -> Result<(), PlanError> {
        let refuse = |text: String| Err(PlanError(text));
        if self.duration.is_zero() || self.duration > DURATION_MAX {
            return refuse(format!(
                "a run takes {:?}; use more than 0 and at most 24 hours",
                self.duration
            ));
        }
        if self.connections == 0 || self.deadline.is_zero() || self.keys.keys() == 0 {
            return refuse("connections, deadline and keys have to be more than 0".to_owned());
        }
        match self.keys {
            KeyChoice::Zipf { exponent, .. } if !(exponent > 0.0 && exponent <= 10.0) => {
                return refuse(format!(
                    "the exponent {exponent} of Zipf is not more than 0 and at most 10"
                ));
            }
            KeyChoice::Hot { share, .. } if !(0.0..=1.0).contains(&share) => {
                return refuse(format!("the share {share} of the hot key is not from 0 to 1"));
            }
            _ => {}
        }
        let Pace::Open(rate) = self.pace else { return Ok(()) };
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return refuse(format!(
                "the rate is {rate}; use more than 0 and at most {RATE_MAX} requests per second"
            ));
        }
        let requests = rate * self.duration.as_secs_f64();
        if !self.quotas.is_empty() && requests > to_float(CHECKED_MAX as u64) {
            return refuse(format!(
                "{requests:.0} requests are too many to check their decisions: the most is {CHECKED_MAX}. \
                 Use a lower rate or a shorter run, or leave the quota out"
            ));
        }
        Ok(())
    }

    /// Returns the number of keys with which a share of the requests of an open loop is denied if all keys are
    /// equally frequent: each of them gets the units of its limit, and more requests than that.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such number, with the value and the bounds.
    pub fn keys_for_denials(rate: f64, quota: Quota, share: f64) -> Result<u32, PlanError> {
        if !(share > 0.0 && share < 1.0) {
            return Err(PlanError(format!("the share {share} of denials is not between 0 and 1")));
        }
        let allowed_per_key = to_float(quota.limit()) / quota.window().as_secs_f64();
        let keys = (rate * (1.0 - share) / allowed_per_key).round();
        match u32::try_from(to_whole(keys)) {
            Ok(keys) if keys > 0 => Ok(keys),
            _ => Err(PlanError(format!(
                "{rate} requests per second under {quota} cannot be denied to {} %: this would take {keys} keys. \
                 Use another rate",
                share * 100.0
            ))),
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PlanError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_for_a_share_of_denials_take_what_their_limits_allow() {
        // 1000 requests per second, half of them allowed: 50 keys with 10 per second.
        assert_eq!(Plan::keys_for_denials(1000.0, Quota::per_second(10), 0.5), Ok(50));
        assert_eq!(Plan::keys_for_denials(1000.0, Quota::per_minute(600), 0.9), Ok(10));
        for (rate, share) in [(1.0, 0.5), (1000.0, 0.0), (1000.0, 1.0), (1000.0, f64::NAN)] {
            assert!(Plan::keys_for_denials(rate, Quota::per_second(10), share).is_err());
        }
    }
}
