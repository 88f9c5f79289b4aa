//! The overload guard that HTTP and gRPC share.

use core::time::Duration;

use std::sync::Arc;

use parking_lot::Mutex;
use slidegate_gate::WaitOptions;
use slidegate_tower::{Admission, Arrival, OverloadGuard, OverloadStats};

use crate::admin::{Kind, Page};

/// Waits until the guard admits a request.
///
/// # Errors
///
/// Returns the time after which to retry if the request is rejected.
pub(crate) async fn admit(guard: &OverloadGuard) -> Result<Admission, Duration> {
    let mut arrival = guard.arrive();
    loop {
        match arrival {
            Arrival::Admitted(pass) => return Ok(pass),
            Arrival::Shed(after) => return Err(after),
            Arrival::Queued(queued) => {
                tokio::time::sleep(queued.delay()).await;
                arrival = queued.again();
            }
        }
    }
}

/// The place of a request in service. It is free again when the last clone is dropped, or when the
/// request begins to wait for units, which takes no work. `waiters_max` bounds the requests that wait.
#[derive(Debug, Clone)]
pub(crate) struct Place(Arc<Mutex<Option<Admission>>>);

impl Place {
    pub(crate) fn new(admission: Admission) -> Self {
        Self(Arc::new(Mutex::new(Some(admission))))
    }

    /// Frees the place when the request begins to wait.
    pub(crate) fn free_on_wait(&self, waiting: WaitOptions) -> WaitOptions {
        let place = self.clone();
        waiting.on_wait(move || drop(place.0.lock().take()))
    }
}

/// Adds the guard's status to a page of metrics.
pub(crate) fn write_metrics(guard: &OverloadGuard, page: &mut Page) {
    let OverloadStats { baseline, serving, queued, admitted, shed, .. } = guard.stats();
    page.family(
        "slidegate_overload_requests_total",
        Kind::Counter,
        "Requests that passed through the overload guard, by outcome.",
    );
    page.sample(&[("outcome", "admitted")], admitted);
    page.sample(&[("outcome", "shed")], shed);
    for (name, help, value) in [
        ("slidegate_overload_serving", "Requests in service.", serving as u64),
        (
            "slidegate_overload_queued",
            "Requests in the queue of the overload guard.",
            queued as u64,
        ),
        ("slidegate_overload_baseline", "Usual number of requests per second.", baseline),
    ] {
        page.family(name, Kind::Gauge, help);
        page.sample(&[], value);
    }
}
