//! Removal of keys whose policies no longer exist.

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
    /// Keys of policies that are not known any more.
    pub orphans: u64,
    /// Of these, keys that were removed.
    pub removed: u64,
    /// Keys of known policies that never expire. Slidegate always sets a TTL, so another program has
    /// removed it. They are kept, because they may still count: a check of the key sets the TTL again.
    pub without_ttl: u64,
    /// The number of orphans per policy, for at most 1000 policies.
    pub orphans_by_policy: BTreeMap<String, u64>,
}

/// How a sweep works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepOptions {
    /// Whether orphans are removed; otherwise they are only counted.
    pub remove: bool,
    /// The maximum number of keys that are examined per second; 10,000 by default.
    pub keys_per_second: u32,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self { remove: false, keys_per_second: 10_000 }
    }
}

impl SweepOptions {
    /// Removes orphans instead of only counting them.
    #[must_use]
    pub fn remove(mut self, remove: bool) -> Self {
        self.remove = remove;
        self
    }

    /// Examines at most this many keys per second, at least one.
    #[must_use]
    pub fn keys_per_second(mut self, keys: u32) -> Self {
        self.keys_per_second = keys.max(1);
        self
    }
}

/// Keys that a server examines in one step. Between two steps, other clients are served.
const STEP: u32 = 512;
/// Commands about single keys that are in flight at a time.
const IN_FLIGHT: usize = 64;
/// The maximum number of policies in a report.
const POLICIES_MAX: usize = 1000;

impl Redis {
    /// Looks through our keys for those of policies not in `policies`, and removes them if `remove`
    /// is set.
    ///
    /// The same as [`sweep_with`](Redis::sweep_with) with the default options.
    ///
    /// # Errors
    ///
    /// When a server gave no answer. What was removed until then stays removed.
    pub async fn sweep<P: AsRef<str>>(
        &self,
        policies: &[P],
        remove: bool,
    ) -> Result<SweepReport, Error> {
        self.sweep_with(policies, SweepOptions::default().remove(remove), |_| {}).await
    }

    /// Looks through our keys for those of policies not in `policies`.
    ///
    /// They would expire by themselves, so this is for removing long windows early. Every process that
    /// uses the prefix must be considered: keys of a policy that only another process knows are orphans
    /// here. Keys of a known policy under another algorithm are kept.
    ///
    /// `progress` is called after each step of 512 keys.
    ///
    /// # Errors
    ///
    /// When a server gave no answer. What was removed until then stays removed.
    pub async fn sweep_with<P: AsRef<str>>(
        &self,
        policies: &[P],
        options: SweepOptions,
        mut progress: impl FnMut(&SweepReport),
    ) -> Result<SweepReport, Error> {
        let known: Vec<&str> = policies.iter().map(AsRef::as_ref).collect();
        let mut report = SweepReport::default();
        for node in self.shared.servers.primaries().await? {
            self.sweep_node(&node, &known, options, &mut report, &mut progress).await?;
        }
        Ok(report)
    }

    async fn sweep_node(
        &self,
        node: &Arc<Node>,
        known: &[&str],
        options: SweepOptions,
        report: &mut SweepReport,
        progress: &mut impl FnMut(&SweepReport),
    ) -> Result<(), Failure> {
        let (names, servers) = (&self.shared.names, &self.shared.servers);
        let step = STEP.min(options.keys_per_second.max(1));
        let mut cursor = "0".to_owned();
        loop {
            let began = Instant::now();
            let mut scan = redis::cmd("SCAN");
            // The prefix is ours and has no sign that means something in a pattern.
            scan.arg(&cursor).arg("MATCH").arg(format!("{}*", names.start()));
            scan.arg("COUNT").arg(step);
            let answer = node.query(&scan, servers.query_deadline()).await?;
            let (next, found) = read_scan(answer)?;
            let (mut orphans, mut kept) = (Vec::new(), Vec::new());
            for name in found {
                let Some(policy) = names.policy_of(&name) else { continue };
                report.keys += 1;
                if known.contains(&policy) {
                    kept.push(command("PTTL", &name));
                    continue;
                }
                report.note_orphan(policy);
                orphans.push(command("UNLINK", &name));
            }
            if options.remove {
                report.removed += self.count(node, orphans, 1).await?;
            }
            report.without_ttl += self.count(node, kept, -1).await?;
            progress(report);
            if next == "0" {
                return Ok(());
            }
            cursor = next;
            let pace = Duration::from_secs(1) * step / options.keys_per_second.max(1);
            sleep(pace.saturating_sub(began.elapsed()).max(Duration::from_millis(1))).await;
        }
    }

    /// Sends commands and returns how many replied with this number.
    async fn count(
        &self,
        node: &Arc<Node>,
        commands: Vec<Cmd>,
        wanted: i64,
    ) -> Result<u64, Failure> {
        let mut commands = commands.into_iter();
        let mut count = 0;
        loop {
            let mut calls = JoinSet::new();
            for command in commands.by_ref().take(IN_FLIGHT) {
                let (node, until) = (Arc::clone(node), self.shared.servers.query_deadline());
                calls.spawn(async move { node.query(&command, until).await });
            }
            if calls.is_empty() {
                return Ok(count);
            }
            while let Some(replied) = calls.join_next().await {
                let reply = replied.map_err(|error| Failure::bad_reply(error.to_string()))??;
                count += u64::from(reply == Value::Int(wanted));
            }
        }
    }
}

impl SweepReport {
    fn note_orphan(&mut self, policy: &str) {
        self.orphans += 1;
        if let Some(count) = self.orphans_by_policy.get_mut(policy) {
            *count += 1;
        } else if self.orphans_by_policy.len() < POLICIES_MAX {
            self.orphans_by_policy.insert(policy.to_owned(), 1);
        }
    }
}

fn command(name: &str, key: &[u8]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

fn read_scan(answer: Value) -> Result<(String, Vec<Vec<u8>>), Failure> {
    redis::from_redis_value(answer)
        .map_err(|error| Failure::bad_reply(format!("invalid reply to SCAN: {error}")))
}
