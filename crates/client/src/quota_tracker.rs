//! A quota of a server, and the requests sent under it.

use core::time::Duration;

use slidegate::Quota;
use slidegate_http::AdvertisedQuota;

use crate::round_trips::RoundTrips;
use crate::scope::split_at_most;
use crate::settings::Settings;
use crate::ticket::TakenUnits;
use crate::unit_counter::UnitCounter;

/// A quota that a server advertises, and the requests sent under it.
///
/// With a limit and a window, the client counts its own requests in the server's window, with a
/// slightly longer window and a slightly lower limit. Further units that the server counts belong
/// to other clients, and are assumed until the next response. Without a window, only the remaining
/// number is used.
///
/// If a server refuses requests that this count allows, it counts differently and does not accept
/// bursts. Requests are then spread over the window for a while, and slow down with each further
/// refusal.
#[derive(Debug, Default)]
pub(crate) struct QuotaTracker {
    pub(crate) number: u64,
    name: Option<Box<str>>,
    limit: Option<u64>,
    window: Option<Duration>,
    /// Own units, and whether more are allowed. `None` without a limit and a window.
    own: Option<UnitCounter>,
    /// Own units that the server may still count: those of the last window and round trip.
    lasting: Option<UnitCounter>,
    /// Own units in a part of the window, while they are spread over it.
    spread: Option<Spread>,
    /// The total number of units sent.
    total: u64,
    status: Option<QuotaStatus>,
    /// When a request was sent as a probe for available units.
    probe: Option<Duration>,
    pub(crate) updated_at: Duration,
}

/// The status of the quota in the latest response.
#[derive(Debug, Clone, Copy)]
struct QuotaStatus {
    /// Units left, minus those sent since.
    left: u64,
    /// Units that the server counts for other clients.
    foreign: u64,
    /// When more units become available according to the server.
    reset_at: Duration,
    received_at: Duration,
    /// The total number of units sent when the request of that response was sent.
    total: u64,
}

/// Limits requests to a share in each part of the window.
#[derive(Debug)]
struct Spread {
    share: UnitCounter,
    /// When the last unexpected refusal was received.
    since: Duration,
    until: Duration,
    /// The percentage by which the window is longer.
    slack: u32,
}

/// The availability of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Free,
    /// Unknown, and it is time to send a probe.
    Probe,
    /// Check again at this time.
    At(Duration),
}

/// The part of a response about one quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaUpdate<'a> {
    pub(crate) quota: &'a AdvertisedQuota,
    /// The units that the request took, if the quota was known when it was sent.
    pub(crate) taken: Option<&'a TakenUnits>,
    pub(crate) trips: &'a RoundTrips,
    /// Requests of the scope in flight, including this one.
    pub(crate) in_flight: u64,
    /// Whether the response is a 429.
    pub(crate) is_over_quota: bool,
    pub(crate) now: Duration,
}

/// The number of parts over which requests are spread.
const PARTS: u32 = 10;

/// Requests are spread for this number of windows after an unexpected refusal.
const SPREAD_WINDOWS: u32 = 20;

/// The percentage that each further refusal adds to the window, and its maximum.
const SLACK: u32 = 2;
const SLACK_MAX: u32 = 20;

/// The time to wait for the response to a probe before the next one.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// The time after which a quota is removed if it is no longer advertised, unless two windows are
/// longer.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The maximum length of a stored name.
const NAME_BYTES_MAX: usize = 256;

/// The largest limit that can be counted.
const LIMIT_MAX: u64 = Quota::LIMIT_MAX;

impl QuotaTracker {
    /// Creates a tracker for a quota that is advertised for the first time.
    pub(crate) fn new(number: u64, update: &QuotaUpdate<'_>, settings: &Settings) -> Self {
        let name = update.quota.name().map(|name| split_at_most(name, NAME_BYTES_MAX).0.into());
        let mut tracker = Self { number, name, ..Self::default() };
        tracker.learn(update, settings);
        // All requests in flight count, although they were sent before the quota was known.
        tracker.total = update.in_flight;
        for counter in tracker.own.iter().chain(&tracker.lasting) {
            let _receipt = counter.take(update.in_flight, update.now);
        }
        tracker.set_status(update, update.in_flight, update.in_flight, settings);
        tracker
    }

    /// Returns `true` if this tracker is for an advertised quota.
    pub(crate) fn tracks(&self, quota: &AdvertisedQuota) -> bool {
        match (&self.name, quota.name()) {
            (Some(name), Some(other)) => **name == *split_at_most(other, NAME_BYTES_MAX).0,
            (None, None) => self.window == quota.window(),
            _ => false,
        }
    }

