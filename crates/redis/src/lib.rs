//! Slidegate's limits shared through Redis, Sentinel, Cluster and Valkey.

#![forbid(unsafe_code)]
