//! One quota of a server, and the requests sent under it.

use core::time::Duration;

use slidegate::Quota;
use slidegate_http::AdvertisedQuota;

use crate::round_trips::RoundTrips;
use crate::scope::split_at_most;
use crate::settings::Settings;
use crate::ticket::Taken;
use crate::unit_counter::UnitCounter;

/// One quota of a server, as far as it is advertised, and the requests sent under it.
///
/// With a limit and a window, own requests are counted in the server's window, with a slightly longer
/// window and a slightly lower limit. Units that the server counts beyond them belong to other
/// clients, and are assumed until the next answer. Without a window, only the remaining number
/// counts. A server that refuses what this count allows counts differently and dislikes bursts:
/// requests are then spread over the window for a while, and slower with each further refusal.
#[derive(Debug, Default)]
pub(crate) struct QuotaTracker {
    pub(crate) number: u64,
    name: Option<Box<str>>,
    limit: Option<u64>,
    window: Option<Duration>,
    /// Own units, and whether there is room for more; `None` without a limit and a window.
    own: Option<UnitCounter>,
    /// Own units that the server may still count: those of the last window and round trip.
    lasting: Option<UnitCounter>,
    /// Own units in a part of the window, while they are spread over it.
    spread: Option<Spread>,
    /// Units ever sent.
    total: u64,
    status: Option<QuotaStatus>,
    /// When a request was sent to find out if units are available again.
    probe: Option<Duration>,
    pub(crate) updated_at: Duration,
}

/// The quota's status according to the latest answer.
#[derive(Debug, Clone, Copy)]
struct QuotaStatus {
    /// Units left, minus those sent since.
    left: u64,
    /// Units that the server counts and other clients sent.
    foreign: u64,
    /// When the server said that more units become available.
    reset_at: Duration,
    received_at: Duration,
    /// Units ever sent when the request of that answer was sent.
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

/// Whether units are available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    /// Unknown, and it is time to find out.
    Probe,
    /// Ask again then.
    At(Duration),
}

/// The part of an answer about one quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaUpdate<'a> {
    pub(crate) quota: &'a AdvertisedQuota,
    /// What the request took, if the quota was known when it was sent.
    pub(crate) taken: Option<&'a Taken>,
    pub(crate) trips: &'a RoundTrips,
    /// Requests of the scope in flight, including this one.
    pub(crate) in_flight: u64,
    /// Whether the answer is a 429.
    pub(crate) is_over_quota: bool,
    pub(crate) now: Duration,
}

/// The number of parts over which requests are spread.
const PARTS: u32 = 10;

/// Requests are spread for this number of windows after an unexpected refusal.
const SPREAD_WINDOWS: u32 = 20;

/// What another such refusal adds to the window, in percent, and its maximum.
const SLACK: u32 = 2;
const SLACK_MAX: u32 = 20;

/// How long to wait for the answer to a probe before the next one.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// A quota that is not advertised for this long, or for two windows, is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The longest name that is kept.
const NAME_BYTES_MAX: usize = 256;

/// The largest limit that can be counted.
const LIMIT_MAX: u64 = Quota::LIMIT_MAX;

impl QuotaTracker {
    /// A quota that is advertised for the first time.
    pub(crate) fn new(number: u64, update: &QuotaUpdate<'_>, settings: &Settings) -> Self {
        let name = update.quota.name().map(|name| split_at_most(name, NAME_BYTES_MAX).0.into());
        let mut tracker = Self { number, name, ..Self::default() };
        tracker.learn(update, settings);
        // All requests in flight count, though they were sent before the quota was known.
        tracker.total = update.in_flight;
        for counter in tracker.own.iter().chain(&tracker.lasting) {
            let _receipt = counter.take(update.in_flight, update.now);
        }
        tracker.set_status(update, update.in_flight, update.in_flight, settings);
        tracker
    }

    /// Whether this tracker is for an advertised quota.
    pub(crate) fn tracks(&self, quota: &AdvertisedQuota) -> bool {
        match (&self.name, quota.name()) {
            (Some(name), Some(other)) => **name == *split_at_most(other, NAME_BYTES_MAX).0,
            (None, None) => self.window == quota.window(),
            _ => false,
        }
    }

