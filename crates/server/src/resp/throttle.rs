//! The limits behind `CL.THROTTLE`.

use std::sync::Arc;

use slidegate_gate::Gate;

use super::command::quota;
use crate::engine::Engine;

/// The limits of the rates that a connection used last: clients repeat a few.
#[derive(Debug, Default)]
pub(super) struct Throttles {
    made: Vec<([u64; 3], Gate)>,
    /// The limit whose state they share.
    state: Option<Arc<Gate>>,
}

/// The maximum number of limits kept.
const KEPT: usize = 16;

impl Throttles {
    /// The limit of a rate: max burst, count, period in seconds.
    pub(super) fn get(&mut self, engine: &Engine, rate: [u64; 3]) -> Result<&Gate, String> {
        let mut plan = engine.plan();
        if plan.throttle().is_none() {
            engine.start_throttle().map_err(|error| format!("ERR {error}"))?;
            plan = engine.plan();
        }
        let Some(current) = plan.throttle() else {
            return Err("ERR CL.THROTTLE is not available".to_owned());
        };
        if !self.state.as_ref().is_some_and(|state| Arc::ptr_eq(state, current)) {
            self.made.clear();
            self.state = Some(Arc::clone(current));
        }
        let found = self.made.iter().position(|(made, _)| *made == rate);
        let at = match found {
            Some(at) => at,
            None => {
                let [max_burst, count, period] = rate;
                let quotas = [quota(max_burst, count, period)?];
                let gate = current.with_quotas(&quotas).map_err(|error| format!("ERR {error}"))?;
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
