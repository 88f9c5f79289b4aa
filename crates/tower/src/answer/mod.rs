//! Responses to denied requests.

mod denial;
#[cfg(feature = "tonic")]
mod grpc;

use http::Response;

pub use denial::{Denial, DenialKind};
#[cfg(feature = "tonic")]
pub use grpc::Grpc;

use slidegate_http::Body;

/// Creates the response to a denied request.
///
/// [`Http`] does so for every body that can be created from a `String`, and `Grpc` (feature
/// `tonic`) for tonic. A function from a [`Denial`] to a response is an `Answer` too.
///
/// The layer then adds the [fields](Denial::fields) of the denial that the response does not have:
/// `Retry-After`, `RateLimit` and similar, and `Cache-Control: no-store`. It does not replace
/// fields of the response.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot answer denied requests of a service whose responses are `Response<{R}>`",
    label = "does not make a `Response<{R}>` from a `Denial`",
    note = "tonic: call `.grpc()` on the builder of the layer",
    note = "a body without `From<String>`: give the builder a function, \
            `.answer(|denial| denial.response(Body::Problem).map(YourBody::new))`",
    note = "a function given to `.answer` must return `http::Response<{R}>`; \
            with axum, end it with `.into_response()`"
)]
pub trait Answer<R> {
    /// Returns the response.
    fn answer(&self, denial: &Denial) -> Response<R>;
}

#[diagnostic::do_not_recommend]
impl<R, F: Fn(&Denial) -> Response<R>> Answer<R> for F {
    fn answer(&self, denial: &Denial) -> Response<R> {
        self(denial)
    }
}

/// Creates the response, and adds the fields of the denial that it does not have.
pub(crate) fn respond<R>(answer: &impl Answer<R>, denial: &Denial) -> Response<R> {
    let mut response = answer.answer(denial);
    let headers = response.headers_mut();
    for (name, value) in denial.fields() {
        if !headers.contains_key(name) {
            headers.insert(name, value.clone());
        }
    }
    response
}

/// Responds with a status, a problem body and the header fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct Http {
    body: Body,
}

impl Http {
    /// Uses `application/problem+json`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the form of the body.
    #[must_use]
    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }
}

#[diagnostic::do_not_recommend]
impl<R: From<String>> Answer<R> for Http {
    fn answer(&self, denial: &Denial) -> Response<R> {
        denial.response(self.body).map(R::from)
    }
}
