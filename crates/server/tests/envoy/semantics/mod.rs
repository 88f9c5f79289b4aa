//! What descriptors mean, row by row of what the reference service does.
//!
//! What could go wrong: a limit that is not found, or found where it should not be; a request that
//! is charged though another descriptor denied it; a wait that is not exact. Time is in the test's
//! hands, so every number is exact.

mod charging;
mod matching;
mod modes;
mod response_extras;
mod settings;
mod setup;
mod shared;
mod web;
