//! Quotas and limits in words.

use core::time::Duration;

use slidegate::Quota;

/// `100 in any 1m, and 1000 in any 1h`.
pub(super) fn quotas(quotas: &[Quota]) -> String {
    let one = |quota: &Quota| format!("{} in any {}", quota.limit(), time(quota.window()));
    quotas.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// A stretch of time as configurations write it.
pub(super) fn time(time: Duration) -> String {
    crate::config::show_time(time)
}
