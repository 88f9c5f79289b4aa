//! Whether the process lives, and whether it should be asked.

use core::sync::atomic::Ordering;

use http::StatusCode;
use slidegate::FailureMode;
use slidegate_redis::BreakerState;

use super::AdminState;
use crate::engine::{Engine, Pool};
use crate::http::json::Json;
use crate::http::{Reply, answer};

/// It answers, so it lives. A store that does not is no reason to start it again.
pub(super) fn live() -> Reply {
    let mut json = Json::with_capacity(16);
    json.open(b'{');
    json.name("live");
    json.bool(true);
    json.close(b'}');
    answer::plain(json)
}

/// Whether it should be asked; the reasons are for those who may know them.
pub(super) fn ready(state: &AdminState, tell: bool) -> Reply {
    let Reasons { mut against, notes } = Reasons::find(&state.engine);
    if state.is_ending.load(Ordering::Relaxed) {
        against.insert(0, "the process is about to end".to_owned());
    }
    let is_ready = against.is_empty();
    let mut json = Json::with_capacity(128);
    json.open(b'{');
    json.name("ready");
    json.bool(is_ready);
    if tell {
        for (name, texts) in [("reasons", against), ("notes", notes)] {
            json.name(name);
            json.open(b'[');
            for text in &texts {
                json.text(text);
            }
            json.close(b']');
        }
    }
    json.close(b'}');
    let mut reply = answer::plain(json);
    if !is_ready {
        *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    reply
}

/// What there is to say about stores that fail.
struct Reasons {
    /// Requests would be denied for it: better ask another process.
    against: Vec<String>,
    /// Requests are answered all the same.
    notes: Vec<String>,
}

impl Reasons {
    fn find(engine: &Engine) -> Self {
        let mut reasons = Self { against: Vec::new(), notes: Vec::new() };
        for (id, pool) in engine.plan().pools() {
            let Pool::Redis(limiter) = pool else { continue };
            if limiter.stats().breaker != BreakerState::Open {
                continue;
            }
            let (store, policy) = (&id.store, &id.name);
            let (to, does) = match limiter.policy().failure_mode() {
                FailureMode::Deny => (&mut reasons.against, "denies"),
                FailureMode::Local => (&mut reasons.notes, "is judged in this process"),
                FailureMode::Allow => (&mut reasons.notes, "lets everything through"),
            };
            to.push(format!("store {store:?} gives no answer: policy {policy:?} {does}"));
        }
        reasons
    }
}
