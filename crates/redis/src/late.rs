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
pub(crate) struct LateReply(Arc<Mutex<LateResult>>);

/// What is known about a call that timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateResult {
    /// The reply has not arrived yet.
    Pending,
    /// Redis has executed the call.
    Executed {
        /// Whether every check of the call has taken its units.
        has_taken: bool,
    },
    /// Redis replied with an error, so it did nothing.
    Refused,
    /// The reply will not arrive. Redis may have executed the call.
    Lost,
}

/// Sets the result of a [`LateReply`]. If it is dropped before, the reply is lost.
pub(crate) struct LateReplySender(Arc<Mutex<LateResult>>);

impl LateReply {
    pub(crate) fn new() -> (LateReplySender, Self) {
        let result = Arc::new(Mutex::new(LateResult::Pending));
        (LateReplySender(Arc::clone(&result)), Self(result))
    }

    /// Returns a reply that does not arrive.
    pub(crate) fn lost() -> Self {
        Self::new().1
    }

    pub(crate) fn result(&self) -> LateResult {
        *self.0.lock()
    }
}

impl LateReplySender {
    pub(crate) fn send(self, reply: &Result<Value, Failure>) {
        *self.0.lock() = match reply {
            Ok(Value::ServerError(_)) => LateResult::Refused,
            Ok(value) => LateResult::Executed { has_taken: script::has_taken(value) },
            Err(failure) if failure.is_unknown() => LateResult::Lost,
            Err(_) => LateResult::Refused,
        };
    }
}

impl Drop for LateReplySender {
    fn drop(&mut self) {
        let mut result = self.0.lock();
        if *result == LateResult::Pending {
            *result = LateResult::Lost;
        }
    }
}

/// Equal for the same call.
impl PartialEq for LateReply {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LateReply {}
