//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! A [`Service`] handles one call and [`serve()`] one connection, plain or TLS with ALPN `h2`. The
//! number of connections is bounded where they are accepted:
//!
//! ```text
//! let service = Service::new(engine, options).await.message_max(settings.limits.body_max);
//! open.spawn(grpc::serve(stream, service.clone(), limits, Arc::default(), stop.clone().wait()));
//! ```

mod batch;
mod codec;
mod convert;
pub mod message;
mod rls;
mod serve;
mod service;

pub use self::rls::{MESSAGE_MAX, NAME};
pub use self::serve::{GrpcLimits, serve};
pub use self::service::{Health, Service};
