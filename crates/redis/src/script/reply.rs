//! The replies of the scripts.

use core::time::Duration;

use redis::Value;
use slidegate::{Decision, Error, ErrorKind, Outcome, Quota, QuotaDecision, Receipt, RetryAfter};

use super::{KeyOp, Op};
use crate::servers::Failure;

/// The server's time, and one reply per operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptReply {
    pub(crate) server_time: Duration,
    pub(crate) keys: Vec<KeyReply>,
}

/// The reply for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyReply {
    /// To a check, a peek, a lease or a check of at most n units.
    Decision {
        allowed: bool,
        /// The key is blocked.
        blocked: bool,
        /// Tick, epoch and units for the receipt. Zero if nothing was taken.
        tick: u64,
        epoch: u16,
        units: u64,
        quotas: Vec<QuotaDecision>,
        /// Units that count against each quota; more than the limit if there is debt.
        used: Vec<u64>,
    },
    /// Units given back, or charged.
    Units(u64),
    /// Whether there was anything to reset, or a block.
    Found(bool),
    /// A page of the entries that count, oldest first.
    History(HistoryPage),
}

/// Entries of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HistoryPage {
    /// Ticks and units, oldest first. No tick occurs twice.
    pub(crate) entries: Vec<(u64, u64)>,
    /// Where the next page starts; `None` if this is the last.
    pub(crate) next: Option<u64>,
}

impl KeyReply {
    /// The decision for a key with this fingerprint.
    pub(crate) fn decision(&self, fingerprint: u64) -> Result<Decision, Failure> {
        match self {
            Self::Decision { allowed: true, tick, epoch, units, quotas, .. } => {
                let taken = *units > 0;
                let receipt = taken.then(|| Receipt::new(fingerprint, *units, *tick, *epoch));
                Ok(Decision::new(Outcome::Allow, quotas, receipt))
            }
            Self::Decision { allowed: false, blocked, quotas, .. } => {
                let denial = Decision::new(Outcome::Deny, quotas, None);
                // Its waits are those of the block already.
                Ok(if *blocked { denial.into_blocked(Duration::ZERO) } else { denial })
            }
            other => Err(other.unexpected()),
        }
    }

    /// Whether units were taken from a key that was empty.
    pub(crate) fn took_first_units(&self) -> bool {
        matches!(self, Self::Decision { units, used, .. }
            if *units > 0 && used.iter().all(|used| used == units))
    }

    /// Units given back, or charged.
    pub(crate) fn units(&self) -> Result<u64, Failure> {
        match self {
            Self::Units(units) => Ok(*units),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the failure for a reply that belongs to another operation.
    #[cold]
    pub(crate) fn unexpected(&self) -> Failure {
        Failure::bad_reply(format!(
            "the reply of the script belongs to another operation: {self:?}"
        ))
    }
}

/// The wait that never ends, and the first number that is not exact.
const HUGE: u64 = Quota::LIMIT_MAX + 1;

/// The outcomes of a decision. 0 is denied, 1 is allowed.
const TAKEN: u64 = 2;
const BLOCKED: u64 = 3;

/// Parses a reply.
///
/// # Errors
///
/// When it is not what `main.lua` replies to these operations.
pub(crate) fn parse(reply: Value, ops: &[KeyOp<'_>]) -> Result<ScriptReply, Error> {
    let bytes = match reply {
        Value::BulkString(bytes) => bytes,
        Value::ServerError(error) => {
            return Err(Error::new(ErrorKind::Store, format!("the script failed: {error}")));
        }
        other => {
            let shown: String = format!("{other:?}").chars().take(40).collect();
            return Err(malformed(&format!("expected bytes, got {shown}")));
        }
    };
    let mut reader = ReplyReader(&bytes);
    let server_time = Duration::from_micros(reader.number::<7>()?);
    let keys = ops.iter().map(|op| reader.key_reply(op)).collect::<Result<_, _>>()?;
    match reader.0.len() {
        0 => Ok(ScriptReply { server_time, keys }),
        rest => Err(malformed(&format!("{rest} bytes too many"))),
    }
}

/// Returns whether each check of a call has taken its units. Of keys that were decided together, the
/// first is considered: either all are taken or none, unless a policy is in shadow mode.
pub(crate) fn taken(reply: &Value) -> Vec<bool> {
    let has_taken = |reply: &Value| match reply {
        Value::BulkString(bytes) => bytes.get(7).is_some_and(|byte| u64::from(*byte) == TAKEN),
        _ => false,
    };
    match reply {
        Value::Array(replies) => replies.iter().map(has_taken).collect(),
        reply => vec![has_taken(reply)],
    }
}

#[cold]
fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Store, format!("malformed script reply: {what}"))
}

/// The part of a reply that has not been parsed yet.
struct ReplyReader<'a>(&'a [u8]);

