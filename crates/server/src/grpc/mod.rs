//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! A [`Service`] answers one HTTP/2 request. [`connections`] has the bounds of a connection, and
//! [`serve`] runs both on a listener:
//!
//! ```text
//! let service = Service::new(engine, options);
//! grpc::serve(listener, service, shutdown).await;
//! ```
//!
//! With TLS, whoever accepts does the handshake (ALPN `h2`) and then serves the connection by
//! `connections().serve_connection(TokioIo::new(stream), service)`; `graceful_shutdown` of that
//! connection lets the calls end that are under way.

mod convert;
mod guard;
pub mod message;
mod rls;
mod serve;
mod service;

pub use self::rls::{MESSAGE_MAX, NAME};
pub use self::serve::{DRAIN_MAX, connections, serve};
pub use self::service::{Health, Service};
