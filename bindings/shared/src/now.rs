//! Calls of gates in memory, without a runtime.

use core::future::Future;

use futures_util::FutureExt as _;

/// Runs a call of a gate whose state is in memory. Returns `None` if the call has to wait, which
/// means that the store is not in memory.
///
/// ```
/// use slidegate::{Cost, Limiter, Policy, Quota};
/// use slidegate_gate::Gate;
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(10))?)?;
/// let gate = Gate::from(limiter);
/// let decision = slidegate_bindings::run_now(gate.peek(b"alice", None, Cost::ONE));
/// assert_eq!(decision.unwrap()?.remaining(), 10);
/// # Ok::<(), slidegate::Error>(())
/// ```
pub fn run_now<F: Future>(call: F) -> Option<F::Output> {
    call.now_or_never()
}
