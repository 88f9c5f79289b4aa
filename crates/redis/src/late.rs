//! Replies to calls that timed out.
//!
//! The failure mode has decided by then, but the reply still shows whether Redis has counted the
//! units. A later reply on the same connection would not: this one may be an error, or a denial.

use std::sync::Arc;

use parking_lot::Mutex;
use redis::Value;

use crate::script;
use crate::servers::Failure;

/// The reply to a call that timed out, which may still arrive.
#[derive(Debug, Clone)]
pub(crate) struct LateReply {
    call: Arc<Mutex<CallResult>>,
    /// The number of the check, if one call carried the checks of several callers.
    place: usize,
}

/// What is known about a call.
#[derive(Debug, PartialEq, Eq)]
enum CallResult {
    Pending,
    /// Whether each check of the call has taken its units.
    Executed(Vec<bool>),
    Refused,
    Lost,
}

/// What is known about a check or charge that timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateResult {
    /// The reply has not arrived yet.
    Pending,
    /// Redis has executed the call.
    Executed {
        /// Whether the check has taken its units.
        has_taken: bool,
    },
    /// Redis replied with an error, so it did nothing.
    Refused,
    /// The reply will not arrive. Redis may have executed the call.
    Lost,
}

/// Sets the result of a [`LateReply`]. If it is dropped before, the reply is lost.
pub(crate) struct LateReplySender(Arc<Mutex<CallResult>>);

impl LateReply {
    pub(crate) fn new() -> (LateReplySender, Self) {
        let call = Arc::new(Mutex::new(CallResult::Pending));
        (LateReplySender(Arc::clone(&call)), Self { call, place: 0 })
    }

    /// Returns a reply that does not arrive.
    pub(crate) fn lost() -> Self {
        Self::new().1
    }

    /// Returns the reply to one of the checks that the call carried.
    pub(crate) fn of_check(self, place: usize) -> Self {
        Self { place, ..self }
    }

    pub(crate) fn result(&self) -> LateResult {
        match &*self.call.lock() {
            CallResult::Pending => LateResult::Pending,
            CallResult::Executed(taken) => {
                LateResult::Executed { has_taken: taken.get(self.place) == Some(&true) }
            }
            CallResult::Refused => LateResult::Refused,
            CallResult::Lost => LateResult::Lost,
        }
    }
}

impl LateReplySender {
    pub(crate) fn send(self, reply: &Result<Value, Failure>) {
        *self.0.lock() = match reply {
            Ok(Value::ServerError(_)) => CallResult::Refused,
            Ok(value) => CallResult::Executed(script::taken(value)),
            Err(failure) if failure.is_unknown() => CallResult::Lost,
            Err(_) => CallResult::Refused,
        };
    }
}

impl Drop for LateReplySender {
    fn drop(&mut self) {
        let mut result = self.0.lock();
        if *result == CallResult::Pending {
            *result = CallResult::Lost;
        }
    }
}

/// Equal for the same check of the same call.
impl PartialEq for LateReply {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.call, &other.call) && self.place == other.place
    }
}

impl Eq for LateReply {}
