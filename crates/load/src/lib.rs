//! Load for rate limiters.
