//! The overload guard that HTTP and gRPC share.

use core::time::Duration;

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
