//! Logs and made-up traffic, from the reader to the report.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, to panic is to fail")]

mod algorithms;
mod readers;
