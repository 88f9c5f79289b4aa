//! Slidegate as a service.

pub mod config;
pub mod spec;
