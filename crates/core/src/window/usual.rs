//! How the usual check went.

/// The outcome for one unit under the only quota, where there is a short way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usual {
    /// It passed and was taken. `used` units count now, the first of them since tick `first`.
    Taken { used: u64, first: u64 },
    /// As many units as the limit count, and when the one of tick `first` expires, it will pass.
    Denied { first: u64 },
    /// There is no short way, and nothing was done.
    No,
}
