//! Many keys, each decided independently.

use core::cmp::Reverse;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use futures_util::future::{join, join_all};
use slidegate::{Cost, Decision, Outcome};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::tier::RedisTier;
use super::{Check, Inner, Memory};
use crate::key::TieredKey;
use crate::lease::LeaseEntry;
use crate::script::{KeyOp, Op, ScriptLimits};
use crate::servers::Failure;

/// A check that needs a script call, with its place among the decisions.
struct PlacedCheck<'a> {
    place: usize,
    check: Check<'a>,
    limits: ScriptLimits,
}

impl PlacedCheck<'_> {
    fn op(&self) -> KeyOp<'_> {
        KeyOp { limits: &self.limits, op: Op::Check { cost: self.check.cost.get() } }
    }
}

impl Inner {
    /// Decides many checks within one deadline. Returns the decisions in the order of `keys`.
    pub(super) async fn check_many(
        self: &Arc<Self>,
        keys: &[(&[u8], Option<&RedisTier>)],
        cost: Cost,
    ) -> Vec<Decision> {
        let now = Instant::now();
        let until = self.redis.deadline(now);
        let mut decisions: Vec<(usize, Decision)> = Vec::with_capacity(keys.len());
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for (place, &(key, tier)) in keys.iter().enumerate() {
            if let Some(denial) = self.check_cached(key, tier, cost) {
                decisions.push((place, denial));
                continue;
            }
            self.counts.not_cached.fetch_add(1, Ordering::Relaxed);
            let check = Check { key, tier, cost, tiered_key: self.tiered_key(key, tier), until };
            let limits = self.limits(tier);
            match self.check_memory(check, now) {
                Memory::Allowed(decision) => decisions.push((place, decision)),
                Memory::Unknown => together.push(PlacedCheck { place, check, limits }),
                Memory::LeaseEmpty(entry) if !self.is_worth_lease(&entry, cost, &limits) => {
                    together.push(PlacedCheck { place, check, limits });
                }
                memory => alone.push(Box::pin(async move {
                    (place, self.check_beyond_memory(memory, check, now).await)
                })),
            }
        }
        let (together, alone) = join(self.check_together(&together, until), join_all(alone)).await;
        decisions.extend(together);
        decisions.extend(alone);
        decisions.sort_unstable_by_key(|(place, _)| *place);
        let mut decisions: Vec<Decision> =
            decisions.into_iter().map(|(_, decision)| decision).collect();
        self.order_repeated(keys, &mut decisions);
        decisions
    }

    /// Orders the decisions of a key that occurs several times as if its checks were made in order.
    /// Calls that are in flight together may be executed in any order, but the checks are alike.
    fn order_repeated(&self, keys: &[(&[u8], Option<&RedisTier>)], decisions: &mut [Decision]) {
        let tiered_key = |(key, tier): &(&[u8], Option<&RedisTier>)| self.tiered_key(key, *tier);
        let mut places: Vec<(TieredKey, usize)> =
            keys.iter().map(tiered_key).zip(0..decisions.len()).collect();
        places.sort_unstable();
        for same in places.chunk_by(|(one, _), (other, _)| one == other) {
            if let [_] = same {
                continue;
            }
            let take = |(_, place): &(_, usize)| {
                let empty = Decision::new(Outcome::Deny, &[], None);
                core::mem::replace(&mut decisions[*place], empty)
            };
            let mut ordered: Vec<Decision> = same.iter().map(take).collect();
            ordered.sort_by_key(|decision| Reverse((decision.is_allowed(), decision.remaining())));
            for ((_, place), decision) in same.iter().zip(ordered) {
                decisions[*place] = decision;
            }
        }
    }

    /// Sends checks in as few calls as possible.
    async fn check_together(
        self: &Arc<Self>,
        checks: &[PlacedCheck<'_>],
        until: Instant,
    ) -> Vec<(usize, Decision)> {
        if Handle::try_current().is_err() {
            let degrade = |PlacedCheck { place, check, .. }: &PlacedCheck<'_>| {
                let failure = Failure::no_runtime();
                (*place, self.degrade(check.key, check.tier, check.cost, &failure))
            };
            return checks.iter().map(degrade).collect();
        }
        let sent = checks.iter().map(|placed| (self.name(placed.check.key), placed.op())).collect();
        let replies = self.redis.send_many(sent);
        let receive = async |(placed, pending): (&PlacedCheck<'_>, _)| {
            let PlacedCheck { place, check, limits } = placed;
            let called = self.receive(pending, check.key, placed.op(), until).await;
            (*place, self.conclude(*check, limits, called))
        };
        join_all(checks.iter().zip(replies).map(receive)).await
    }

    fn is_worth_lease(&self, entry: &LeaseEntry, cost: Cost, limits: &ScriptLimits) -> bool {
        let leases = self.leases.as_ref();
        leases
            .is_some_and(|leases| leases.wanted(entry, cost.get(), limits.least_limit()).is_some())
    }
}
