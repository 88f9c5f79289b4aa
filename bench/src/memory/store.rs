//! The limiters whose memory is measured.

/// A limiter whose memory is measured. Its time is set by the harness.
pub(crate) trait Store: Sync {
    /// What each thread keeps for itself.
    type Scratch: Default;

    /// Makes it `millis` milliseconds since the start.
    fn set_time(&self, millis: u64);

    /// Asks for one unit for each of at most [`BLOCK`](crate::numbers::BLOCK) keys.
    fn ask(&self, scratch: &mut Self::Scratch, keys: &[u64]);

    /// Asks for several units at once; for none does nothing.
    fn ask_units(&self, key: u64, units: u64);

    /// Units that count for a key now.
    fn units(&self, key: u64) -> u64;

    /// Returns the bytes that it reports, if it reports them.
    fn accounted_bytes(&self) -> Option<u64>;
}
