//! The template of the matched route.

use std::sync::Arc;

use http::Extensions;

/// The template of the matched route, `/users/{id}`, as an extension of a request.
///
/// axum notes it in a form of its own, which is read with the feature `axum`. Never put the path
/// that was asked for here: a client would get a new key for every path that it makes up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MatchedRoute(Arc<str>);

impl MatchedRoute {
    /// A template.
    pub fn new(template: impl Into<Arc<str>>) -> Self {
        Self(template.into())
    }

    /// The template.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) fn find(extensions: &Extensions) -> Option<&str> {
    if let Some(route) = extensions.get::<MatchedRoute>() {
        return Some(route.as_str());
    }
    #[cfg(feature = "axum")]
    if let Some(path) = extensions.get::<axum::extract::MatchedPath>() {
        return Some(path.as_str());
    }
    None
}
