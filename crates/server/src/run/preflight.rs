//! What `serve` refuses before it starts anything. `config check` runs the same checks.

use super::listeners;
use super::{Audit, Snapshots, Spans};
use crate::config::Settings;

/// Checks the settings of the process against this build and this machine, without changing anything:
/// no file is created, no address stays in use. Returns what is wrong, and nothing if the daemon can
/// start.
///
/// An address that is in use and a directory that is locked are not reported: they may belong to the
/// daemon that is to be restarted with these settings.
pub fn preflight(settings: &Settings) -> Vec<String> {
    let mut problems = build_problems(settings);
    let checks = [
        settings.audit.as_ref().map(Audit::check),
        settings.snapshot.as_ref().map(|snapshot| Snapshots::check(&snapshot.path)),
    ];
    problems.extend(checks.into_iter().flatten().filter_map(Result::err));
    problems.extend(listeners::check(settings));
    problems
}

/// Checks the settings against this build only, for a configuration of another machine.
pub fn build_problems(settings: &Settings) -> Vec<String> {
    let spans = settings.tracing.as_ref().map(Spans::check);
    let guard = listeners::guard(&settings.overload).map(|_| ());
    [spans, Some(guard)].into_iter().flatten().filter_map(Result::err).collect()
}
