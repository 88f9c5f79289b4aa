//! The check of a limiter in memory, with as little as possible between JavaScript and the gate.
//!
//! A method of a native class takes longer than the check itself: Node-API verifies the object's type
//! and borrows it. So `check_now` is a function, finds the gate by its number in a table of the thread,
//! and has all numbers in one array.

use std::cell::RefCell;

use napi::Result;
use napi_derive::napi;
use slidegate_bindings::run_now;
use slidegate_gate::{Caller, Gate, TierId};

use crate::decision;
use crate::error::invalid;
use crate::gate::{find_tier, not_in_memory, units};

/// A gate of this thread.
struct Entry {
    gate: Gate,
    tiers: Vec<TierId>,
}

thread_local! {
    /// By number. Native objects are created, used and dropped on the thread of their environment.
    static GATES: RefCell<Vec<Option<Entry>>> = const { RefCell::new(Vec::new()) };
}

/// The number of a gate in the table. Dropping it frees the number.
#[derive(Debug)]
pub(crate) struct GateNumber(u32);

impl GateNumber {
    pub(crate) fn new(gate: &Gate, tiers: &[TierId]) -> Self {
        let entry = Entry { gate: gate.clone(), tiers: tiers.to_vec() };
        GATES.with_borrow_mut(|gates| {
            let free = gates.iter().position(Option::is_none);
            let place = free.unwrap_or_else(|| {
                gates.push(None);
                gates.len() - 1
            });
            gates[place] = Some(entry);
            Self(u32::try_from(place).unwrap_or(u32::MAX))
        })
    }

    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for GateNumber {
    fn drop(&mut self) {
        let place = usize::try_from(self.0).unwrap_or(usize::MAX);
        // At the end of the thread, the table may be gone already.
        let entry = GATES.try_with(|gates| {
            let mut gates = gates.try_borrow_mut().ok()?;
            gates.get_mut(place)?.take()
        });
        drop(entry);
    }
}

/// The numbers of an array. As a reference, the macro would take it for a class.
type Numbers<'a> = &'a mut [f64];

/// Checks a request in memory. The array has the number of the gate, of the tier, and the cost. The
/// decision is written into it.
#[napi(catch_unwind)]
pub fn check_now(key: String, numbers: Numbers<'_>) -> Result<()> {
    let &mut [number, tier, cost, ..] = numbers else {
        return Err(invalid("the array is too short"));
    };
    let cost = units(cost)?;
    GATES.with_borrow(|gates| {
        let entry = gates.get(index(number)).and_then(Option::as_ref);
        let Some(Entry { gate, tiers }) = entry else {
            return Err(invalid(format!("there is no limiter {number}")));
        };
        let tier = if tier < 0.0 { None } else { find_tier(tiers, small(tier))? };
        let call = gate.check(key.as_bytes(), tier, cost, Caller::IN_PROCESS);
        let decided = run_now(call).ok_or_else(not_in_memory)?;
        decision::write(&decided.decision, decided.is_enforced, numbers);
        Ok(())
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn index(number: f64) -> usize {
    number as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn small(number: f64) -> i32 {
    number as i32
}
