//! A client for limited APIs: it learns a server's quotas, paces requests, waits and retries.
//!
//! Works with [reqwest](PacingMiddleware) and with [tower](PacingLayer) clients, and by hand with
//! any other: see [`PacedRequest`].
//!
//! # What it does
//!
//! * **Paces.** It reads the `RateLimit`, `X-RateLimit` and `Retry-After` fields of every response.
//!   Requests wait before a quota is used up, in the same sliding window as the server's.
//! * **Shares.** All requests to a scope share what one of them learns: quotas, and how long to
//!   wait.
//! * **Waits.** After a 429 or 503, nothing is sent before the server's time, and waiting requests
//!   are spread out. Without a time: exponential backoff with full jitter.
//! * **Retries** only what is safe to send again, within a number of attempts, a budget and a
//!   deadline.
//! * **Stops** sending for a while to a server that keeps refusing.
//! * **Is bounded:** scopes, waiting requests, waits and quotas, whatever a server sends.
//!
//! # Where to start
//!
//! A [`Pacer`] is shared by all clients of a program; [`Settings`] has the defaults. [`Pacing`] is
//! its state machine, without clock, lock or runtime. See also `docs/client.md`.

#![forbid(unsafe_code)]

mod answer;
mod budget;
mod error;
mod paced_request;
mod pacer;
mod pacing;
mod quota_tracker;
mod random;
mod refusal_counter;
mod repeat;
#[cfg(feature = "reqwest")]
mod reqwest;
mod round_trips;
mod scope;
mod scope_state;
mod settings;
mod ticket;
#[cfg(feature = "tower")]
mod tower;
mod unit_counter;
mod wait_queue;

pub use self::answer::Answer;
pub use self::error::{Error, ErrorKind};
pub use self::paced_request::{PacedRequest, PacingReport};
pub use self::pacer::{Pacer, PacerBuilder};
pub use self::pacing::{Next, Pacing, Stats, Step};
pub use self::random::Random;
pub use self::repeat::Repeat;
#[cfg(feature = "reqwest")]
pub use self::reqwest::PacingMiddleware;
pub use self::scope::{Scope, Target};
pub use self::settings::{Settings, SettingsBuilder};
pub use self::ticket::Ticket;
#[cfg(feature = "tower")]
pub use self::tower::{Cloned, Once, PacingLayer, PacingService, Replay};

/// Compiles and runs the code of the crate's pages.
#[cfg(all(doctest, feature = "reqwest", feature = "tower"))]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/client.md")]
    struct Page;
}
