//! Slidegate as a service.

#![forbid(unsafe_code)]

pub mod admin;
pub mod engine;
pub mod http;
pub mod spec;
