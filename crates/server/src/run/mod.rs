//! The running daemon: listeners, state on disk, reloads, the end.

mod audit;
mod doors;
mod envoy_metrics;
mod listener;
mod log;
#[cfg(not(feature = "otlp"))]
mod no_spans;
mod reload;
mod serve;
mod snapshot;
#[cfg(feature = "otlp")]
mod spans;
mod sweep;
mod systemd;
mod tls;
mod words;

pub use audit::Audit;
pub use listener::{Stop, Stopper, accept, listen};
#[cfg(not(feature = "otlp"))]
pub use no_spans::Spans;
pub use reload::{Changes, Reloader, watch};
pub use serve::serve;
pub use snapshot::{Restorer, SaveReport, Snapshots};
#[cfg(feature = "otlp")]
pub use spans::Spans;
pub use sweep::sweep;
pub use systemd::notify;
pub use tls::{GRPC, HTTP, PLAIN, Tls};
