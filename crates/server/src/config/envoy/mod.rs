//! Files of envoyproxy/ratelimit, unchanged: the files that it loads have the same meaning here,
//! and the files that it rejects are rejected.
//!
//! Settings that it ignores silently, such as a known key in the wrong place, cause a warning here.

mod descriptor;
mod directory;
mod domains;
mod keys;
mod limit;
mod metadata;
mod scalar;

pub(crate) use directory::list_directory;
pub(super) use directory::{list, reference_directory};
pub(super) use domains::Domains;

/// The comment in the first line of a file that enables extension keys.
const EXTENSIONS_MARK: &str = "# slidegate: extensions";

/// Returns `true` if the first line of a file enables extension keys.
pub(super) fn has_extensions(text: &str) -> bool {
    let first = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
    first.trim_end() == EXTENSIONS_MARK
}
