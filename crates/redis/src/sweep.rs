//! Repair of keys without a TTL, and a count of keys whose policies are not known.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use redis::{Cmd, Value};
use slidegate::Error;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::redis::Redis;
use crate::servers::{Failure, Node};

/// What a sweep has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// Our keys that were examined.
    pub keys: u64,
    /// Of these, keys of policies that are not known here. They are never changed while they have a
    /// TTL: another process may count with them.
    pub unknown: u64,
    /// The number of unknown keys per policy, for at most 1000 policies.
    pub unknown_by_policy: BTreeMap<String, u64>,
    /// Keys without a TTL that got one. Slidegate always sets a TTL, so another program had removed it.
    pub repaired: u64,
    /// Keys without a TTL that were removed, because every unit in them had expired.
    pub removed: u64,
    /// Keys without a TTL that are named like ours, and whose content is not ours. They are kept.
    pub foreign: u64,
}

/// Keys that a server examines in one step. Between two steps, other clients are served.
const STEP: u32 = 512;
/// Commands about single keys that are in flight at a time.
const IN_FLIGHT: usize = 64;
/// The maximum number of policies in a report.
const POLICIES_MAX: usize = 1000;
/// Repairs one key.
pub(crate) const SCRIPT: &str = include_str!("sweep.lua");

impl Redis {
    /// Looks through our keys on every server. A key without a TTL would stay forever: it gets the one
    /// that its own content needs, and is removed if every unit in it has expired. All other keys expire
    /// by themselves and are only counted, also those of policies not in `policies`.
    ///
    /// It never removes a unit that counts, so it is safe at any time, whatever other processes use the
    /// prefix. At most `keys_per_second` keys are examined per second, at least one. `progress` is called
    /// after each step of up to 512 keys.
    ///
    /// # Errors
    ///
    /// Returns an error if a server did not reply. What was repaired until then stays repaired.
    pub async fn sweep<P: AsRef<str>>(
        &self,
        policies: &[P],
        keys_per_second: u32,
        mut progress: impl FnMut(&SweepReport),
    ) -> Result<SweepReport, Error> {
        let known: Vec<&str> = policies.iter().map(AsRef::as_ref).collect();
        let (per_second, mut report) = (keys_per_second.max(1), SweepReport::default());
        for node in self.shared.servers.primaries().await? {
            self.sweep_node(&node, &known, per_second, &mut report, &mut progress).await?;
        }
        Ok(report)
    }

    async fn sweep_node(
        &self,
        node: &Arc<Node>,
        known: &[&str],
        per_second: u32,
        report: &mut SweepReport,
        progress: &mut impl FnMut(&SweepReport),
    ) -> Result<(), Failure> {
        let (names, servers) = (&self.shared.names, &self.shared.servers);
        let step = STEP.min(per_second);
        let mut cursor = "0".to_owned();
        loop {
            let began = Instant::now();
            let mut scan = redis::cmd("SCAN");
            // The prefix is ours and has no sign that means something in a pattern.
            scan.arg(&cursor).arg("MATCH").arg(format!("{}*", names.start()));
            scan.arg("COUNT").arg(step);
            let answer = node.query(&scan, servers.query_deadline()).await?;
            let (next, found) = read_scan(answer)?;
            let ours: Vec<(Vec<u8>, u64)> = found
                .into_iter()
                .filter_map(|name| {
                    let (policy, tick) = names.policy_of(&name)?;
                    report.note(policy, known);
                    Some((name, tick))
                })
                .collect();
            let ttls = ours.iter().map(|(name, _)| pttl(name)).collect();
            let ttls = self.send_each(node, ttls).await?;
            let repairs = ours.iter().zip(ttls).filter(|(_, ttl)| *ttl == -1);
            let repairs = repairs.map(|((name, tick), _)| repair(name, *tick));
            for reply in self.send_each(node, repairs.collect()).await? {
                match reply {
                    1 => report.repaired += 1,
                    2 => report.removed += 1,
                    3 => report.foreign += 1,
                    _ => {}
                }
            }
            progress(report);
            if next == "0" {
                return Ok(());
            }
            cursor = next;
            let pace = Duration::from_secs(1) * step / per_second;
            sleep(pace.saturating_sub(began.elapsed()).max(Duration::from_millis(1))).await;
        }
    }

    /// Sends commands and returns their replies, which are numbers, in the same order.
    async fn send_each(&self, node: &Arc<Node>, commands: Vec<Cmd>) -> Result<Vec<i64>, Failure> {
        let mut replies = vec![0; commands.len()];
        let mut commands = commands.into_iter().enumerate();
        loop {
            let mut calls = JoinSet::new();
            for (place, command) in commands.by_ref().take(IN_FLIGHT) {
                let (node, until) = (Arc::clone(node), self.shared.servers.query_deadline());
                calls.spawn(async move { (place, node.query(&command, until).await) });
            }
            if calls.is_empty() {
                return Ok(replies);
            }
            while let Some(replied) = calls.join_next().await {
                let (place, reply) =
                    replied.map_err(|error| Failure::bad_reply(error.to_string()))?;
                if let Value::Int(number) = reply? {
                    replies[place] = number;
                }
            }
        }
    }
}

impl SweepReport {
    fn note(&mut self, policy: &str, known: &[&str]) {
        self.keys += 1;
        if known.contains(&policy) {
            return;
        }
        self.unknown += 1;
        if let Some(count) = self.unknown_by_policy.get_mut(policy) {
            *count += 1;
        } else if self.unknown_by_policy.len() < POLICIES_MAX {
            self.unknown_by_policy.insert(policy.to_owned(), 1);
        }
    }
}

fn pttl(key: &[u8]) -> Cmd {
    let mut command = redis::cmd("PTTL");
    command.arg(key);
    command
}

fn repair(key: &[u8], tick: u64) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(SCRIPT).arg(1).arg(key).arg(tick);
    command
}

fn read_scan(answer: Value) -> Result<(String, Vec<Vec<u8>>), Failure> {
    redis::from_redis_value(answer)
        .map_err(|error| Failure::bad_reply(format!("invalid reply to SCAN: {error}")))
}
