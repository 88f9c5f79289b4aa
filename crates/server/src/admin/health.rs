//! Liveness and readiness.

use core::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::json;
use slidegate::FailureMode;

use super::AdminState;
use crate::engine::Engine;
use crate::http::{Reply, reply};

/// Replies that the process is alive. A failing store is not a reason to restart it.
pub(super) fn live() -> Reply {
    reply::plain(&json!({"live": true}))
}

/// Reports whether the process should receive requests. The reasons are for authorized clients
/// only.
pub(super) fn ready(state: &AdminState, is_authorized: bool) -> Reply {
    let Reasons { mut against, notes } = Reasons::find(&state.engine);
    against.extend(state.unready.iter().filter_map(|reason| reason()));
    if state.is_ending.load(Ordering::Relaxed) {
        against.insert(0, "the process is shutting down".to_owned());
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
                FailureMode::Local => (&mut reasons.notes, "is decided in this process"),
                FailureMode::Allow => (&mut reasons.notes, "allows every request"),
            };
            to.push(format!("store {store:?} does not reply: policy {policy:?} {does}"));
        }
        reasons
    }
}
