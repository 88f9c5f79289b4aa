//! For programs that call limited APIs: learns a server's quotas, paces, waits and retries.
//!
//! Works with [reqwest](PacingMiddleware) and with [tower](PacingLayer) clients, and by hand with
//! any other: see [`Turn`].
//!
//! # What it does
//!
//! * **Paces.** Every answer's `RateLimit`, `X-RateLimit` and `Retry-After` fields are read. Requests
//!   wait before a quota is used up, in the same sliding window as the server's.
//! * **Shares.** What one request learned, all others to the same scope know: quotas, and until
//!   when the server wants to be left alone.
//! * **Waits as told.** After a 429 or 503 nothing is sent earlier than the server said, and what
//!   waited comes back spread out. Without a time: exponential backoff with full jitter.
//! * **Retries little.** Only what is safe to send again, at most so often, within a budget and a
//!   deadline.
//! * **Stops.** A server that keeps refusing is left alone for a while.
//! * **Is bounded.** Scopes, waiters, waits and quotas, whatever a server answers.
//!
//! # Where to start
//!
//! A [`Pacer`] is shared by all clients of a program; [`Settings`] has the defaults. [`Pacing`] is
//! the machine inside, without clock, lock or runtime. `docs/client.md` says more.

#![forbid(unsafe_code)]

mod answer;
mod budget;
mod count;
mod error;
mod host;
mod lane;
mod line;
mod pacer;
mod pacing;
mod random;
mod refusals;
mod repeat;
#[cfg(feature = "reqwest")]
mod reqwest;
mod scope;
mod settings;
mod ticket;
#[cfg(feature = "tower")]
mod tower;
mod trips;
mod turn;

pub use self::answer::Answer;
pub use self::error::{Error, ErrorKind};
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
pub use self::turn::{Paced, Turn};

/// The code of the page about this crate, compiled and run.
#[cfg(all(doctest, feature = "reqwest", feature = "tower"))]
#[doc = include_str!("../../../docs/client.md")]
struct Page;
