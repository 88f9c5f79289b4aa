//! The traces, the models and memory, played against each other.

mod conformance;
mod never_over;
mod random;
mod runner;
