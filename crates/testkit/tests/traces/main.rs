//! The traces, the models and the in-memory limiter, compared with each other.

mod conformance;
mod never_over;
mod random;
mod runner;
mod search;
