//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! A [`Service`] answers one call, and [`serve()`] one connection, plain or of TLS with ALPN `h2`;
//! whoever accepts connections bounds their number:
//!
//! ```text
//! let service = Service::new(engine, options).message_max(settings.limits.body_max);
//! open.spawn(grpc::serve(stream, service.clone(), limits, stop.clone().wait()));
//! ```

mod arrivals;
mod convert;
mod guard;
pub mod message;
mod opening;
mod rls;
mod serve;
mod service;
mod shed;

pub use self::rls::{MESSAGE_MAX, NAME};
pub use self::serve::{GrpcLimits, serve};
pub use self::service::{Health, Service};