impl ReplyReader<'_> {
    /// The next number of `N` bytes, little-endian.
    fn number<const N: usize>(&mut self) -> Result<u64, Error> {
        let (number, rest) =
            self.0.split_first_chunk::<N>().ok_or_else(|| malformed("too few bytes"))?;
        self.0 = rest;
        Ok(number.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The next byte, which is `most` or less.
    fn byte_up_to(&mut self, most: u64) -> Result<u64, Error> {
        match self.number::<1>()? {
            byte if byte <= most => Ok(byte),
            other => Err(malformed(&format!("expected 0 to {most}, got {other}"))),
        }
    }

    fn key_reply(&mut self, op: &KeyOp<'_>) -> Result<KeyReply, Error> {
        match op.op {
            Op::Check { .. }
            | Op::Shadow { .. }
            | Op::Peek { .. }
            | Op::Lease { .. }
            | Op::AtMost { .. } => self.decision(op),
            Op::Charge { .. } | Op::Refund { .. } | Op::Forgive { .. } => {
                Ok(KeyReply::Units(self.number::<7>()?))
            }
            Op::Reset | Op::Block { .. } | Op::Unblock => {
                Ok(KeyReply::Found(self.byte_up_to(1)? == 1))
            }
            Op::History { .. } => self.history(),
        }
    }

    fn decision(&mut self, op: &KeyOp<'_>) -> Result<KeyReply, Error> {
        let outcome = self.byte_up_to(BLOCKED)?;
        let limits = &op.limits.limits;
        let mut quotas = Vec::with_capacity(limits.len());
        let mut used = Vec::with_capacity(limits.len());
        for limit in limits {
            let count = self.count()?;
            let retry = if outcome == TAKEN { 0 } else { self.number::<7>()? };
            let reset = op.limits.duration(self.number::<7>()?);
            let retry =
                if retry < HUGE { op.limits.duration(retry).into() } else { RetryAfter::Never };
            quotas.push(QuotaDecision::new(*limit, limit.saturating_sub(count), retry, reset));
            used.push(count);
        }
        let (mut tick, mut epoch, mut units) = (0, 0, 0);
        if outcome == TAKEN {
            tick = self.number::<7>()?;
            epoch = u16::try_from(self.number::<2>()?).unwrap_or_default();
            units = match op.op {
                Op::Check { cost } | Op::Shadow { cost } | Op::Peek { cost } => cost,
                _ => self.number::<7>()?,
            };
        }
        let (allowed, blocked) = (matches!(outcome, 1 | TAKEN), outcome == BLOCKED);
        Ok(KeyReply::Decision { allowed, blocked, tick, epoch, units, quotas, used })
    }

    /// A count, which may be more than a script has exact numbers for.
    fn count(&mut self) -> Result<u64, Error> {
        let count = self.number::<7>()?;
        if count < HUGE {
            return Ok(count);
        }
        let times = self.number::<1>()?;
        Ok(times.saturating_mul(HUGE).saturating_add(self.number::<7>()?))
    }

    fn history(&mut self) -> Result<KeyReply, Error> {
        let count = usize::try_from(self.number::<4>()?).unwrap_or(usize::MAX);
        if count > self.0.len() / 14 {
            return Err(malformed("too few bytes"));
        }
        let mut entries: Vec<(u64, u64)> = Vec::with_capacity(count);
        for _ in 0..count {
            let tick = self.number::<7>()?;
            // A clock that went back near the epoch may have moved entries before it.
            let tick = if tick >> 55 == 0 { tick } else { 0 };
            let units = self.number::<7>()?;
            match entries.last_mut() {
                // More units of one tick than the header has room for have several codes.
                Some((last, sum)) if *last == tick => *sum = sum.saturating_add(units),
                _ => entries.push((tick, units)),
            }
        }
        let more = self.byte_up_to(1)? == 1;
        let next = entries.last().filter(|_| more).map(|(tick, _)| tick + 1);
        Ok(KeyReply::History(HistoryPage { entries, next }))
    }
}
