//! Batching: independent checks that share one script call.
//!
//! Calling a script and reading the clock is about 40 % of the server's work for one check. So
//! while other calls are in flight, new checks are collected for one turn of the async scheduler
//! and then sent as one call. There is no timer, no check waits for another call's reply, and a
//! check that finds nothing in flight is sent immediately.

use core::mem;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::Value;
use slidegate::DegradedReason;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::redis::Redis;
use crate::script::{self, KeyOp, ScriptKind};
use crate::servers::{Failure, FailureKind, RawReply, slot_of, within};

/// Collects concurrent checks, in one queue per script because a call runs a single script.
#[derive(Debug)]
pub(crate) struct Batcher {
    queues: [BatchQueue; BATCHED_KINDS.len()],
    /// Maximum number of checks per call. 1 disables batching.
    checks_per_call_max: usize,
}

#[derive(Debug)]
struct BatchQueue {
    kind: ScriptKind,
    pending: Mutex<Vec<PendingCheck>>,
}

/// A check that waits to be sent.
#[derive(Debug)]
struct PendingCheck {
    name: Vec<u8>,
    argument: Vec<u8>,
    queued: Instant,
    /// Closed if the caller has given up or was dropped; such a check is not sent.
    reply: oneshot::Sender<CallResult>,
}

/// The receiver of the reply to a check.
pub(crate) struct PendingReply(oneshot::Receiver<CallResult>);

impl PendingCheck {
    fn new(name: Vec<u8>, op: &KeyOp<'_>) -> (Self, PendingReply) {
        let (reply, received) = oneshot::channel();
        let queued = Instant::now();
        (Self { name, argument: op.argument(true), queued, reply }, PendingReply(received))
    }
}

impl PendingReply {
    /// Waits for the reply; the call has a deadline. Returns `None` if the check has to be sent
    /// alone: nothing was done for it.
    pub(crate) async fn receive(self) -> Option<CallResult> {
        let result = self.0.await.unwrap_or_else(|_| {
            let why = "the runtime ended before the reply arrived";
            Err(Failure::unknown(DegradedReason::NoRuntime, why))
        });
        match &result {
            Ok(RawReply { value: Value::BulkString(bytes), .. }) if bytes == script::ALONE => None,
            Err(failure) if failure.kind == FailureKind::KeysSplit => None,
            _ => Some(result),
        }
    }
}

type CallResult = Result<RawReply, Failure>;

/// The scripts with a fast path.
const BATCHED_KINDS: [ScriptKind; 4] =
    [ScriptKind::Log, ScriptKind::Counter, ScriptKind::Gcra, ScriptKind::Fixed];

impl Batcher {
    pub(crate) fn new(checks_per_call_max: usize) -> Self {
        let queue = |kind| BatchQueue { kind, pending: Mutex::default() };
        Self { queues: BATCHED_KINDS.map(queue), checks_per_call_max }
    }

    fn queue(&self, kind: ScriptKind) -> Option<&BatchQueue> {
        self.queues.iter().find(|queue| queue.kind == kind).filter(|_| self.checks_per_call_max > 1)
    }
}

impl Redis {
    /// Sends a check in one call with others. The caller has its turn. Returns `None` if the
    /// operation has to be sent alone.
    pub(crate) async fn call_in_batch(
        &self,
        name: &[u8],
        op: &KeyOp<'_>,
        until: Instant,
    ) -> Option<CallResult> {
        let servers = &self.shared.servers;
        if !op.can_batch() || servers.is_cluster() {
            return None;
        }
        let (now, call) = (Instant::now(), servers.timing.call);
        // A check with little time left cannot wait for a call with a whole deadline.
        if until.saturating_duration_since(now) < call / 4 * 3 {
            return None;
        }
        let queue = self.shared.batcher.queue(op.limits.kind())?;
        let (check, reply) = PendingCheck::new(name.to_vec(), op);
        self.enqueue(queue, check, call / 2);
        // Another runtime may send the check, and end or block before it does.
        let unsent = || {
            let why = "a call with other checks did not reply in time";
            Some(Err(Failure::unknown(DegradedReason::Timeout, why)))
        };
        within(call, &mut (now + call * 2), reply.receive()).await.unwrap_or_else(unsent)
    }

