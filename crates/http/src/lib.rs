//! Slidegate at the edge of HTTP: decisions as header fields and problem bodies, the fields of other
//! servers read back, and the client's address.
#![forbid(unsafe_code)]

mod address;
mod fields;
mod json;
mod judged;
mod member;
mod name;
mod problem;
mod read;
mod seconds;
mod told;

pub use address::{AddressKey, ClientAddress, ClientAddressBuilder, HopField};
pub use fields::{Fields, Form, Reset};
pub use judged::Judged;
pub use problem::{Body, Problem, ProblemKind};
pub use told::{Told, ToldQuota};
