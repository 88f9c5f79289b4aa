//! The usual answer.

/// Where the only quota stands after a check for one unit.
///
/// A denial of one unit ends when more units become available: there is one wait for both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Brief {
    pub(crate) is_denied: bool,
    pub(crate) remaining: u64,
    /// Ticks until more units become available.
    pub(crate) reset: u64,
}
