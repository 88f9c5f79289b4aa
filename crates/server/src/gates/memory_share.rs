//! How `memory.limit_mb` is divided among the stores in memory.
//!
//! Each policy, each candidate, each unit of Envoy's domains (per algorithm) and `CL.THROTTLE`, once it
//! is used, has a table of its own, called a pool here. All get the same share, so that a flood of one
//! pool does not affect the others.

use slidegate::{Algorithm, Error, ErrorKind, Limiter};

use crate::spec::{MEMORY, Spec, Unit};

/// The number of pools by what they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pools {
    policies: usize,
    candidates: usize,
    units: usize,
    throttle: usize,
}

impl Pools {
    fn of(spec: &Spec, has_throttle: bool) -> Self {
        let policies = spec.policies.iter().filter(|policy| policy.store == MEMORY);
        let candidates = policies.clone().filter(|policy| policy.candidate.is_some()).count();
        let mut algorithms: Vec<Algorithm> = Vec::new();
        for domain in spec.domains.iter().filter(|domain| domain.store == MEMORY) {
            for algorithm in domain.algorithms() {
                if !algorithms.contains(&algorithm) {
                    algorithms.push(algorithm);
                }
            }
        }
        Self {
            policies: policies.count(),
            candidates,
            units: algorithms.len() * Unit::ALL.len(),
            throttle: usize::from(has_throttle),
        }
    }

    fn count(&self) -> usize {
        self.policies + self.candidates + self.units + self.throttle
    }
}

/// Returns the share of each new pool, in bytes.
///
/// # Errors
///
/// Returns an error if the memory limit is too small for the number of pools.
pub(super) fn share_of_new(spec: &Spec, has_throttle: bool) -> Result<usize, Error> {
    let (limit, pools) = (spec.memory().limit, Pools::of(spec, has_throttle));
    let share = limit / pools.count().max(1);
    if share >= Limiter::MEMORY_MIN {
        return Ok(share);
    }
    let Pools { policies, candidates, units, throttle } = pools;
    let parts = [
        (policies, "policies"),
        (candidates, "candidates"),
        (units, "units of Envoy domains"),
        (throttle, "CL.THROTTLE"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let message = format!(
        "memory.limit_mb {} is too small for {} pools of counts ({}), which need {} KiB each: set \
         memory.limit_mb to {} or more, use fewer policies, or keep some of them in another store",
        limit >> 20,
        pools.count(),
        parts.join(", "),
        Limiter::MEMORY_MIN >> 10,
        (pools.count() * Limiter::MEMORY_MIN).div_ceil(1 << 20),
    );
    Err(Error::new(ErrorKind::Setting, message))
}

/// Divides the memory limit among limiters. A limiter that was made for a larger share cannot shrink
/// below its minimum; the others then get less, so that all together stay within the limit.
///
/// # Errors
///
/// Returns an error, and changes nothing, if the minimums exceed the limit.
pub fn divide_memory(limit: usize, limiters: &[&Limiter]) -> Result<(), Error> {
    let least: Vec<usize> = limiters.iter().map(|limiter| limiter.memory_limit_min()).collect();
    let Some(share) = common_share(limit, &least) else {
        let message = format!(
            "memory.limit_mb {} is too small for {} pools of counts, of which some were made for a \
             larger share and need {} MiB together: restart with this configuration, or set \
             memory.limit_mb to that",
            limit >> 20,
            limiters.len(),
            least.iter().sum::<usize>().div_ceil(1 << 20),
        );
        return Err(Error::new(ErrorKind::Setting, message));
    };
    for limiter in limiters {
        limiter.set_memory_limit(share);
    }
    Ok(())
}

/// Returns the largest share for which the sum of all, each at least its own minimum, is within
/// `limit`. Returns `None` if there is none.
fn common_share(limit: usize, least: &[usize]) -> Option<usize> {
    let mut sorted = least.to_vec();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    let (mut rest, mut count) = (limit, sorted.len());
    for own in sorted {
        if own <= rest / count {
            break;
        }
        rest = rest.checked_sub(own)?;
        count -= 1;
    }
    Some(rest.checked_div(count).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{MemorySpec, PolicySpec, StoreSpec};
    use slidegate::Quota;

    fn spec(policies: usize, limit_mb: usize) -> Spec {
        let policy = |number| PolicySpec::new(&format!("p{number}"), vec![Quota::per_minute(1)]);
        let memory = MemorySpec { limit: limit_mb << 20, ..MemorySpec::default() };
        Spec {
            stores: vec![StoreSpec::Memory(memory)],
            policies: (0..policies).map(policy).collect(),
            ..Spec::default()
        }
    }

    #[test]
    fn ten_thousand_policies_fit_into_the_default_memory() {
        assert_eq!(share_of_new(&spec(10_000, 256), false).unwrap(), (256 << 20) / 10_000);
        assert_eq!(share_of_new(&spec(1, 256), false).unwrap(), 256 << 20);
        assert_eq!(share_of_new(&spec(1, 256), true).unwrap(), 128 << 20);
        assert_eq!(share_of_new(&spec(0, 256), false).unwrap(), 256 << 20);
    }

    #[test]
    fn memory_that_is_too_small_says_how_much_is_needed() {
        let error = share_of_new(&spec(10_000, 100), true).unwrap_err().to_string();
        for part in ["memory.limit_mb 100", "10000 policies, 1 CL.THROTTLE", "16 KiB", "to 157 or"]
        {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(share_of_new(&spec(10_000, 157), true).is_ok());
    }

    #[test]
    fn shares_with_their_minimums_stay_within_the_limit() {
        assert_eq!(common_share(100, &[]), Some(100));
        assert_eq!(common_share(100, &[10, 10]), Some(50));
        assert_eq!(common_share(100, &[80, 10]), Some(20));
        assert_eq!(common_share(100, &[6, 80, 10, 3]), Some(4));
        assert_eq!(common_share(100, &[10, 80, 10, 5]), None);
        assert_eq!(common_share(100, &[60, 41]), None);
        for least in [vec![40, 30, 20], vec![1; 7], vec![90, 1, 1, 1]] {
            let share = common_share(100, &least).unwrap();
            assert!(least.iter().map(|own| share.max(*own)).sum::<usize>() <= 100, "{least:?}");
        }
    }
}
