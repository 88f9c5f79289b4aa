//! The running daemon: listeners, state on disk, reloads, shutdown.

mod audit;
mod descriptors;
mod listeners;
#[cfg(not(feature = "otlp"))]
mod no_spans;
mod paths;
mod preflight;
mod process;
mod reference_statistics;
mod reload;
mod serve;
mod snapshot;
#[cfg(feature = "otlp")]
mod spans;
mod stalls;
mod state_log;
mod statsd;
mod tls;
mod upkeep;
mod watch;

pub use audit::Audit;
#[cfg(not(feature = "otlp"))]
pub use no_spans::Spans;
pub use preflight::{build_problems, preflight};
pub use serve::{ServeError, serve};
pub use snapshot::{Restorer, SaveReport, Snapshots};
#[cfg(feature = "otlp")]
pub use spans::Spans;
