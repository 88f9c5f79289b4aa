//! YAML with places: a tree of our own, so that every finding can point at its line.
//!
//! The only module that knows the YAML library. It was chosen over a typed reader because that
//! one stops at the first mistake, and a configuration wants all of them told at once.

mod node;
mod parse;
mod scalar;

pub(crate) use node::{Entry, Kind, Node};
pub(super) use parse::parse;
pub(crate) use scalar::{Scalar, Style, Value};