    /// Learns from another response. Returns `true` if it is the response to a probe.
    pub(crate) fn apply(&mut self, update: &QuotaUpdate<'_>, settings: &Settings) -> bool {
        self.learn(update, settings);
        // A request sent before the quota was known is older than the response that advertised it.
        let Some(taken) = update.taken else { return false };
        let is_fresh = self.status.is_none_or(|status| status.total <= taken.total);
        if is_fresh {
            let since = self.total.saturating_sub(taken.total);
            let own = taken.used.saturating_add(since);
            self.set_status(update, own, taken.total, settings);
        }
        if update.is_over_quota && taken.receipt.is_some() && !taken.is_probe {
            self.spread_out(update.now);
        }
        self.give_up(taken.is_probe)
    }

    /// Returns whether the last of `units` could be sent now.
    pub(crate) fn room(&self, units: u64, now: Duration) -> Availability {
        match &self.own {
            Some(own) => match self.room_in_part(units, now) {
                Availability::Free => self.room_in_window(own, units, now),
                room => room,
            },
            None => match self.status {
                Some(status) if units > status.left => self.probing(units, status.reset_at, now),
                _ => Availability::Free,
            },
        }
    }

    /// Takes one unit.
    pub(crate) fn take(&mut self, is_probe: bool, now: Duration) -> TakenUnits {
        self.total += 1;
        if let Some(status) = &mut self.status {
            status.left = status.left.saturating_sub(1);
        }
        if is_probe {
            self.probe = Some(now);
        }
        if let Some(spread) = &self.spread {
            let _receipt = spread.share.take(1, now);
        }
        let receipt = self.own.as_ref().and_then(|own| own.take(1, now));
        let used = self.lasting.as_ref().map_or(0, |lasting| {
            let _receipt = lasting.take(1, now);
            lasting.used(now)
        });
        TakenUnits { tracker: self.number, receipt, used, total: self.total, is_probe }
    }

    /// Returns the units of a request that did not count under this quota, if it has a name.
    pub(crate) fn give_back(&mut self, taken: TakenUnits, now: Duration) {
        if self.name.is_none() {
            return;
        }
        if let (Some(own), Some(receipt)) = (&self.own, taken.receipt) {
            own.give_back(receipt, now);
        }
        self.give_up(taken.is_probe);
    }

    /// Ends a probe. Returns `true` if the request was the current probe.
    pub(crate) fn give_up(&mut self, is_probe: bool) -> bool {
        is_probe && self.probe.take().is_some()
    }

    pub(crate) fn is_stale(&self, now: Duration) -> bool {
        let windows = self.window.unwrap_or_default().saturating_mul(2);
        let forgotten = self.updated_at.saturating_add(windows.max(FORGET_AFTER));
        // The advertised reset applies, however long no request is sent.
        let reset = self.status.map_or(Duration::ZERO, |status| status.reset_at);
        now > forgotten.max(reset)
    }

    /// Returns the availability in the current part of the window, if requests are spread.
    fn room_in_part(&self, units: u64, now: Duration) -> Availability {
        match &self.spread {
            Some(spread) if now < spread.until => {
                at(now.saturating_add(spread.share.wait(units, now)), now)
            }
            _ => Availability::Free,
        }
    }

    /// Starts to limit requests to a share in each part of the window.
    fn spread_out(&mut self, now: Duration) {
        let Some(own) = &self.own else { return };
        let quota = own.quota();
        let parts = u32::try_from(quota.limit()).map_or(PARTS, |limit| limit.min(PARTS));
        // Rounded up, so that the sum of the shares is not less than the limit.
        let share = quota.limit().div_ceil(u64::from(parts));
        let until = now.saturating_add(quota.window().saturating_mul(SPREAD_WINDOWS));
        let Ok(share) = Quota::new(share, quota.window() / parts) else { return };
        match &mut self.spread {
            Some(spread) if now < spread.until => {
                // Several refusals within a window count once.
                if now >= spread.since.saturating_add(quota.window()) {
                    spread.slack = (spread.slack + SLACK).min(SLACK_MAX);
                    spread.since = now;
                }
                spread.share.change(share);
                spread.until = until;
            }
            _ => {
                let share = UnitCounter::new(share).ok();
                self.spread = share.map(|share| Spread { share, since: now, until, slack: 0 });
            }
        }
    }

    /// Returns the availability for own units together with those of other clients, in one window.
    fn room_in_window(&self, own: &UnitCounter, units: u64, now: Duration) -> Availability {
        let after_own = now.saturating_add(own.wait(units, now));
        let (foreign, window) = (self.foreign(now), own.quota().window());
        let Some(status) = self.status.filter(|_| foreign > 0) else {
            return at(after_own, now);
        };
        // The units of other clients expire at the latest one window after the response.
        let gone = status.received_at.saturating_add(window);
        let all = units.saturating_add(foreign);
        let after_all = now.saturating_add(own.wait(all, now)).min(gone).max(after_own);
        let is_free = after_all <= now;
        // Other clients send too, so the remaining number is not exceeded before the next response.
        if is_free && units <= status.left {
            return Availability::Free;
        }
        if !is_free && status.reset_at >= after_all {
            return Availability::At(after_all);
        }
        // According to the server, more units are available before that.
        match self.probing(units, status.reset_at.max(after_own), now) {
            Availability::At(next) => {
                Availability::At(next.min(if is_free { gone } else { after_all }))
            }
            room => room,
        }
    }

