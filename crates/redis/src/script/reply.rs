//! What a script answers.

use core::time::Duration;

use redis::Value;
use slidegate::{Error, ErrorKind, Quota, QuotaDecision};

use super::{Ask, Op};

/// What a script replied: the server's time, and an answer for each ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) server_time: Duration,
    pub(crate) answers: Vec<Answer>,
}

/// The answer for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To a check, a peek or a lease.
    Decided {
        allowed: bool,
        /// What a receipt should name, if something was taken: tick, epoch and units.
        tick: u64,
        epoch: u16,
        units: u64,
        quotas: Vec<QuotaDecision>,
        /// Units that count against every quota; more than the limit if there is debt.
        used: Vec<u64>,
    },
    /// Units given back, or charged.
    Units(u64),
    /// Whether there was anything to forget.
    Found(bool),
    /// Ticks and units of the entries that count, oldest first.
    History(Vec<(u64, u64)>),
}

/// The wait that never ends, and the first number that is not exact.
const HUGE: u64 = Quota::LIMIT_MAX + 1;

/// The outcome that is allowed and has taken; 0 is denied, 1 is allowed.
const TAKEN: u64 = 2;

/// Reads a reply.
///
/// # Errors
///
/// When it is not what `main.lua` replies to these asks.
pub(crate) fn parse(reply: Value, asks: &[Ask<'_>]) -> Result<Reply, Error> {
    let bytes = match reply {
        Value::BulkString(bytes) => bytes,
        Value::ServerError(error) => {
            return Err(Error::new(ErrorKind::Store, format!("the script failed: {error}")));
        }
        other => {
            let kind = format!("{other:?}");
            let shown: String = kind.chars().take(40).collect();
            return Err(nonsense(&format!("{shown} instead of bytes")));
        }
    };
    let mut rest = Rest(&bytes);
    let server_time = Duration::from_micros(rest.number::<7>()?);
    let answers = asks.iter().map(|ask| rest.answer(ask)).collect::<Result<_, _>>()?;
    if rest.0.is_empty() {
        Ok(Reply { server_time, answers })
    } else {
        Err(nonsense(&format!("{} bytes too many", rest.0.len())))
    }
}

#[cold]
fn nonsense(what: &str) -> Error {
    let message = format!("the script replied {what}: is another version of it at work?");
    Error::new(ErrorKind::Store, message)
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// The next number of `N` bytes, least byte first.
    fn number<const N: usize>(&mut self) -> Result<u64, Error> {
        let (number, rest) =
            self.0.split_first_chunk::<N>().ok_or_else(|| nonsense("too few bytes"))?;
        self.0 = rest;
        Ok(number.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn flag(&mut self) -> Result<bool, Error> {
        match self.number::<1>()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(nonsense(&format!("{other} where 0 or 1 belongs"))),
        }
    }

    fn answer(&mut self, ask: &Ask<'_>) -> Result<Answer, Error> {
        match ask.op {
            Op::Check { .. } | Op::Shadow { .. } | Op::Peek { .. } | Op::Lease { .. } => {
                self.decided(ask)
            }
            Op::Charge { .. } | Op::Refund { .. } | Op::Forgive { .. } => {
                Ok(Answer::Units(self.number::<7>()?))
            }
            Op::Reset => Ok(Answer::Found(self.flag()?)),
            Op::History => self.history(),
        }
    }

    fn decided(&mut self, ask: &Ask<'_>) -> Result<Answer, Error> {
        let outcome = self.number::<1>()?;
        if outcome > TAKEN {
            return Err(nonsense(&format!("{outcome} where 0, 1 or 2 belongs")));
        }
        let limits = ask.limits.limits();
        let mut quotas = Vec::with_capacity(limits.len());
        let mut used = Vec::with_capacity(limits.len());
        for limit in limits {
            let count = self.count()?;
            let retry = if outcome == TAKEN { 0 } else { self.number::<7>()? };
            let reset = ask.limits.duration(self.number::<7>()?);
            let retry = (retry < HUGE).then(|| ask.limits.duration(retry));
            quotas.push(QuotaDecision::new(*limit, limit.saturating_sub(count), retry, reset));
            used.push(count);
        }
        let (mut tick, mut epoch, mut units) = (0, 0, 0);
        if outcome == TAKEN {
            tick = self.number::<7>()?;
            epoch = u16::try_from(self.number::<2>()?).unwrap_or_default();
            units = match ask.op {
                Op::Check { cost } | Op::Shadow { cost } | Op::Peek { cost } => cost,
                _ => self.number::<7>()?,
            };
        }
        Ok(Answer::Decided { allowed: outcome > 0, tick, epoch, units, quotas, used })
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

    fn history(&mut self) -> Result<Answer, Error> {
        let count = usize::try_from(self.number::<4>()?).unwrap_or(usize::MAX);
        if count > self.0.len() / 14 {
            return Err(nonsense("too few bytes"));
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let tick = self.number::<7>()?;
            // A clock that went back near the epoch may have moved entries before it.
            let tick = if tick >> 55 == 0 { tick } else { 0 };
            entries.push((tick, self.number::<7>()?));
        }
        Ok(Answer::History(entries))
    }
}
