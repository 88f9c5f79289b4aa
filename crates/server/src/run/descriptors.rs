//! File descriptors, and the connections that fit under their limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Descriptors for everything except client connections: files, listeners, connections to stores
/// and collectors, and one per listener for a refused connection.
const RESERVE: u64 = 64;
/// The maximum number of admin connections.
const ADMIN_MAX: u64 = 64;
/// The default maximum number of connections of a data listener.
const DATA_MAX: usize = 10_000;

/// The maximum number of connections of each listener. Together they fit under the limit of file
/// descriptors, so that a flood on one listener cannot block the others or the files of the
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionBudget {
    /// Of each data listener.
    pub(super) data: usize,
    /// Of the admin listener.
    pub(super) admin: usize,
}

impl ConnectionBudget {
    /// Raises the soft limit of descriptors as far as the hard limit allows, and divides it. Warns
    /// if `wanted` connections for each of `listeners` data listeners do not fit. Without a number,
    /// it is the largest that fits, up to 10,000.
    pub(super) fn new(wanted: Option<usize>, listeners: usize) -> Self {
        let limit = raise_limit();
        let budget = Self::within(limit, wanted.unwrap_or(DATA_MAX), listeners);
        if let Some(wanted) = wanted
            && budget.data < wanted
        {
            let needed = needed(wanted as u64, listeners as u64);
            warn!(
                "`limits.connections` is {wanted}, but with a limit of {limit} file descriptors each \
                 of {listeners} data listeners accepts {} connections: raise the hard limit to at \
                 least {needed} (LimitNOFILE in systemd, `ulimit -Hn` in a shell) or lower \
                 `limits.connections`",
                budget.data
            );
        }
        budget
    }

    fn within(limit: u64, wanted: usize, listeners: usize) -> Self {
        let available = limit.saturating_sub(RESERVE);
        // Under a very low limit every listener gets less, but at least one.
        let admin = ADMIN_MAX.min(available / 4).max(1);
        let share = available.saturating_sub(admin) / (listeners.max(1) as u64);
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        Self { data: wanted.min(share).max(1), admin: usize::try_from(admin).unwrap_or(1) }
    }
}

fn needed(wanted: u64, listeners: u64) -> u64 {
    wanted.saturating_mul(listeners).saturating_add(RESERVE + ADMIN_MAX)
}

/// Returns the limit of this process after raising it.
fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let raised = Rlimit { current: maximum, maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            warn!("cannot raise the limit of file descriptors: {error}");
        }
    }
    // `None` is unlimited.
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_under_the_limit_and_admin_keeps_some() {
        let fits = |limit, wanted| {
            let ConnectionBudget { data, admin } = ConnectionBudget::within(limit, wanted, 3);
            assert!(data > 0 && admin > 0);
            (data, admin)
        };
        assert_eq!(fits(u64::MAX, 10_000), (10_000, 64));
        assert_eq!(fits(needed(10_000, 3), 10_000), (10_000, 64));
        assert_eq!(fits(needed(10_000, 3) - 1, 10_000), (9_999, 64));
        assert_eq!(fits(1024, 10_000), (298, 64));
        assert_eq!(fits(128, 10_000), (16, 16));
        assert_eq!(fits(0, 10_000), (1, 1));
    }
}