    /// Sends independent checks of one kind at once, in as few calls as possible. Returns where the
    /// reply to each of them arrives, or `None` for those that have to be sent alone.
    pub(crate) fn send_many(&self, checks: Vec<(Vec<u8>, KeyOp<'_>)>) -> Vec<Option<PendingReply>> {
        let is_cluster = self.shared.servers.is_cluster();
        let mut replies = Vec::with_capacity(checks.len());
        // A script can have keys of one slot only.
        let mut groups: BTreeMap<u16, (ScriptKind, Vec<PendingCheck>)> = BTreeMap::new();
        for (name, op) in checks {
            let kind = op.limits.kind();
            if !op.can_batch() || self.shared.batcher.queue(kind).is_none() {
                replies.push(None);
                continue;
            }
            let slot = if is_cluster { slot_of(&name) } else { 0 };
            let (check, reply) = PendingCheck::new(name, &op);
            replies.push(Some(reply));
            let (_, group) = groups.entry(slot).or_insert_with(|| (kind, Vec::new()));
            group.push(check);
            if group.len() >= self.shared.batcher.checks_per_call_max {
                self.spawn_batch(kind, mem::take(group));
            }
        }
        for (kind, group) in groups.into_values() {
            if !group.is_empty() {
                self.spawn_batch(kind, group);
            }
        }
        replies
    }

    /// Sends checks in one call that counts as in flight.
    fn spawn_batch(&self, kind: ScriptKind, checks: Vec<PendingCheck>) {
        let redis = self.clone();
        tokio::spawn(async move {
            match redis.shared.servers.enter(Instant::now()).await {
                Ok(_turn) => redis.send_batch(kind, checks).await,
                Err(failure) => {
                    for check in checks {
                        let _ = check.reply.send(Err(failure.clone()));
                    }
                }
            }
        });
    }

    /// Adds a check to a queue. The first check of a queue starts the task that sends all of them.
    /// If it has been waiting for `stalled`, that task's runtime has ended or is blocked, and the new
    /// check starts another one.
    fn enqueue(&self, queue: &BatchQueue, check: PendingCheck, stalled: Duration) {
        let mut pending = queue.pending.lock();
        let starts_task = pending.first().is_none_or(|first| first.queued + stalled < check.queued);
        pending.push(check);
        let is_full = pending.len() >= self.shared.batcher.checks_per_call_max;
        let full = is_full.then(|| mem::take(&mut *pending));
        drop(pending);
        let (redis, kind) = (self.clone(), queue.kind);
        // On a separate task, so that a dropped caller does not cancel the call of the others.
        if let Some(checks) = full {
            tokio::spawn(async move { redis.send_batch(kind, checks).await });
        } else if starts_task {
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                let queue = redis.shared.batcher.queue(kind);
                let checks = queue.map(|queue| mem::take(&mut *queue.pending.lock()));
                redis.send_batch(kind, checks.unwrap_or_default()).await;
            });
        }
    }

    /// Sends all checks in one call, and each reply to its caller.
    async fn send_batch(&self, kind: ScriptKind, mut checks: Vec<PendingCheck>) {
        // A check whose caller was dropped is not charged.
        checks.retain(|check| !check.reply.is_closed());
        if checks.is_empty() {
            return;
        }
        let (mut names, mut arguments, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        for PendingCheck { name, argument, reply, .. } in checks {
            names.push(name);
            arguments.push(argument);
            senders.push(reply);
        }
        arguments.extend(self.test_time().map(script::time));
        let callers = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let script = script::batch_script(kind).filter(|_| callers > 1);
        let script = script.unwrap_or_else(|| script::script(kind));
        let servers = &self.shared.servers;
        let until = Instant::now() + servers.timing.call;
        let result = servers.run_script(callers, script, &names, &arguments, until).await;
        for (result, sender) in split(result, senders.len()).zip(senders) {
            // A caller that was dropped has still been charged.
            let _ = sender.send(result);
        }
    }
}

/// Returns the result for each of `count` callers.
fn split(result: CallResult, count: usize) -> Box<dyn Iterator<Item = CallResult> + Send> {
    match result {
        Ok(RawReply { value: Value::Array(values), sent, node }) if values.len() == count => {
            let reply = move |value| Ok(RawReply { value, sent, node: Arc::clone(&node) });
            Box::new(values.into_iter().map(reply))
        }
        Ok(reply) if count > 1 => {
            reply.node.distrust();
            let failure = Failure::unknown(DegradedReason::BadReply, "one reply to many checks");
            Box::new(core::iter::repeat_n(Err(failure), count))
        }
        Ok(reply) => Box::new(core::iter::repeat_n(Ok(reply), count)),
        Err(failure) => Box::new((0..count).map(move |place| Err(failure.clone().of_check(place)))),
    }
}

#[cfg(test)]
mod tests;
