//! The operations of the scripts, and their arguments.

use core::time::Duration;

use slidegate::Quota;

use super::{ScriptKind, ScriptLimits};

/// An operation on one key, under these limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyOp<'a> {
    pub(crate) limits: &'a ScriptLimits,
    pub(crate) op: Op<'a>,
}

/// Units to record whether they fit or not, as debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) units: u64,
    /// The time since they were admitted, before the server's current time.
    pub(crate) age: Duration,
}

/// An operation of a script on a key.
///
/// Checks of several keys in one call take from all or from none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    /// Takes if it fits.
    Check { cost: u64 },
    /// A check in shadow mode: takes if it fits, and never denies the other keys of the call.
    Shadow { cost: u64 },
    /// Decides without taking units.
    Peek { cost: u64 },
    /// Takes as many units as fit, from `units_min` up to `units_max`, recorded `ahead` of now.
    Lease { units_min: u64, units_max: u64, ahead: Duration },
    /// Takes as many units as fit, from one up to `units_max`.
    AtMost { units_max: u64 },
    /// Records units whether they fit or not, oldest first. Units older than the longest window are
    /// not recorded. At most [`CHARGES_MAX`] per call; the script ignores the rest.
    Charge { charges: &'a [Charge] },
    /// Refunds exactly the units of a receipt.
    Refund { tick: u64, units: u64, epoch: u16 },
    /// Refunds units without a receipt: the oldest that count, then the newest.
    Forgive { units: u64 },
    /// Empties the key.
    Reset,
    /// Denies the key for a time.
    Block { time: Duration },
    /// Ends a block.
    Unblock,
    /// Lists a page of the entries that count, from a tick on.
    History { from: u64 },
}

/// Maximum number of charges in one call, which keeps the script short.
pub(crate) const CHARGES_MAX: usize = 128;

/// A cost above all limits: the sum of several checks of one key.
const TOO_MANY: u64 = Quota::LIMIT_MAX + 1;

/// Marks an operation that the fast path may decide.
const QUICK: u8 = 64;

impl KeyOp<'_> {
    /// Returns `true` if it may share a call with independent operations.
    pub(crate) fn can_batch(&self) -> bool {
        matches!(self.op, Op::Check { .. }) && self.limits.is_simple
    }

    /// Returns the bytes of its argument, as `main.lua` reads them. The fast path may decide an
    /// operation that is `alone`, which means independent of all others in the call.
    pub(crate) fn argument(&self, alone: bool) -> Vec<u8> {
        let (number, units, tick, epoch) = match self.op {
            Op::Check { cost } => (1, cost.min(TOO_MANY), 0, 0),
            Op::Shadow { cost } => (2, cost.min(TOO_MANY), 0, 0),
            Op::Peek { cost } => (3, cost.min(TOO_MANY), 0, 0),
            Op::Lease { units_min, units_max, ahead } => {
                let ahead = u16::try_from(self.limits.ticks(ahead)).unwrap_or(u16::MAX);
                (4, units_max.min(Quota::LIMIT_MAX), units_min, ahead)
            }
            Op::Charge { charges } => {
                let first = charges.first().map_or((0, 0), |charge| self.charge(charge));
                let further = charges.len().clamp(1, CHARGES_MAX) - 1;
                (5, first.0, first.1, u16::try_from(further).unwrap_or(u16::MAX))
            }
            Op::Refund { tick, units, epoch } => (6, units.min(Quota::LIMIT_MAX), tick, epoch),
            Op::Reset => (7, 0, 0, 0),
            Op::History { from } => (8, 0, from, 0),
            Op::Forgive { units } => (9, units.min(Quota::LIMIT_MAX), 0, 0),
            Op::AtMost { units_max } => (10, units_max.min(Quota::LIMIT_MAX), 0, 0),
            Op::Block { time } => (11, self.limits.ticks(time), 0, 0),
            Op::Unblock => (12, 0, 0, 0),
        };
        let mark = if alone && self.has_fast_path() { QUICK } else { 0 };
        let (front, back) = (&self.limits.front, &self.limits.back);
        let mut bytes = Vec::with_capacity(17 + front.len() + back.len());
        bytes.push(number | mark);
        bytes.extend_from_slice(&units.to_le_bytes()[..7]);
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(&tick.min(Quota::LIMIT_MAX).to_le_bytes()[..7]);
        bytes.extend_from_slice(&epoch.to_le_bytes());
        bytes.extend_from_slice(back);
        if let Op::Charge { charges } = self.op {
            for charge in charges.iter().take(CHARGES_MAX).skip(1) {
                let (units, age) = self.charge(charge);
                bytes.extend_from_slice(&units.to_le_bytes()[..7]);
                bytes.extend_from_slice(&age.to_le_bytes()[..6]);
            }
        }
        bytes
    }

    /// Returns `true` if the fast path of the algorithm may decide it if it is alone.
    fn has_fast_path(&self) -> bool {
        let is_log = self.limits.kind() == ScriptKind::Log;
        self.limits.is_simple
            && match self.op {
                Op::Check { .. } | Op::Shadow { .. } | Op::Peek { .. } => true,
                Op::Refund { .. } | Op::Forgive { .. } => is_log,
                Op::Charge { charges: [one] } => is_log && self.charge(one).1 == 0,
                _ => false,
            }
    }

    /// Returns the units and the ticks of a charge. The age is rounded down, so the units are
    /// recorded late and count for at least a full window.
    fn charge(&self, charge: &Charge) -> (u64, u64) {
        (charge.units.min(Quota::LIMIT_MAX), self.limits.ticks_down(charge.age))
    }
}

/// Returns ARGV for operations, in the order of their keys. No key may occur twice.
///
/// With the feature `test-clock`, the time since the Unix epoch may come last. Without it, no
/// script reads it.
pub(crate) fn arguments(ops: &[KeyOp<'_>], now: Option<Duration>) -> Vec<Vec<u8>> {
    ops.iter().map(|op| op.argument(ops.len() == 1)).chain(now.map(time)).collect()
}

/// A time as the scripts with the test clock read it.
pub(crate) fn time(now: Duration) -> Vec<u8> {
    now.as_micros().to_string().into_bytes()
}
