//! One quota of a server, as far as it was told, and what was sent under it.

use core::time::Duration;

use slidegate::Quota;
use slidegate_http::AdvertisedQuota;

use crate::count::Count;
use crate::settings::Settings;
use crate::ticket::Taken;
use crate::trips::Trips;

/// One quota of a server, as far as it was told, and what was sent under it.
///
/// With a limit and a window, own requests are counted in the same window as the server's, a
/// little longer and with a little less in it. What the server counts beyond them is by others,
/// and is believed until the next answer. Without a window, only what was told to be left counts.
/// A server that refuses what this count lets pass counts otherwise, and does not like bursts: then
/// requests are spread over the window for a while, and slower each time.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) number: u64,
    name: Option<Box<str>>,
    limit: Option<u64>,
    window: Option<Duration>,
    /// Own units, and whether there is room for more; none without a limit and a window.
    own: Option<Count>,
    /// Own units that the server may still count: for as long as a window and a round trip.
    lasting: Option<Count>,
    /// Own units in a part of the window, while they are spread over it.
    spread: Option<Spread>,
    /// Units ever sent.
    total: u64,
    standing: Option<Standing>,
    /// When one was sent to find out if there are units again.
    probe: Option<Duration>,
    heard_at: Duration,
}

/// Where the quota stood by the freshest answer.
#[derive(Debug, Clone, Copy)]
struct Standing {
    /// Units left, less what was sent since.
    left: u64,
    /// Units that the server counts and this client did not send.
    foreign: u64,
    /// When the server said that there will be more.
    reset_at: Duration,
    told_at: Duration,
    /// Units ever sent when the request of that answer was.
    total: u64,
}

/// No more than its share in any part of the window.
#[derive(Debug)]
struct Spread {
    share: Count,
    /// When the last refusal came that was no own fault.
    since: Duration,
    until: Duration,
    /// By how many percent the window is longer.
    slack: u32,
}

/// Whether units are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    /// Nobody knows, but it is time to find out.
    Probe,
    /// Ask again then.
    At(Duration),
}

/// What an answer says about one lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling<'a> {
    pub(crate) quota: &'a AdvertisedQuota,
    /// What the request took, if the lane was there when it was sent.
    pub(crate) taken: Option<&'a Taken>,
    pub(crate) trips: &'a Trips,
    /// Requests of the scope that are out, this one included.
    pub(crate) out: u64,
    /// Whether the answer is a 429.
    pub(crate) is_over_quota: bool,
    pub(crate) now: Duration,
}

/// The parts of a window that requests are spread over.
const PARTS: u32 = 10;

/// For so many windows after a refusal that is no own fault, requests are spread.
const SPREAD_WINDOWS: u32 = 20;

/// What another such refusal adds to the window, in percent, and the most of it.
const SLACK: u32 = 2;
const SLACK_MAX: u32 = 20;

/// How long a probe is waited for before the next.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// A quota that is not told for this long, or for two windows, is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The longest name that is kept.
const NAME_BYTES_MAX: usize = 256;

/// The largest limit that can be counted.
const LIMIT_MAX: u64 = (1 << 53) - 1;

impl Lane {
    /// A quota that was told for the first time.
    pub(crate) fn new(number: u64, telling: &Telling<'_>, settings: &Settings) -> Self {
        let mut lane = Self {
            number,
            name: telling.quota.name().map(cut),
            limit: None,
            window: None,
            own: None,
            lasting: None,
            spread: None,
            total: 0,
            standing: None,
            probe: None,
            heard_at: telling.now,
        };
        lane.learn(telling, settings);
        // All that are out now will count there, and were sent before this lane was known.
        lane.total = telling.out;
        for count in lane.own.iter().chain(&lane.lasting) {
            let _receipt = count.take(telling.out, telling.now);
        }
        lane.stand(telling, telling.out, telling.out, settings);
        lane
    }

