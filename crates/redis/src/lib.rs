//! Slidegate's limits shared through Redis, Sentinel, Cluster and Valkey.

#![forbid(unsafe_code)]

#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "the store that runs the scripts comes next")
)]
mod script;
