//! What can go wrong with a server of a test.

use core::fmt;

/// Why a server could not be started, reached or made to do something.
///
/// Shown the same by `{}` and `{:?}`, so that `unwrap` in a test prints the server's log in lines.
#[derive(Clone)]
pub struct ServerError {
    message: String,
}

impl ServerError {
    /// An error that says what was tried, what happened and what to do.
    #[cold]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServerError {}

impl From<redis::RedisError> for ServerError {
    fn from(error: redis::RedisError) -> Self {
        Self::new(format!("the server was asked and: {error}"))
    }
}
