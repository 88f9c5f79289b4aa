//! Slidegate as a service.

#![forbid(unsafe_code)]

pub mod engine;
pub mod spec;
