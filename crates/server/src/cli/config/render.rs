//! Quotas and limits in words.

use core::time::Duration;

use slidegate::{Algorithm, Quota};

/// `100 in any 1m, and 1000 in any 1h`.
pub(super) fn quotas(quotas: &[Quota]) -> String {
    let one = |quota: &Quota| format!("{} in any {}", quota.limit(), time(quota.window()));
    quotas.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// A stretch of time as configurations write it.
pub(super) fn time(time: Duration) -> String {
    crate::config::show_time(time)
}

pub(super) fn algorithm(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Log => "log".to_owned(),
        Algorithm::LogCapped { bytes_max } => format!("log_capped: {bytes_max}"),
        Algorithm::Counter => "counter".to_owned(),
        Algorithm::Segments { count } => format!("segments: {count}"),
        Algorithm::Gcra => "gcra".to_owned(),
        Algorithm::Fixed => "fixed".to_owned(),
        other => format!("{other:?}"),
    }
}
