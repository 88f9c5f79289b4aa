//! A layer for tower clients.

mod layer;
mod replay;
mod service;

pub use layer::PacingLayer;
pub use replay::{Cloned, Once, Replay};
pub use service::PacingService;
