//! Protection from more requests than the server can serve, from any clients.

mod baseline;
mod bucket;
mod builder;
mod guard;
mod layer;
mod service;

pub use builder::OverloadGuardBuilder;
pub use guard::{Admission, Arrival, OverloadGuard, OverloadStats, Queued};
pub use layer::OverloadLayer;
pub use service::{Overload, OverloadFuture};
