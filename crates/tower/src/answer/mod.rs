//! What a client is told that was turned away.

mod denial;
#[cfg(feature = "tonic")]
mod grpc;

use http::Response;

pub use denial::{Denial, DenialKind};
#[cfg(feature = "tonic")]
pub use grpc::Grpc;

use slidegate_http::Body;

/// Makes the response of a request that was turned away.
///
/// [`Http`] does it for every body that is made of a text, `Grpc` (feature `tonic`) for tonic. A
/// function from a [`Denial`] to a response is one too.
pub trait Answer<R> {
    /// The response.
    fn answer(&self, denial: &Denial) -> Response<R>;
}

impl<R, F: Fn(&Denial) -> Response<R>> Answer<R> for F {
    fn answer(&self, denial: &Denial) -> Response<R> {
        self(denial)
    }
}

/// Answers with a status, a problem body and the header fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct Http {
    body: Body,
}

impl Http {
    /// With `application/problem+json`.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a body of another form.
    #[must_use]
    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }
}

impl<R: From<String>> Answer<R> for Http {
    fn answer(&self, denial: &Denial) -> Response<R> {
        denial.response(self.body).map(R::from)
    }
}
