//! Decisions as numbers.
//!
//! Creating a JavaScript object from native code takes longer than a check, so a decision is an
//! array of numbers from which `ts/decision.ts` makes its object:
//!
//! | place | number |
//! |---|---|
//! | 0 | marks, see the constants |
//! | 1 | limit of the tightest quota |
//! | 2 | remaining units |
//! | 3 | `retry_after` in milliseconds, -1 for never |
//! | 4 | `reset_after` in milliseconds |
//! | 5, 6, 7 | the receipt's units, tick and epoch |
//! | 8 | number of quotas |
//! | 9... | limit, remaining, `retry_after` and `reset_after` of every quota |

use core::time::Duration;

use slidegate::{Decision, QuotaDecision, RetryAfter};
use slidegate_gate::GateDecision;

use crate::clock::millis;

const ALLOWED: u32 = 1;
const SHADOW_DENIED: u32 = 1 << 1;
const BLOCKED: u32 = 1 << 2;
const ESTIMATED: u32 = 1 << 3;
const RECEIPT: u32 = 1 << 4;
const ENFORCED: u32 = 1 << 5;
/// The first bit of the reason why the store did not decide: 0 if it did, else its position in
/// `DegradedReason::ALL`, from 1.
const DEGRADED_SHIFT: u32 = 8;

/// The numbers before those of the quotas.
const HEAD: usize = 9;
/// The numbers of a quota.
const QUOTA: usize = 4;

/// Returns the numbers of a result.
pub(crate) fn numbers(decided: &GateDecision) -> Vec<f64> {
    decision_numbers(&decided.decision, decided.is_enforced)
}

/// Returns the numbers of a decision.
pub(crate) fn decision_numbers(decision: &Decision, is_enforced: bool) -> Vec<f64> {
    let mut numbers = vec![0.0; HEAD + QUOTA * decision.quotas().len()];
    write(decision, is_enforced, &mut numbers);
    numbers
}

/// Writes a decision into an array, as many of its numbers as fit.
pub(crate) fn write(decision: &Decision, is_enforced: bool, out: &mut [f64]) {
    let mut marks = 0;
    let marked = [
        (decision.is_allowed(), ALLOWED),
        (decision.is_shadow_denied(), SHADOW_DENIED),
        (decision.is_blocked(), BLOCKED),
        (decision.is_estimated(), ESTIMATED),
        (decision.receipt().is_some(), RECEIPT),
        (is_enforced, ENFORCED),
    ];
    for (is_set, mark) in marked {
        marks |= u32::from(is_set) * mark;
    }
    if let Some(reason) = decision.degraded_reason() {
        marks |= (reason as u32 + 1) << DEGRADED_SHIFT;
    }
    let quotas = decision.quotas();
    let receipt = decision.receipt();
    let head = [
        f64::from(marks),
        number(decision.tightest().map_or(0, QuotaDecision::limit)),
        number(decision.remaining()),
        wait(decision.retry_after()),
        time(decision.reset_after()),
        receipt.map_or(0.0, |receipt| number(receipt.units())),
        receipt.map_or(0.0, |receipt| number(receipt.tick())),
        receipt.map_or(0.0, |receipt| f64::from(receipt.epoch())),
        number(quotas.len() as u64),
    ];
    let Some((start, rest)) = out.split_at_mut_checked(HEAD) else { return };
    start.copy_from_slice(&head);
    for (quota, place) in quotas.iter().zip(rest.chunks_exact_mut(QUOTA)) {
        place.copy_from_slice(&[
            number(quota.limit()),
            number(quota.remaining()),
            wait(quota.retry_after()),
            time(quota.reset_after()),
        ]);
    }
}

/// Returns an integer as a JavaScript number. Limits and ticks are at most 2^53, and are exact.
#[expect(clippy::cast_precision_loss, reason = "see the first sentence")]
pub(crate) fn number(value: u64) -> f64 {
    value as f64
}

fn wait(after: RetryAfter) -> f64 {
    after.duration().map_or(-1.0, time)
}

fn time(duration: Duration) -> f64 {
    if duration.is_zero() { 0.0 } else { millis(duration) }
}
