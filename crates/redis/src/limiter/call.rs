//! Script calls: one operation on one key, or several operations in one call.
//!
//! [`Inner::run_op`] sets the deadline, [`Inner::run_op_until`] counts the call as in flight and
//! joins a batch, [`Redis::call_script`] sends the script and parses its reply.

use core::time::Duration;

use slidegate::DegradedReason;
use tokio::time::Instant;

use super::Inner;
use crate::batcher::PendingReply;
use crate::deny::ReplyTimes;
use crate::redis::Redis;
use crate::script::{self, KeyOp, KeyReply, Op, ScriptKind, ScriptLimits};
use crate::servers::{ClockReading, Failure, RawReply, Turn};

/// The reply for one key, and when the call was sent and answered.
#[derive(Debug)]
pub(super) struct TimedReply {
    pub(super) reply: KeyReply,
    pub(super) times: ReplyTimes,
}

impl Inner {
    /// Runs an operation on one key, within the deadline of a call that starts now.
    pub(super) async fn run_op(
        &self,
        key: &[u8],
        limits: &ScriptLimits,
        op: Op<'_>,
    ) -> Result<TimedReply, Failure> {
        self.run_op_until(key, limits, op, self.redis.deadline(Instant::now())).await
    }

    /// Runs an operation on one key, in a batch if other calls are in flight.
    pub(super) async fn run_op_until(
        &self,
        key: &[u8],
        limits: &ScriptLimits,
        op: Op<'_>,
        until: Instant,
    ) -> Result<TimedReply, Failure> {
        let turn = self.redis.shared.servers.enter(until).await?;
        self.run_op_in_turn(key, limits, op, &turn).await
    }

    /// Runs an operation on one key for a caller that has its turn.
    pub(super) async fn run_op_in_turn(
        &self,
        key: &[u8],
        limits: &ScriptLimits,
        op: Op<'_>,
        turn: &Turn<'_>,
    ) -> Result<TimedReply, Failure> {
        let (name, op) = (self.name(key), KeyOp { limits, op });
        let batched = if turn.is_busy {
            self.redis.call_in_batch(&name, &op, turn.until).await
        } else {
            None
        };
        let (replies, times) = match batched {
            Some(raw) => self.redis.read_reply(raw?, &[op])?,
            None => {
                let until = self.redis.half_left(turn.until);
                self.redis.call_script(&[name], &[op], until).await?
            }
        };
        TimedReply::of_one(replies, times)
    }

    /// Waits for the reply to a check that was sent together with others, or sends it alone.
    pub(super) async fn receive(
        &self,
        pending: Option<PendingReply>,
        key: &[u8],
        op: KeyOp<'_>,
        until: Instant,
    ) -> Result<TimedReply, Failure> {
        let batched = match pending {
            Some(pending) => pending.receive().await,
            None => None,
        };
        let (replies, times) = match batched {
            Some(raw) => self.redis.read_reply(raw?, &[op])?,
            None => {
                let until = self.redis.half_left(until);
                let turn = self.redis.shared.servers.enter(until).await?;
                self.redis.call_script(&[self.name(key)], &[op], turn.until).await?
            }
        };
        TimedReply::of_one(replies, times)
    }

    /// The name of a key in Redis.
    pub(super) fn name(&self, key: &[u8]) -> Vec<u8> {
        self.redis.shared.names.name(&self.stored_as, key, self.secret_keys)
    }
}

impl TimedReply {
    fn of_one(mut replies: Vec<KeyReply>, times: ReplyTimes) -> Result<Self, Failure> {
        let missing = || Failure::bad_reply("the script replied nothing for the key");
        Ok(Self { reply: replies.pop().ok_or_else(missing)?, times })
    }
}

impl Redis {
    /// Runs operations on keys of one slot in one script call. Returns one reply per key.
    pub(super) async fn run_ops(
        &self,
        names: &[Vec<u8>],
        ops: &[KeyOp<'_>],
        until: Instant,
    ) -> Result<(Vec<KeyReply>, ReplyTimes), Failure> {
        let turn = self.shared.servers.enter(until).await?;
        self.call_script(names, ops, turn.until).await
    }

    /// The deadline of a call that starts `now`.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        now + self.shared.servers.timing.call
    }

    /// Returns the deadline of a call that follows others, of which at least half is left: the runtime
    /// may have been late.
    pub(super) fn half_left(&self, until: Instant) -> Instant {
        until.max(Instant::now() + self.shared.servers.timing.call / 2)
    }

    /// Sends the script for `ops`. The caller has a turn of [`Servers::enter`].
    ///
    /// [`Servers::enter`]: crate::servers::Servers::enter
    async fn call_script(
        &self,
        names: &[Vec<u8>],
        ops: &[KeyOp<'_>],
        until: Instant,
    ) -> Result<(Vec<KeyReply>, ReplyTimes), Failure> {
        let arguments = script::arguments(ops, self.test_time());
        let script = script::script(ScriptKind::of(ops));
        let raw = self.shared.servers.run_script(1, script, names, &arguments, until).await?;
        self.read_reply(raw, ops)
    }

    /// Parses a reply that has just arrived, one [`KeyReply`] per operation.
    pub(super) fn read_reply(
        &self,
        raw: RawReply,
        ops: &[KeyOp<'_>],
    ) -> Result<(Vec<KeyReply>, ReplyTimes), Failure> {
        let received = Instant::now();
        let reply = script::parse(raw.value, ops).map_err(|error| {
            raw.node.distrust();
            let why = format!("the reply is malformed: {error}");
            Failure::unknown(DegradedReason::BadReply, why)
        })?;
        self.shared.outage.note_reply();
        // The clocks of different nodes may differ.
        if self.test_time().is_none() && self.shared.servers.knows_nodes() {
            let server = reply.server_time;
            raw.node.note_time(ClockReading { server, sent: raw.sent, received });
        }
        let into_tick =
            ops.first().map_or(Duration::ZERO, |op| op.limits.within_tick(reply.server_time));
        let times = ReplyTimes { sent: raw.sent, received, server: reply.server_time, into_tick };
        Ok((reply.keys, times))
    }

    #[cfg(feature = "test-clock")]
    pub(crate) fn test_time(&self) -> Option<Duration> {
        use slidegate::Clock;
        self.shared.clock.as_ref().map(|clock| Duration::from_nanos(clock.now()))
    }

    #[cfg(not(feature = "test-clock"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the test clock")]
    pub(crate) fn test_time(&self) -> Option<Duration> {
        None
    }
}
