//! The settings of a client.

use core::fmt::Debug;
use core::ops::RangeInclusive;
use core::time::Duration;

use slidegate_http::AdvertisedLimits;

use crate::error::Error;

/// The settings of a client: how it paces, waits and retries.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `pacing` | on | requests wait before an advertised quota is used up |
/// | `reserve_percent` | 5 | share of a limit that is kept in reserve; none of a limit below 20 |
/// | `learn_first` | 1 s | how long requests to a new scope wait for its first response |
/// | `deadline` | 2 min | the longest total wait of a request |
/// | `attempts_max` | 5 | times a request is sent, the first included |
/// | `repeat_refused` | on | a 429 is retried with any method, because the request was not handled |
/// | `backoff` | 500 ms to 30 s | waits after a refusal without a time |
/// | `jitter` | 10 %, at most 5 s | random time added to the time that a server requests |
/// | `hold_max` | 24 h | the longest wait that a server can request |
/// | `budget` | 10 %, 10 per minute | retries: share of the requests, and minimum |
/// | `refusals` | 1000 in 10 min | a scope with this number of 429s is stopped for 10 min |
/// | `scopes_max` | 256 | scopes in memory |
/// | `waiters_max` | 1024 | requests that wait at the same time |
///
/// ```
/// use std::time::Duration;
/// use slidegate_client::Settings;
///
/// let settings = Settings::builder()
///     .attempts_max(3)
///     .deadline(Duration::from_secs(30))
///     .build()?;
/// assert_ne!(settings, Settings::default());
/// assert!(Settings::builder().attempts_max(0).build().is_err());
/// # Ok::<(), slidegate_client::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub(crate) pacing: bool,
    pub(crate) reserve_percent: u8,
    pub(crate) learn_first: Duration,
    pub(crate) deadline: Duration,
    pub(crate) attempts_max: u32,
    pub(crate) repeat_refused: bool,
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) jitter_percent: u8,
    pub(crate) jitter_max: Duration,
    pub(crate) hold_max: Duration,
    pub(crate) budget_percent: u8,
    pub(crate) budget_floor: u32,
    pub(crate) refusals_max: u64,
    pub(crate) refusals_window: Duration,
    pub(crate) scopes_max: usize,
    pub(crate) waiters_max: usize,
}

impl Settings {
    /// Returns a builder with the defaults.
    pub fn builder() -> SettingsBuilder {
        SettingsBuilder { settings: Self::default() }
    }

    /// Returns the maximum jitter for a wait of `delay` that a server requested.
    pub(crate) fn jitter(&self, delay: Duration) -> Duration {
        let share = delay / 100 * u32::from(self.jitter_percent);
        share.min(self.jitter_max)
    }

    /// Returns the maximum wait after the `attempts`th refusal without a time. It doubles each
    /// time.
    pub(crate) fn backoff(&self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(31);
        self.backoff_first.saturating_mul(1 << doublings).min(self.backoff_max)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pacing: true,
            reserve_percent: 5,
            learn_first: Duration::from_secs(1),
            deadline: Duration::from_secs(120),
            attempts_max: 5,
            repeat_refused: true,
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(30),
            jitter_percent: 10,
            jitter_max: Duration::from_secs(5),
            hold_max: Duration::from_secs(24 * 3600),
            budget_percent: 10,
            budget_floor: 10,
            refusals_max: 1000,
            refusals_window: Duration::from_secs(600),
            scopes_max: 256,
            waiters_max: 1024,
        }
    }
}

/// Builds [`Settings`].
#[derive(Debug, Clone)]
#[must_use = "call `build` to get settings"]
pub struct SettingsBuilder {
    settings: Settings,
}

/// The maximum of all times: ten years.
const TIME_MAX: Duration = AdvertisedLimits::WAIT_MAX;

