//! Progress messages on standard error.

/// Prints a progress message.
pub(crate) fn say(message: &str) {
    eprintln!("  {message}");
}
