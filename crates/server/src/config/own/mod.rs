//! The own format, from a checked tree to settings and limits.
//!
//! The table has been held against the tree before: a value that is there and of the wrong form has
//! been told, and counts as absent here.

mod policy;
mod quota;
mod read;
mod rule;
mod settings;
mod store;

pub(super) use policy::{policies, unknown_store};
pub(super) use quota::algorithm;
pub(super) use rule::rules;
pub(super) use settings::settings;
pub(super) use store::{memory, store_names, stores};