/// Adds a method to the builder for each setting with one value.
macro_rules! setters {
    ($($(#[$doc:meta])+ $name:ident: $type:ty,)+) => {
        impl SettingsBuilder {
            $($(#[$doc])+
            pub fn $name(mut self, $name: $type) -> Self {
                self.settings.$name = $name;
                self
            })+
        }
    };
}

setters! {
    /// Sets whether requests wait before an advertised quota is used up.
    pacing: bool,
    /// Sets the share of every limit that is kept in reserve, 0 to 90 percent, rounded down.
    reserve_percent: u8,
    /// Sets how long requests to a new scope wait for its first response. Zero disables this.
    learn_first: Duration,
    /// Sets the maximum total wait of a request: in the queue, while its scope is held, between
    /// attempts. The response time of the server is not limited.
    deadline: Duration,
    /// Sets the maximum number of attempts, 1 to 100. One means no retry.
    attempts_max: u32,
    /// Sets whether a 429 is also retried with methods that are not idempotent, such as `POST`.
    repeat_refused: bool,
    /// Sets the longest wait that a server can request. Longer ones are shortened to it.
    hold_max: Duration,
    /// Sets the maximum number of scopes in memory, 1 to 65536.
    scopes_max: usize,
    /// Sets the maximum number of requests that wait at the same time, at most 65536.
    waiters_max: usize,
}

impl SettingsBuilder {
    /// Sets the bounds of the waits after refusals without a time. A wait is random from zero to
    /// the bound, which starts at `first` and doubles up to `most`.
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        self.settings.backoff_first = first;
        self.settings.backoff_max = most;
        self
    }

    /// Sets the jitter: up to `percent` (0 to 100) of the time that a server requests, at most
    /// `most`.
    pub fn jitter(mut self, percent: u8, most: Duration) -> Self {
        self.settings.jitter_percent = percent;
        self.settings.jitter_max = most;
        self
    }

    /// Allows retries for `percent` (0 to 100) of a scope's requests, and at least `floor` per
    /// minute.
    pub fn budget(mut self, percent: u8, floor: u32) -> Self {
        self.settings.budget_percent = percent;
        self.settings.budget_floor = floor;
        self
    }

    /// Sets when a scope is stopped: `most` times 429 within `window` stop it for another `window`.
    pub fn refusals(mut self, most: u64, window: Duration) -> Self {
        self.settings.refusals_max = most;
        self.settings.refusals_window = window;
        self
    }

    /// Checks and builds the settings.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of range.
    pub fn build(self) -> Result<Settings, Error> {
        let settings = self.settings;
        check("reserve_percent", settings.reserve_percent, 0..=90)?;
        check("jitter percent", settings.jitter_percent, 0..=100)?;
        check("budget percent", settings.budget_percent, 0..=100)?;
        check("attempts_max", settings.attempts_max, 1..=100)?;
        check("budget floor", settings.budget_floor, 0..=1_000_000)?;
        check("refusals_max", settings.refusals_max, 1..=1_000_000)?;
        check("scopes_max", settings.scopes_max, 1..=65_536)?;
        check("waiters_max", settings.waiters_max, 0..=65_536)?;
        let times = [
            ("learn_first", settings.learn_first, Duration::ZERO),
            ("deadline", settings.deadline, Duration::ZERO),
            ("first backoff", settings.backoff_first, Duration::ZERO),
            ("backoff", settings.backoff_max, settings.backoff_first),
            ("jitter", settings.jitter_max, Duration::ZERO),
            ("hold_max", settings.hold_max, Duration::from_millis(1)),
            ("refusals window", settings.refusals_window, Duration::from_millis(1)),
        ];
        for (what, time, least) in times {
            if !(least..=TIME_MAX).contains(&time) {
                return Err(Error::setting(what, time, &format!("{least:?} to ten years")));
            }
        }
        Ok(settings)
    }
}

fn check<T>(what: &str, value: T, range: RangeInclusive<T>) -> Result<(), Error>
where
    T: PartialOrd + Default + Debug,
{
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    let allowed = if least == T::default() {
        format!("at most {most:?}")
    } else {
        format!("{least:?} to {most:?}")
    };
    Err(Error::setting(what, value, &allowed))
}

#[cfg(test)]
mod tests;
