//! Whether a request may be sent again.

use http::{HeaderMap, Method};

use crate::answer::Answer;
use crate::settings::Settings;

/// Whether a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// Never: its body can be read only once.
    Never,
    /// Only if the server certainly did not handle it, because the status is 429.
    Refused,
    /// Even if the server may have handled it, because the request is idempotent.
    Always,
}

impl Repeat {
    /// Returns [`Repeat::Always`] for idempotent methods and for requests with an
    /// `Idempotency-Key`, otherwise [`Repeat::Refused`]. The body, if there is one, must be
    /// repeatable.
    pub fn of(method: &Method, headers: &HeaderMap) -> Self {
        if method.is_idempotent() || headers.contains_key("idempotency-key") {
            Self::Always
        } else {
            Self::Refused
        }
    }

    pub(crate) fn is_allowed(self, answer: &Answer, settings: &Settings) -> bool {
        match self {
            Self::Never => false,
            Self::Refused => settings.repeat_refused && answer.is_over_quota(),
            Self::Always => answer.is_refused(),
        }
    }
}

#[cfg(test)]
mod tests;
