//! The running daemon: listeners, state on disk, reloads, shutdown.

mod audit;
mod descriptors;
mod listeners;
#[cfg(not(feature = "otlp"))]
mod no_spans;
mod process;
mod reference_statistics;
mod reload;
mod serve;
mod snapshot;
#[cfg(feature = "otlp")]
mod spans;
mod statsd;
mod tls;
mod watch;

pub use audit::Audit;
#[cfg(not(feature = "otlp"))]
pub use no_spans::Spans;
pub use serve::serve;
pub use snapshot::{Restorer, SaveReport, Snapshots};
#[cfg(feature = "otlp")]
pub use spans::Spans;
