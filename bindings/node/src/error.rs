//! Errors as exceptions with a code.

use napi::Error;

/// Returns the exception of an error. Its message is `slidegate/CODE: MESSAGE`, because an exception
/// of a promise cannot have another code than those of Node-API. The package's TypeScript reads it.
pub(crate) fn thrown(error: slidegate::Error) -> Error {
    Error::from_reason(format!("slidegate/{}: {error}", slidegate_bindings::code(error.kind())))
}

/// Returns the exception for an invalid argument.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    thrown(slidegate::Error::new(slidegate::ErrorKind::Setting, message.into()))
}
