//! The limits behind `CL.THROTTLE`.

use core::time::Duration;
use std::sync::Arc;

use slidegate::{Decision, Quota};
use slidegate_gate::Gate;

use crate::engine::Engine;

/// Caches the limits of the rates that a connection used last, because clients repeat a few.
#[derive(Debug, Default)]
pub(super) struct Throttles {
    made: Vec<([u64; 3], Gate)>,
    /// The limit whose state they share.
    state: Option<Arc<Gate>>,
}

/// The maximum number of limits kept.
const KEPT: usize = 16;

impl Throttles {
    /// Returns the limit of a rate: max burst, count, period in seconds.
    pub(super) async fn get(
        &mut self,
        engine: &Arc<Engine>,
        rate: [u64; 3],
    ) -> Result<&Gate, String> {
        if engine.plan().throttle().is_none() {
            // A call that cannot be decided takes no memory.
            quota(rate)?;
            engine.start_throttle().await.map_err(|error| format!("ERR {error}"))?;
        }
        let plan = engine.plan();
        let Some(current) = plan.throttle() else {
            return Err("ERR CL.THROTTLE is not available during a reload: retry".to_owned());
        };
        if !self.state.as_ref().is_some_and(|state| Arc::ptr_eq(state, current)) {
            self.made.clear();
            self.state = Some(Arc::clone(current));
        }
        let found = self.made.iter().position(|(made, _)| *made == rate);
        let at = match found {
            Some(at) => at,
            None => {
                let gate =
                    current.with_quotas(&[quota(rate)?]).map_err(|error| format!("ERR {error}"))?;
                if self.made.len() == KEPT {
                    self.made.remove(0);
                }
                self.made.push((rate, gate));
                self.made.len() - 1
            }
        };
        Ok(&self.made[at].1)
    }
}

/// Returns the time until the whole burst is available again, rounded up to whole units.
pub(super) fn until_full(gate: &Gate, decision: &Decision) -> Duration {
    let Some(quota) = gate.quotas(None).first() else { return Duration::ZERO };
    let missing = quota.limit().saturating_sub(decision.remaining());
    let nanos = quota.window().as_nanos().saturating_mul(u128::from(missing));
    let nanos = nanos.div_ceil(u128::from(quota.limit()));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the quota of a rate in redis-cell: a burst of `max_burst` + 1 units, refilled at `count` per
/// `period` seconds.
fn quota([max_burst, count, period]: [u64; 3]) -> Result<Quota, String> {
    if count == 0 || period == 0 {
        return Err("ERR count and period must be above zero".to_owned());
    }
    let burst = max_burst.checked_add(1).ok_or("ERR max_burst is out of range")?;
    let nanos = u128::from(period) * 1_000_000_000 * u128::from(burst);
    let window = u64::try_from(nanos.div_ceil(u128::from(count)))
        .map_err(|_| "ERR a burst that takes over 500 years to refill is out of range")?;
    Quota::new(burst, Duration::from_nanos(window)).map_err(|error| format!("ERR {error}"))
}