    /// Whether a told quota is this one.
    pub(crate) fn is(&self, quota: &AdvertisedQuota) -> bool {
        match (&self.name, quota.name()) {
            (Some(name), Some(told)) => **name == *cut(told),
            (None, None) => self.window == quota.window(),
            _ => false,
        }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Takes in what another answer says; whether it answers a probe.
    pub(crate) fn tell(&mut self, telling: &Telling<'_>, settings: &Settings) -> bool {
        self.learn(telling, settings);
        // Who was sent before the lane was known is older than what made it known.
        let Some(taken) = telling.taken else { return false };
        let is_fresh = self.standing.is_none_or(|standing| standing.total <= taken.total);
        if is_fresh {
            let since = self.total.saturating_sub(taken.total);
            let own = taken.used.saturating_add(since);
            self.stand(telling, own, taken.total, settings);
        }
        if telling.is_over_quota && taken.receipt.is_some() && !taken.is_probe {
            self.spread_out(telling.now);
        }
        taken.is_probe && self.probe.take().is_some()
    }

    /// Whether the last of `units` could go now.
    pub(crate) fn room(&self, units: u64, now: Duration) -> Room {
        match &self.own {
            Some(own) => match self.room_in_part(units, now) {
                Room::Free => self.room_in_window(own, units, now),
                room => room,
            },
            None => self.room_left(units, now),
        }
    }

    /// Takes one unit.
    pub(crate) fn take(&mut self, is_probe: bool, now: Duration) -> Taken {
        self.total += 1;
        if let Some(standing) = &mut self.standing {
            standing.left = standing.left.saturating_sub(1);
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
        Taken { lane: self.number, receipt, used, total: self.total, is_probe }
    }

    /// The request was not judged by this quota.
    pub(crate) fn give_back(&mut self, taken: Taken, now: Duration) {
        if let (Some(own), Some(receipt)) = (&self.own, taken.receipt) {
            own.give_back(receipt, now);
        }
        self.give_up(taken.is_probe);
    }

    /// A request that may have been a probe ended without an answer; whether it was.
    pub(crate) fn give_up(&mut self, is_probe: bool) -> bool {
        is_probe && self.probe.take().is_some()
    }

    pub(crate) fn heard_at(&self) -> Duration {
        self.heard_at
    }

    pub(crate) fn is_stale(&self, now: Duration) -> bool {
        let windows = self.window.unwrap_or_default().saturating_mul(2);
        let forgotten = self.heard_at.saturating_add(windows.max(FORGET_AFTER));
        // The server's word holds, however long nobody asked again.
        let reset = self.standing.map_or(Duration::ZERO, |standing| standing.reset_at);
        now > forgotten.max(reset)
    }

    /// Own units in a part of the window, if they are spread over it.
    fn room_in_part(&self, units: u64, now: Duration) -> Room {
        match &self.spread {
            Some(spread) if now < spread.until => {
                at(now.saturating_add(spread.share.wait(units, now)), now)
            }
            _ => Room::Free,
        }
    }

    /// From now on, no more than its share in any part of the window.
    fn spread_out(&mut self, now: Duration) {
        let Some(own) = &self.own else { return };
        let quota = own.quota();
        let parts = u32::try_from(quota.limit()).map_or(PARTS, |limit| limit.min(PARTS));
        // Rounded up: all parts together must not be less than the whole.
        let share = quota.limit().div_ceil(u64::from(parts));
        let until = now.saturating_add(quota.window().saturating_mul(SPREAD_WINDOWS));
        let Ok(share) = Quota::new(share, quota.window() / parts) else { return };
        match &mut self.spread {
            Some(spread) if now < spread.until => {
                // Many refused together are one reason to be slower.
                if now >= spread.since.saturating_add(quota.window()) {
                    spread.slack = (spread.slack + SLACK).min(SLACK_MAX);
                    spread.since = now;
                }
                spread.share.change(share);
                spread.until = until;
            }
            _ => {
                let share = Count::new(share).ok();
                self.spread = share.map(|share| Spread { share, since: now, until, slack: 0 });
            }
        }
    }

    /// Own units and those of others, in one window.
    fn room_in_window(&self, own: &Count, units: u64, now: Duration) -> Room {
        let after_own = now.saturating_add(own.wait(units, now));
        let (foreign, window) = (self.foreign(now), own.quota().window());
        let Some(standing) = self.standing.filter(|_| foreign > 0) else {
            return at(after_own, now);
        };
        // Others' units are gone a window after they were told, at the latest.
        let gone = standing.told_at.saturating_add(window);
        let all = units.saturating_add(foreign);
        let after_all = now.saturating_add(own.wait(all, now)).min(gone).max(after_own);
        let is_free = after_all <= now;
        // Others take meanwhile, so what was told to be left is not exceeded before the next answer.
        if is_free && units <= standing.left {
            return Room::Free;
        }
        if !is_free && standing.reset_at >= after_all {
            return Room::At(after_all);
        }
        // The server said that there are more before that.
        match self.probing(units, standing.reset_at.max(after_own), now) {
            Room::At(next) => Room::At(next.min(if is_free { gone } else { after_all })),
            room => room,
        }
    }

    /// What the server said to be left.
    fn room_left(&self, units: u64, now: Duration) -> Room {
        match self.standing {
            Some(standing) if units > standing.left => self.probing(units, standing.reset_at, now),
            _ => Room::Free,
        }
    }

    /// From `time` on, one at a time goes and finds out.
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
        let (Some(standing), Some(window)) = (self.standing, self.window) else { return 0 };
        if now >= standing.told_at.saturating_add(window) { 0 } else { standing.foreign }
    }

    /// Limit and window, and so how to count.
    fn learn(&mut self, telling: &Telling<'_>, settings: &Settings) {
        self.heard_at = telling.now;
        self.limit = telling.quota.limit().or(self.limit);
        self.window = telling.quota.window().or(self.window);
        let paced = self.paced(telling, settings);
        change(&mut self.own, paced);
        let lasting = self.lasting(telling.trips.longest());
        change(&mut self.lasting, lasting);
    }

    /// Without a limit: what was sent was sent.
    fn lasting(&self, trip: Duration) -> Option<Quota> {
        let window = self.own.as_ref()?.quota().window();
        // In steps, so that it does not change with every answer; at most a window.
        let step = window / 64;
        let longer = (1..=64).map(|steps| step * steps).find(|longer| *longer >= trip);
        let longer = Quota::new(LIMIT_MAX, window.saturating_add(longer.unwrap_or(window)));
        longer.or_else(|_| Quota::new(LIMIT_MAX, window)).ok()
    }

    /// The quota that own requests keep to: a little below the server's.
    fn paced(&self, telling: &Telling<'_>, settings: &Settings) -> Option<Quota> {
        let limit = self.limit?.min(LIMIT_MAX);
        let window = self.window?;
        // Rounded down: of a small limit nothing is kept back, or it would be a large share.
        let reserve = limit / 100 * u64::from(settings.reserve_percent)
            + limit % 100 * u64::from(settings.reserve_percent) / 100;
        let limit = limit.saturating_sub(reserve);
        // In steps, so that it does not change with every answer; at most a twentieth.
        let (step, spread) = (window / 80, telling.trips.spread());
        let margin = (1..=4).map(|steps| step * steps).find(|margin| *margin >= spread);
        let margin = if spread.is_zero() { Duration::ZERO } else { margin.unwrap_or(step * 4) };
        let active = self.spread.as_ref().filter(|spread| telling.now < spread.until);
        let slack = window / 100 * active.map_or(0, |spread| spread.slack);
        let longer = Quota::new(limit, window.saturating_add(margin).saturating_add(slack));
        // A window of ten years cannot be longer.
        longer.or_else(|_| Quota::new(limit, window)).ok()
    }

    /// Where it stands, if that was told. `own` is what this client has surely sent of it.
    fn stand(&mut self, telling: &Telling<'_>, own: u64, total: u64, settings: &Settings) {
        let (quota, now) = (telling.quota, telling.now);
        let Some(remaining) = quota.remaining() else { return };
        let counted = self.limit.map_or(0, |limit| limit.saturating_sub(remaining));
        let reset_after = quota.reset_after().unwrap_or_default().min(settings.hold_max);
        // Others that are out may not be counted yet, whichever was sent first.
        let out = telling.out.saturating_sub(1);
        self.standing = Some(Standing {
            left: remaining.saturating_sub(out),
            foreign: counted.saturating_sub(own),
            reset_at: now.saturating_add(reset_after),
            told_at: now,
            total,
        });
    }
}

/// Counts by a quota, if there is one.
fn change(count: &mut Option<Count>, quota: Option<Quota>) {
    match (quota, &mut *count) {
        (Some(quota), Some(count)) => count.change(quota),
        (Some(quota), None) => *count = Count::new(quota).ok(),
        (None, _) => *count = None,
    }
}

fn at(time: Duration, now: Duration) -> Room {
    if time <= now { Room::Free } else { Room::At(time) }
}

/// A name, not longer than is kept.
fn cut(name: &str) -> Box<str> {
    let mut end = NAME_BYTES_MAX.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].into()
}
