//! Slidegate as a service: the library behind the program `slidegate`.
//!
//! The program is the supported interface. This library is split from it so that tests can run
//! the daemon in process; its types may change in any version.
//!
//! ```sh
//! slidegate                                 # an example policy, on loopback
//! slidegate serve --config limits.yaml      # your policies
//! slidegate --help
//! ```
//!
//! # Where to start
//!
//! [`config`] reads files into a [`spec`]. [`gates`] makes gates and stores from it, [`domain`]
//! compiles Envoy's descriptors on top of them, and [`engine`] holds the current plan and replaces
//! it on a reload. [`http`], [`grpc`], [`resp`] and [`admin`] are the protocols: each translates its
//! request into gate calls and the decision into its response. [`run`] starts and stops everything,
//! and [`cli`] is the command line.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `jemalloc` (default) | an allocator that returns the memory of closed connections |
//! | `otlp` | spans of decisions for a collector, over gRPC |

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
