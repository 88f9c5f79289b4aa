//! Slidegate as a service.

#![forbid(unsafe_code)]

pub mod domain;
pub mod engine;
pub mod grpc;
pub mod spec;
