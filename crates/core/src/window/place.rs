//! A caller's place in the queue of a key.

/// A caller that waits for units.
///
/// The units are recorded in advance, at the tick at which the caller may take them. So every check
/// counts them without knowing the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The caller's quotas, as an index into those of the queue.
    pub(crate) limits: usize,
    pub(crate) cost: u64,
    /// The tick from which the caller may take its units.
    pub(crate) due: u64,
    /// The tick that [`Window::take_ahead`](super::Window::take_ahead) returned for the units, or
    /// [`Place::ASIDE`].
    pub(crate) tick: u64,
}

impl Place {
    /// The tick of a place whose units are not recorded.
    pub(crate) const ASIDE: u64 = 0;
}
