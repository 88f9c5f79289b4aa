//! The running daemon: listeners, state on disk, reloads, the end.

mod connections;
mod snapshot;
mod systemd;

pub use connections::{Connections, Place};
pub use snapshot::{Restorer, SaveReport, Snapshots};
pub use systemd::notify;
