//! Liveness and readiness.

use core::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::json;
use slidegate::FailureMode;

use super::AdminState;
use crate::engine::Engine;
use crate::http::{Reply, reply};

/// It replies, so it lives. A failing store is no reason to restart it.
pub(super) fn live() -> Reply {
    reply::plain(&json!({"live": true}))
}

/// Whether the process should receive requests. The reasons are for authorized callers only.
pub(super) fn ready(state: &AdminState, is_authorized: bool) -> Reply {
    let Reasons { mut against, notes } = Reasons::find(&state.engine);
    if state.is_ending.load(Ordering::Relaxed) {
        against.insert(0, "the process is about to end".to_owned());
    }
    let is_ready = against.is_empty();
    let mut reply = if is_authorized {
        reply::plain(&json!({"ready": is_ready, "reasons": against, "notes": notes}))
    } else {
        reply::plain(&json!({"ready": is_ready}))
    };
    if !is_ready {
        *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    reply
}

/// The effects of failing stores.
struct Reasons {
    /// Requests are denied, so another process should receive them.
    against: Vec<String>,
    /// Requests are decided nevertheless.
    notes: Vec<String>,
}

impl Reasons {
    fn find(engine: &Engine) -> Self {
        let mut reasons = Self { against: Vec::new(), notes: Vec::new() };
        for (id, state) in engine.plan().stores() {
            if state.is_available() {
                continue;
            }
            let (store, policy) = (&id.store, &id.name);
            let (to, does) = match state.policy().failure_mode() {
                FailureMode::Deny => (&mut reasons.against, "rejects requests"),
                FailureMode::Local => (&mut reasons.notes, "is judged in this process"),
                FailureMode::Allow => (&mut reasons.notes, "lets everything through"),
            };
            to.push(format!("store {store:?} gives no answer: policy {policy:?} {does}"));
        }
        reasons
    }
}
