//! Error codes.

use slidegate::ErrorKind;

/// Returns the code of an error for programs, such as `store`. Codes do not change.
pub fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Limit => "limit",
        ErrorKind::Window => "window",
        ErrorKind::Cost => "cost",
        ErrorKind::Policy => "policy",
        ErrorKind::Setting => "setting",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Waiters => "waiters",
        ErrorKind::Memory => "memory",
        ErrorKind::Snapshot => "snapshot",
        ErrorKind::Store => "store",
        // Kinds that the core adds later.
        _ => "other",
    }
}

/// Every code, for the types of a package.
pub const CODES: [&str; 11] = [
    "limit",
    "window",
    "cost",
    "policy",
    "setting",
    "unsupported",
    "waiters",
    "memory",
    "snapshot",
    "store",
    "other",
];
