//! The running daemon: listeners, state on disk, reloads, the end.

mod connections;
mod listener;
mod reload;
mod snapshot;
mod systemd;
mod tls;

pub use connections::{Connections, Place};
pub use listener::{Stop, Stopper, accept, listen};
pub use reload::{Changes, Reloader, Status, watch};
pub use snapshot::{Restorer, SaveReport, Snapshots};
pub use systemd::notify;
pub use tls::{GRPC, HTTP, PLAIN, Tls};
