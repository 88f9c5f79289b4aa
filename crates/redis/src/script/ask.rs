//! What a script is asked, one for each key.

use core::time::Duration;

use slidegate::{Error, ErrorKind, Quota};

use super::ScriptLimits;

/// What is asked of one key, under which limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) limits: &'a ScriptLimits,
    pub(crate) op: Op,
}

/// What is asked.
///
/// Checks of several keys in one call take from all or from none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Takes if it fits.
    Check { cost: u64 },
    /// Takes if it fits, and stands in nobody's way if it does not: a check in shadow mode.
    Shadow { cost: u64 },
    /// Looks and takes nothing.
    Peek { cost: u64 },
    /// Takes as many as fit, from `units_min` up to `units_max`, dated so far ahead.
    Lease { units_min: u64, units_max: u64, ahead: Duration },
    /// Takes without asking: debt.
    Charge { cost: u64 },
    /// Gives back the very units that a receipt names.
    Refund { tick: u64, units: u64, epoch: u16 },
    /// Gives back units that no receipt names: the oldest that count, then the newest.
    Forgive { units: u64 },
    /// Forgets the key.
    Reset,
    /// Asks for the entries that count.
    History,
}

/// The most ticks that a lease may be dated ahead: a minute of milliseconds.
const AHEAD_MAX: u64 = u16::MAX as u64;

/// What is asked for beyond it, by several asks of one key: more than any limit.
const TOO_MANY: u64 = Quota::LIMIT_MAX + 1;

impl<'a> Ask<'a> {
    /// An ask that the algorithm can answer.
    ///
    /// # Errors
    ///
    /// When a lease is asked of other algorithms than log and GCRA, or for too far ahead, or a
    /// history of others than log.
    pub(crate) fn new(limits: &'a ScriptLimits, op: Op) -> Result<Self, Error> {
        if let Op::Lease { ahead, .. } = op
            && limits.ticks(ahead) > AHEAD_MAX
        {
            let most = limits.duration(AHEAD_MAX);
            let message = format!("lease of {ahead:?} is out of range: use at most {most:?}");
            return Err(Error::new(ErrorKind::Setting, message));
        }
        let lacking = match op {
            Op::Lease { .. } if !limits.can_lease() => "no leases: use Algorithm::Log or Gcra",
            Op::History if !limits.has_history() => "no history: use Algorithm::Log",
            _ => return Ok(Self { limits, op }),
        };
        let message = format!("{:?} keeps {lacking}", limits.kind());
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Whether it may be asked together with others that are independent of it.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self.op, Op::Check { .. }) && self.limits.is_simple()
    }

    /// The bytes of its argument where it is independent of all others.
    pub(crate) fn argument(&self) -> Vec<u8> {
        self.pack(true)
    }

    /// The bytes of one argument: `main.lua` says what they are.
    fn pack(&self, alone: bool) -> Vec<u8> {
        let (number, units, tick, epoch) = match self.op {
            Op::Check { cost } => (1, cost.min(TOO_MANY), 0, 0),
            Op::Shadow { cost } => (2, cost.min(TOO_MANY), 0, 0),
            Op::Peek { cost } => (3, cost.min(TOO_MANY), 0, 0),
            Op::Lease { units_min, units_max, ahead } => {
                let ahead = u16::try_from(self.limits.ticks(ahead)).unwrap_or(u16::MAX);
                (4, units_max.min(Quota::LIMIT_MAX), units_min, ahead)
            }
            Op::Charge { cost } => (5, cost.min(Quota::LIMIT_MAX), 0, 0),
            Op::Refund { tick, units, epoch } => (6, units.min(Quota::LIMIT_MAX), tick, epoch),
            Op::Reset => (7, 0, 0, 0),
            Op::History => (8, 0, 0, 0),
            Op::Forgive { units } => (9, units.min(Quota::LIMIT_MAX), 0, 0),
        };
        let mark = if alone && number <= 3 && self.limits.is_simple() { QUICK } else { 0 };
        let (front, back) = (self.limits.front(), self.limits.back());
        let mut bytes = Vec::with_capacity(17 + front.len() + back.len());
        bytes.push(number | mark);
        bytes.extend_from_slice(&units.to_le_bytes()[..7]);
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(&tick.min(Quota::LIMIT_MAX).to_le_bytes()[..7]);
        bytes.extend_from_slice(&epoch.to_le_bytes());
        bytes.extend_from_slice(back);
        bytes
    }
}

/// Says that a script's short cut may answer.
const QUICK: u8 = 64;

/// ARGV for asks, in the order of their keys. No key may be named twice.
///
/// With the feature `test-clock` a time since the Unix epoch may come last, for the script to
/// believe; without it there is no script that would read it.
pub(crate) fn arguments(asks: &[Ask<'_>], now: Option<Duration>) -> Vec<Vec<u8>> {
    asks.iter().map(|ask| ask.pack(asks.len() == 1)).chain(now.map(time)).collect()
}

/// A time as the scripts of tests read it.
pub(crate) fn time(now: Duration) -> Vec<u8> {
    now.as_micros().to_string().into_bytes()
}
