//! Builds an overload guard.

use core::time::Duration;

use slidegate::{Clock, Error, ErrorKind, MonotonicClock};

use super::guard::{OverloadGuard, Settings};

/// Builds an [`OverloadGuard`].
///
/// | setting | default |
/// |---|---|
/// | [`multiple_percent`](Self::multiple_percent) | 200: twice the baseline |
/// | [`interval`](Self::interval) | 1 s |
/// | [`weight`](Self::weight) | 16: the baseline follows within a quarter of a minute |
/// | [`warm_up`](Self::warm_up) | 30 intervals |
/// | [`floor`](Self::floor) | 100 requests in an interval |
/// | [`concurrency_max`](Self::concurrency_max) | no bound |
/// | [`queue_max`](Self::queue_max) | 256 requests |
/// | [`delay_max`](Self::delay_max) | 250 ms |
/// | [`enabled`](Self::enabled) | yes |
#[derive(Debug)]
#[must_use = "call `build` to get a guard"]
pub struct OverloadGuardBuilder {
    settings: Settings,
    clock: Option<Box<dyn Clock>>,
}

impl OverloadGuardBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            settings: Settings {
                name: name.to_owned(),
                percent: 200,
                interval: Duration::from_secs(1),
                weight: 16,
                warm_up: 30,
                floor: 100,
                concurrency_max: usize::MAX,
                queue_max: 256,
                delay_max: Duration::from_millis(250),
                enabled: true,
            },
            clock: None,
        }
    }

    /// Sets how far arrivals may exceed their baseline, in percent of it: 101 to 10000.
    pub fn multiple_percent(mut self, percent: u32) -> Self {
        self.settings.percent = percent;
        self
    }

    /// Sets the interval over which arrivals are counted: 10 ms to 1 h.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval;
        self
    }

    /// Sets the weight of the baseline: each interval moves it by its difference divided by this, 1
    /// to 1024.
    pub fn weight(mut self, weight: u32) -> Self {
        self.settings.weight = weight;
        self
    }

    /// Sets the number of intervals of learning after the first request, at most 100000. During
    /// these, only the bound on concurrency applies.
    pub fn warm_up(mut self, intervals: u32) -> Self {
        self.settings.warm_up = intervals;
        self
    }

    /// Sets the minimum of the baseline in requests per interval, at least 1, so that a quiet night
    /// does not make the morning an overload.
    pub fn floor(mut self, arrivals: u32) -> Self {
        self.settings.floor = arrivals;
        self
    }

    /// Sets the maximum number of requests in service, at least 1.
    pub fn concurrency_max(mut self, requests: usize) -> Self {
        self.settings.concurrency_max = requests;
        self
    }

    /// Sets the maximum number of requests in the queue. With zero, excess requests are rejected
    /// immediately.
    pub fn queue_max(mut self, requests: usize) -> Self {
        self.settings.queue_max = requests;
        self
    }

    /// Sets the maximum time of a request in the queue, at most 60 s.
    pub fn delay_max(mut self, delay: Duration) -> Self {
        self.settings.delay_max = delay;
        self
    }

    /// Sets whether the guard is enabled. [`OverloadGuard::set_enabled`] changes it later. A
    /// disabled guard still counts, so that it knows its baseline when it is enabled.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.settings.enabled = enabled;
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Checks the settings and builds the guard.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is not a valid policy name, or a setting is out of range.
    pub fn build(self) -> Result<OverloadGuard, Error> {
        let settings = self.settings;
        check_name(&settings.name)?;
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        check("multiple_percent", settings.percent.into(), 101, 10_000)?;
        check("interval in milliseconds", millis(settings.interval), 10, 3_600_000)?;
        check("weight", settings.weight.into(), 1, 1024)?;
        check("warm_up", settings.warm_up.into(), 0, 100_000)?;
        check("floor", settings.floor.into(), 1, u32::MAX.into())?;
        check("delay_max in milliseconds", millis(settings.delay_max), 0, 60_000)?;
        if settings.concurrency_max == 0 {
            return Err(refused("concurrency_max 0 is out of range: use 1 or more".to_owned()));
        }
        let clock = self.clock.unwrap_or_else(|| Box::new(MonotonicClock::precise()));
        Ok(OverloadGuard::new(settings, clock))
    }
}

/// Checks the name by the rules for policy names, so that it can be a metric label.
fn check_name(name: &str) -> Result<(), Error> {
    slidegate::Policy::new(name, slidegate::Quota::per_second(1)).map(|_| ())
}

fn check(what: &str, value: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(refused(format!("{what} {value} is out of range: use {least} to {most}")))
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Setting, message)
}
