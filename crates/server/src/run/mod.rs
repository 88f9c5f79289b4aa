//! The running daemon: listeners, state on disk, reloads, the end.

mod audit;
mod doors;
mod envoy_metrics;
mod listener;
mod log;
mod reload;
mod serve;
mod snapshot;
mod sweep;
mod systemd;
mod tls;
mod words;

pub use audit::Audit;
pub use listener::{Stop, Stopper, accept, listen};
pub use reload::{Changes, Reloader, watch};
pub use serve::serve;
pub use snapshot::{Restorer, SaveReport, Snapshots};
pub use sweep::sweep;
pub use systemd::notify;
pub use tls::{GRPC, HTTP, PLAIN, Tls};
