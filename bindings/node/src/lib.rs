//! The native part of the npm package `slidegate`.
//!
//! It exposes gates, and nothing else: the functions take strings and numbers, and write decisions
//! as numbers (`decision.rs`). The package's TypeScript makes classes of them and translates the
//! frameworks. No panic reaches JavaScript: every function catches it and throws an error.

#![expect(clippy::needless_pass_by_value, reason = "arguments from JavaScript are owned values")]
#![expect(clippy::missing_errors_doc, reason = "errors are those of the gate, as exceptions")]

pub mod address;
pub mod clock;
mod decision;
mod error;
pub mod fast;
pub mod gate;
pub mod http;
pub mod key_header;
pub mod operations;
pub mod several;
pub mod store;
pub mod taken;
