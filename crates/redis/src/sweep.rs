//! Removal of keys whose policies no longer exist.

use core::time::Duration;

use redis::Value;
use slidegate::Error;

use crate::redis::Redis;
use crate::servers::{Failure, Node};

/// What a sweep has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// Our keys that were looked at.
    pub keys: u64,
    /// Keys of policies that are not known any more.
    pub orphans: u64,
    /// Of these, keys that were removed.
    pub removed: u64,
}

/// Keys looked at in one step; between two steps others have their turn.
const STEP: usize = 512;
const PAUSE: Duration = Duration::from_millis(1);

impl Redis {
    /// Looks through our keys for those of policies not in `policies`, and removes them if `remove`
    /// is set.
    ///
    /// They would expire by themselves, so this is for removing long windows early. It works in
    /// small steps that other users of the servers hardly notice. Keys of a known policy under
    /// another algorithm are kept.
    ///
    /// # Errors
    ///
    /// When a server gave no answer. What was removed until then stays removed.
    pub async fn sweep<P: AsRef<str>>(
        &self,
        policies: &[P],
        remove: bool,
    ) -> Result<SweepReport, Error> {
        let known: Vec<&str> = policies.iter().map(AsRef::as_ref).collect();
        let mut report = SweepReport::default();
        for node in self.shared.servers.primaries().await? {
            self.sweep_node(&node, &known, remove, &mut report).await?;
        }
        Ok(report)
    }

    async fn sweep_node(
        &self,
        node: &std::sync::Arc<Node>,
        known: &[&str],
        remove: bool,
        report: &mut SweepReport,
    ) -> Result<(), Failure> {
        let (names, servers) = (&self.shared.names, &self.shared.servers);
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            // The prefix is ours and has no sign that means something in a pattern.
            scan.arg(&cursor).arg("MATCH").arg(format!("{}*", names.start()));
            scan.arg("COUNT").arg(STEP);
            let answer = node.query(&scan, servers.query_deadline()).await?;
            let (next, found) = read_scan(answer)?;
            for name in found {
                let Some(policy) = names.policy_of(&name) else {
                    continue;
                };
                report.keys += 1;
                if known.contains(&policy) {
                    continue;
                }
                report.orphans += 1;
                if remove {
                    let mut unlink = redis::cmd("UNLINK");
                    unlink.arg(name.as_slice());
                    let gone = node.query(&unlink, servers.query_deadline()).await?;
                    report.removed += u64::from(gone == Value::Int(1));
                }
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn read_scan(answer: Value) -> Result<(String, Vec<Vec<u8>>), Failure> {
    redis::from_redis_value(answer)
        .map_err(|error| Failure::bad_reply(format!("SCAN answered no keys: {error}")))
}
