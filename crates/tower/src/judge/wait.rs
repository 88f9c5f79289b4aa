//! Waiting for units.

use core::time::Duration;
use std::sync::Arc;

use slidegate::{Decision, Limiter};

use super::Judge;
use super::decide::retry_after;
use crate::gate::Ask;
use crate::waiting::Waiting;

/// The most times that a request asks. Each time somebody else was quicker; one that is never
/// quick enough is denied in the end.
const ROUNDS_MAX: usize = 64;

impl Judge {
    /// Waits for units that `denied` says are not there yet, if there is time and room to wait.
    pub(super) async fn wait(
        &self,
        waiting: &Waiting,
        asks: &[&Ask],
        denied: Vec<Decision>,
    ) -> (Vec<Decision>, bool) {
        // A wait that no time is enough for is not begun.
        if retry_after(&denied).is_none_or(|after| after > waiting.time_max()) {
            return (denied, false);
        }
        let Some(_waiter) = waiting.enter(&self.waiters) else {
            return (denied, false);
        };
        match (asks, self.line(asks)) {
            ([ask], Some(limiter)) => (vec![in_line(waiting, limiter, ask, denied).await], true),
            _ => (self.ask_again(waiting, asks, denied).await, true),
        }
    }

    /// The limiter in whose line the only ask can stand.
    fn line(&self, asks: &[&Ask]) -> Option<&Arc<Limiter>> {
        match asks {
            [ask] if ask.tier.is_none() => self.gates[ask.gate].store().line(),
            _ => None,
        }
    }

    /// Asks again whenever the units should be there, until they are or the time is over.
    async fn ask_again(
        &self,
        waiting: &Waiting,
        asks: &[&Ask],
        mut decisions: Vec<Decision>,
    ) -> Vec<Decision> {
        let mut left = waiting.time_max();
        for _ in 0..ROUNDS_MAX {
            let Some(after) = retry_after(&decisions) else { break };
            // A failed store says zero; asking it again at once would be a busy loop.
            let after = after.max(REST_MIN);
            if after > left {
                break;
            }
            waiting.sleep().sleep(after).await;
            left = left.saturating_sub(after);
            decisions = self.take(asks).await;
            if decisions.iter().all(Decision::is_allowed) {
                break;
            }
        }
        decisions
    }
}

const REST_MIN: Duration = Duration::from_millis(1);

/// First come, first served.
async fn in_line(
    waiting: &Waiting,
    limiter: &Limiter,
    ask: &Ask,
    denied: Vec<Decision>,
) -> Decision {
    let sleep = |time| waiting.sleep().sleep(time);
    let waited = limiter.wait(ask.key.as_slice(), ask.cost, waiting.time_max(), sleep).await;
    match waited {
        Ok(decision) => decision,
        // The limiter has a bound of its own on those who wait.
        Err(_) => {
            denied.into_iter().next().unwrap_or_else(|| crate::store::failed(limiter.policy()))
        }
    }
}
