//! How a body is sent twice.

/// How a body is sent twice.
pub trait Replay<B> {
    /// A copy of a body that was not sent yet; none if it can be read only once.
    fn copy(&self, body: &B) -> Option<B>;
}

/// No body is sent twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Once;

/// Bodies are cloned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cloned;

impl<B> Replay<B> for Once {
    fn copy(&self, _: &B) -> Option<B> {
        None
    }
}

impl<B: Clone> Replay<B> for Cloned {
    fn copy(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

impl<B, F: Fn(&B) -> Option<B>> Replay<B> for F {
    fn copy(&self, body: &B) -> Option<B> {
        self(body)
    }
}
