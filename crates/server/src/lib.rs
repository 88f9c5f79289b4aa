//! Slidegate as a service.

pub mod spec;