    /// Returns `Probe` from `time` on, for one request at a time.
    fn probing(&self, units: u64, time: Duration, now: Duration) -> Availability {
        if now < time {
            return Availability::At(time);
        }
        let patience = self.probe.map(|probe| probe.saturating_add(PROBE_PATIENCE));
        match patience {
            Some(until) if now < until => Availability::At(until),
            _ if units <= 1 => Availability::Probe,
            _ => Availability::At(now.saturating_add(PROBE_PATIENCE)),
        }
    }

    fn foreign(&self, now: Duration) -> u64 {
        let (Some(status), Some(window)) = (self.status, self.window) else { return 0 };
        if now >= status.received_at.saturating_add(window) { 0 } else { status.foreign }
    }

    /// Updates limit and window, and the counters that depend on them.
    fn learn(&mut self, update: &QuotaUpdate<'_>, settings: &Settings) {
        self.updated_at = update.now;
        self.limit = update.quota.limit().or(self.limit);
        self.window = update.quota.window().or(self.window);
        let paced = self.paced(update, settings);
        change(&mut self.own, paced);
        let lasting = self.lasting(update.trips.longest());
        change(&mut self.lasting, lasting);
    }

    /// Returns the quota of the counter `lasting`, which has no effective limit.
    fn lasting(&self, trip: Duration) -> Option<Quota> {
        let window = self.own.as_ref()?.quota().window();
        longer(LIMIT_MAX, window, steps_up(trip.max(window / 64), window / 64, 64))
    }

    /// Returns the quota for own requests, slightly below the server's.
    fn paced(&self, update: &QuotaUpdate<'_>, settings: &Settings) -> Option<Quota> {
        let limit = self.limit?.min(LIMIT_MAX);
        let window = self.window?;
        // Rounded down, because one unit would be a large share of a small limit.
        let reserve = limit / 100 * u64::from(settings.reserve_percent)
            + limit % 100 * u64::from(settings.reserve_percent) / 100;
        let margin = steps_up(update.trips.spread(), window / 80, 4);
        let active = self.spread.as_ref().filter(|spread| update.now < spread.until);
        let slack = window / 100 * active.map_or(0, |spread| spread.slack);
        longer(limit.saturating_sub(reserve), window, margin.saturating_add(slack))
    }

    /// Sets the status, if it is advertised. `own` is the number of units that this client has
    /// certainly sent.
    fn set_status(&mut self, update: &QuotaUpdate<'_>, own: u64, total: u64, settings: &Settings) {
        let (quota, now) = (update.quota, update.now);
        let Some(remaining) = quota.remaining() else { return };
        let counted = self.limit.map_or(0, |limit| limit.saturating_sub(remaining));
        let reset_after = quota.reset_after().unwrap_or_default().min(settings.hold_max);
        // Other requests in flight may not be counted yet, whichever was sent first.
        let others = update.in_flight.saturating_sub(1);
        self.status = Some(QuotaStatus {
            left: remaining.saturating_sub(others),
            foreign: counted.saturating_sub(own),
            reset_at: now.saturating_add(reset_after),
            received_at: now,
            total,
        });
    }
}

/// Changes the quota of the counter, or removes the counter without a quota.
fn change(counter: &mut Option<UnitCounter>, quota: Option<Quota>) {
    match (quota, &mut *counter) {
        (Some(quota), Some(counter)) => counter.change(quota),
        (Some(quota), None) => *counter = UnitCounter::new(quota).ok(),
        (None, _) => *counter = None,
    }
}

/// Rounds a time up to a multiple of `step`, at most `count` of them, so that the quota does not
/// change with every response.
fn steps_up(time: Duration, step: Duration, count: u32) -> Duration {
    (0..count).map(|steps| step * steps).find(|rounded| *rounded >= time).unwrap_or(step * count)
}

/// Returns a quota whose window is longer by `margin`, up to the maximum. Returns `None` for a
/// limit of zero, for which nothing can be paced.
fn longer(limit: u64, window: Duration, margin: Duration) -> Option<Quota> {
    if limit == 0 {
        return None;
    }
    let longer = Quota::new(limit, window.saturating_add(margin));
    longer.or_else(|_| Quota::new(limit, window)).ok()
}

fn at(time: Duration, now: Duration) -> Availability {
    if time <= now { Availability::Free } else { Availability::At(time) }
}
