//! The template of the matched route.

use std::sync::Arc;

use http::Extensions;

/// The template of the matched route, `/users/{id}`, as a request extension.
///
/// axum inserts its own type, which is read with the feature `axum`. Never insert the path of the
/// request: a client would get a new key for every path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MatchedRoute(Arc<str>);

impl MatchedRoute {
    /// Creates a route from its template.
    pub fn new(template: impl Into<Arc<str>>) -> Self {
        Self(template.into())
    }

    /// Returns the template.
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
