//! The own format: what is checked beyond single values, from a checked tree to settings and limits.

mod policy;
mod rule;
mod store;

pub(super) use policy::{policies, unknown_store};
pub(super) use rule::rules;
pub(super) use store::{memory, store_names, stores};
