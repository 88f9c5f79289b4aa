//! Signs of life on standard error.

/// Says what is under way.
pub(crate) fn say(message: &str) {
    eprintln!("  {message}");
}
