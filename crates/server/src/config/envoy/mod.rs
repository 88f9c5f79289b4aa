//! Files of envoyproxy/ratelimit, unchanged: what that service loads is loaded with the same
//! meaning, and what it refuses is refused.
//!
//! What it ignores in silence, such as a known key in the wrong place, is a warning here.

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

/// The comment in a file's first line that turns our keys on.
const EXTENSIONS_MARK: &str = "# slidegate: extensions";

/// Whether the first line of a file turns our keys on.
pub(super) fn has_extensions(text: &str) -> bool {
    let first = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
    first.trim_end() == EXTENSIONS_MARK
}
