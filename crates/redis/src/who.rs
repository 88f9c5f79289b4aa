//! A key in the tables of this process.

/// A key's fingerprint, and the tier it is asked for: what is denied to one tier may be allowed to
/// another, while what is given back to a key concerns all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub(crate) key: u64,
    /// Zero for the policy's own quotas.
    pub(crate) tier: u64,
}
