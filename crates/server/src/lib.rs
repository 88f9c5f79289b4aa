//! Slidegate as a service.

#![forbid(unsafe_code)]

pub mod access;
pub mod admin;
pub mod cli;
pub mod config;
pub mod dashboard;
pub mod domain;
pub mod engine;
pub mod gates;
pub mod grpc;
pub mod http;
mod json_object;
mod nearest;
pub mod net;
mod overload;
mod receipt;
pub mod resp;
pub mod run;
pub mod spec;
mod wall_clock;

pub use nearest::nearest;