    /// Learns from another answer. Returns whether it is the answer to a probe.
    pub(crate) fn apply(&mut self, update: &QuotaUpdate<'_>, settings: &Settings) -> bool {
        self.learn(update, settings);
        // A request sent before the quota was known is older than the answer that made it known.
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

    /// Whether the last of `units` could go now.
    pub(crate) fn room(&self, units: u64, now: Duration) -> Room {
        match &self.own {
            Some(own) => match self.room_in_part(units, now) {
                Room::Free => self.room_in_window(own, units, now),
                room => room,
            },
            None => match self.status {
                Some(status) if units > status.left => self.probing(units, status.reset_at, now),
                _ => Room::Free,
            },
        }
    }

    /// Takes one unit.
    pub(crate) fn take(&mut self, is_probe: bool, now: Duration) -> Taken {
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
        Taken { tracker: self.number, receipt, used, total: self.total, is_probe }
    }

    /// Returns the units of a request that did not count under this quota, if it has a name.
    pub(crate) fn give_back(&mut self, taken: Taken, now: Duration) {
        if self.name.is_none() {
            return;
        }
        if let (Some(own), Some(receipt)) = (&self.own, taken.receipt) {
            own.give_back(receipt, now);
        }
        self.give_up(taken.is_probe);
    }

    /// Ends a probe. Returns whether the request was the current one.
    pub(crate) fn give_up(&mut self, is_probe: bool) -> bool {
        is_probe && self.probe.take().is_some()
    }

    pub(crate) fn is_stale(&self, now: Duration) -> bool {
        let windows = self.window.unwrap_or_default().saturating_mul(2);
        let forgotten = self.updated_at.saturating_add(windows.max(FORGET_AFTER));
        // The advertised reset is kept, however long no request is sent.
        let reset = self.status.map_or(Duration::ZERO, |status| status.reset_at);
        now > forgotten.max(reset)
    }

    /// The room in the current part of the window, if requests are spread.
    fn room_in_part(&self, units: u64, now: Duration) -> Room {
        match &self.spread {
            Some(spread) if now < spread.until => {
                at(now.saturating_add(spread.share.wait(units, now)), now)
            }
            _ => Room::Free,
        }
    }

    /// Starts to limit requests to a share in each part of the window.
    fn spread_out(&mut self, now: Duration) {
        let Some(own) = &self.own else { return };
        let quota = own.quota();
        let parts = u32::try_from(quota.limit()).map_or(PARTS, |limit| limit.min(PARTS));
        // Rounded up: the sum of the shares must not be less than the limit.
        let share = quota.limit().div_ceil(u64::from(parts));
        let until = now.saturating_add(quota.window().saturating_mul(SPREAD_WINDOWS));
        let Ok(share) = Quota::new(share, quota.window() / parts) else { return };
        match &mut self.spread {
            Some(spread) if now < spread.until => {
                // Several refusals within a window are one reason to be slower.
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

    /// The room for own units together with those of other clients, in one window.
    fn room_in_window(&self, own: &UnitCounter, units: u64, now: Duration) -> Room {
        let after_own = now.saturating_add(own.wait(units, now));
        let (foreign, window) = (self.foreign(now), own.quota().window());
        let Some(status) = self.status.filter(|_| foreign > 0) else {
            return at(after_own, now);
        };
        // The units of others expire at the latest one window after the answer.
        let gone = status.received_at.saturating_add(window);
        let all = units.saturating_add(foreign);
        let after_all = now.saturating_add(own.wait(all, now)).min(gone).max(after_own);
        let is_free = after_all <= now;
        // Other clients send too, so the remaining number is not exceeded before the next answer.
        if is_free && units <= status.left {
            return Room::Free;
        }
        if !is_free && status.reset_at >= after_all {
            return Room::At(after_all);
        }
        // The server said that more are available before that.
        match self.probing(units, status.reset_at.max(after_own), now) {
            Room::At(next) => Room::At(next.min(if is_free { gone } else { after_all })),
            room => room,
        }
    }

    /// From `time` on, one request at a time is sent as a probe.
    fn probing(&self, units: u64, time: Duration, now: Duration) -> Room {
        if now < time {
            return Room::At(time);
        }
        let patience = self.probe.map(|probe| probe.saturating_add(PROBE_PATIENCE));
        match patience {
            Some(until) if now < until => Room::At(until),
            _ if units <= 1 => Room::Probe,
            _ => Room::At(now.saturating_add(PROBE_PATIENCE)),
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

    /// The quota of the counter `lasting`, which has no effective limit.
    fn lasting(&self, trip: Duration) -> Option<Quota> {
        let window = self.own.as_ref()?.quota().window();
        longer(LIMIT_MAX, window, steps_up(trip.max(window / 64), window / 64, 64))
    }

    /// The quota for own requests, slightly below the server's.
    fn paced(&self, update: &QuotaUpdate<'_>, settings: &Settings) -> Option<Quota> {
        let limit = self.limit?.min(LIMIT_MAX);
        let window = self.window?;
        // Rounded down: one unit would be a large share of a small limit.
        let reserve = limit / 100 * u64::from(settings.reserve_percent)
            + limit % 100 * u64::from(settings.reserve_percent) / 100;
        let margin = steps_up(update.trips.spread(), window / 80, 4);
        let active = self.spread.as_ref().filter(|spread| update.now < spread.until);
        let slack = window / 100 * active.map_or(0, |spread| spread.slack);
        longer(limit.saturating_sub(reserve), window, margin.saturating_add(slack))
    }

    /// Sets the status, if it is advertised. `own` is what this client has certainly sent.
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

/// Changes the counter's quota; without a quota there is no counter.
fn change(counter: &mut Option<UnitCounter>, quota: Option<Quota>) {
    match (quota, &mut *counter) {
        (Some(quota), Some(counter)) => counter.change(quota),
        (Some(quota), None) => *counter = UnitCounter::new(quota).ok(),
        (None, _) => *counter = None,
    }
}

/// Rounds a time up to a multiple of `step`, at most `count` of them, so that the quota does not
/// change with every answer.
fn steps_up(time: Duration, step: Duration, count: u32) -> Duration {
    (0..count).map(|steps| step * steps).find(|rounded| *rounded >= time).unwrap_or(step * count)
}

/// A quota whose window is longer by `margin`, unless that is longer than a window may be. Returns
/// `None` for a limit of zero, which leaves nothing to pace.
fn longer(limit: u64, window: Duration, margin: Duration) -> Option<Quota> {
    if limit == 0 {
        return None;
    }
    let longer = Quota::new(limit, window.saturating_add(margin));
    longer.or_else(|_| Quota::new(limit, window)).ok()
}

fn at(time: Duration, now: Duration) -> Room {
    if time <= now { Room::Free } else { Room::At(time) }
}
