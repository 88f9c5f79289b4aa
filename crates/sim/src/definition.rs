//! What every algorithm and every operation means, written down once.
//!
//! A limiter is correct if it replies as a [`KeyState`] does. The definition shares no code with the
//! limiters and knows nothing of tables, codes or scripts: it keeps every recorded unit in a list, counts
//! the list again for every operation, and finds each waiting time by trying later and later times.
//! `docs/guarantees.md` says the same in words.
//!
//! # Time
//!
//! Time is counted in ticks. A decision is made at [`Moment::now`], the clock rounded down. Units are
//! recorded at [`Moment::date`], the clock rounded up. So a unit never stops counting too early.
//!
//! # What counts
//!
//! An algorithm divides time into cells and records units by cell. Under a quota of `limit` units per
//! `window`, these units count at `now`:
//!
//! | algorithm | cell | units that count |
//! |---|---|---|
//! | log | one tick | cells whose last tick is after `now - window` |
//! | segments | the window divided by their number, rounded up | cells whose last tick is after `now - window` |
//! | fixed | one window | the current cell |
//! | counter | one window | the current cell, and the share of the previous cell that the window still covers, rounded up |
//! | gcra | none | a bucket that leaks `limit` units per window, rounded up to a unit |
//!
//! Cells are aligned to the epoch. A cost is allowed if it and the units that count fit into the limit of
//! every quota.

mod bucket;

use std::borrow::Cow;
use std::collections::BTreeMap;

use bucket::Bucket;

/// A quota with its window in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TickQuota {
    /// Units allowed in a window.
    pub limit: u64,
    /// Length of the window.
    pub window: u64,
}

/// The most units of one entry of a log that are above the limit.
const UNITS_MAX: u64 = (1 << 53) - 1;

/// A time of the clock in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Moment {
    /// Rounded down, for decisions.
    pub now: u64,
    /// Rounded up, for what is recorded.
    pub date: u64,
}

impl Moment {
    /// The time of a clock that shows exactly `tick`.
    pub fn at(tick: u64) -> Self {
        Self { now: tick, date: tick }
    }
}

/// The rule by which units count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counting {
    /// Every unit at its own tick.
    Log,
    /// The window in this many parts.
    Segments(u64),
    /// The current window and a share of the previous one.
    Counter,
    /// The current window.
    Fixed,
    /// A bucket that leaks evenly.
    Gcra,
}

/// The reply to a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the cost is allowed.
    pub is_allowed: bool,
    /// The status of every quota.
    pub quotas: Vec<TickStatus>,
    /// Identifies the units that were taken.
    pub receipt: Option<TickReceipt>,
}

/// The status of one quota after a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickStatus {
    /// The limit.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// Ticks until the cost is allowed: zero if it is, `None` if it never will be.
    pub retry_after: Option<u64>,
    /// Ticks until fewer units count, or zero if none does.
    pub reset_after: u64,
}

/// The units that a check took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TickReceipt {
    /// The number of units.
    pub units: u64,
    /// The tick at which they are recorded.
    pub at: u64,
    /// The life of the key in which they were taken. A receipt of an earlier life is void.
    pub life: u64,
}

/// The state of one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyState {
    counting: Counting,
    /// By the position of the quota in its policy. All quotas of a log share the first.
    places: Vec<Place>,
    /// The longest window of the policy and its tiers. A log keeps units for as long.
    longest: u64,
    life: u64,
    /// The tick at which the block of the key ends.
    blocked_until: u64,
}

/// What is recorded for one quota.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    /// The window for which the cells were recorded.
    window: u64,
    /// The tick of the latest unit.
    latest: u64,
    /// Units by the number of their cell, without empty cells.
    cells: BTreeMap<u64, u64>,
    bucket: Bucket,
}

/// The share of a cell that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Whole,
    /// The share of the previous window that the sliding window covers.
    Covered,
    Nothing,
}

impl KeyState {
    /// Creates the state of a key without units. `longest` is the longest window of the policy and all
    /// tiers.
    pub fn new(counting: Counting, longest: u64) -> Self {
        Self { counting, places: Vec::new(), longest, life: 0, blocked_until: 0 }
    }

    /// Takes `cost` units if they fit into every quota. A denied check records nothing.
    pub fn check(&mut self, quotas: &[TickQuota], moment: Moment, cost: u64) -> Decision {
        if !self.fits(quotas, moment.now, cost) {
            return self.peek(quotas, moment, cost);
        }
        let receipt = self.take(quotas, moment, cost);
        Decision {
            is_allowed: true,
            quotas: self.statuses(quotas, moment.now, None),
            receipt: Some(receipt),
        }
    }

    /// Takes as many units as fit, at most `cost`. Denied if not even one unit fits.
    pub fn check_at_most(&mut self, quotas: &[TickQuota], moment: Moment, cost: u64) -> Decision {
        let too_many = first_tick(1, |units| !self.fits(quotas, moment.now, units));
        self.check(quotas, moment, too_many.clamp(1, cost))
    }

    /// Decides as a check of `cost` without taking units.
    pub fn peek(&self, quotas: &[TickQuota], moment: Moment, cost: u64) -> Decision {
        Decision {
            is_allowed: self.fits(quotas, moment.now, cost),
            quotas: self.statuses(quotas, moment.now, Some(cost)),
            receipt: None,
        }
    }

    /// Records units that were used, even above the limit. In a log whose longest quota is used up without the
    /// newest entry, they join that entry, which moves to the later tick.
    pub fn charge(&mut self, quotas: &[TickQuota], moment: Moment, units: u64) -> u64 {
        if units == 0 {
            return 0;
        }
        let (mut total, mut date) = (units, moment.date);
        if let Some((last, joined)) = self.overfull(quotas, moment.now) {
            self.places[0].cells.remove(&last);
            (total, date) = (units.saturating_add(joined).min(UNITS_MAX), date.max(last));
        }
        self.take(quotas, Moment { now: moment.now, date }, total);
        units
    }

    /// Returns the newest entry of a log, if the others use up the longest quota.
    fn overfull(&self, quotas: &[TickQuota], now: u64) -> Option<(u64, u64)> {
        let is_longer = |a: &TickQuota, b: &TickQuota| a.window < b.window;
        let longest =
            quotas.iter().copied().reduce(|a, b| if is_longer(&a, &b) { b } else { a })?;
        let mut entries = self.history(&[longest], Moment::at(now))?;
        let newest = entries.pop()?;
        let before: u128 = entries.iter().map(|(_, units)| u128::from(*units)).sum();
        (before >= u128::from(longest.limit.max(1))).then_some(newest)
    }

    /// Removes the units of a receipt, if they still count under the policy or a tier. Returns their
    /// number.
    ///
    /// Units are known by their cell: if others of the same cell were taken, and these are gone already, the
    /// others are removed in their place. Never more than the receipt has.
    pub fn refund(&mut self, quotas: &[TickQuota], moment: Moment, receipt: TickReceipt) -> u64 {
        self.remove(quotas, moment.now, receipt, receipt.units)
    }

    /// Corrects the units of a receipt to `actual`. Returns the number of units that are recorded in the
    /// end.
    pub fn settle(
        &mut self,
        quotas: &[TickQuota],
        moment: Moment,
        receipt: TickReceipt,
        actual: u64,
    ) -> u64 {
        let units = receipt.units;
        if actual < units {
            return units - self.remove(quotas, moment.now, receipt, units - actual);
        }
        units + self.charge(quotas, moment, actual - units)
    }

    /// Removes up to `units` without a receipt, the oldest first. Returns their number.
    pub fn forgive(&mut self, quotas: &[TickQuota], moment: Moment, units: u64) -> u64 {
        self.end_empty_life(quotas, moment.now);
        let longest = quotas.iter().map(|quota| quota.window).max().unwrap_or(1);
        self.reduce(quotas, |place, counting, quota| match counting {
            Counting::Gcra => place.bucket.take_out(quota, moment.now, moment.now, units),
            _ => {
                let window = if counting == Counting::Log { longest } else { quota.window };
                let cells: Vec<u64> = place.cells.keys().copied().collect();
                cells.into_iter().fold(0, |removed, cell| {
                    removed + place.remove(counting, window, moment.now, cell, units - removed)
                })
            }
        })
    }

    /// Ends the life of the key: removes its units and its block, and voids its receipts. Returns `true`
    /// if there was a unit that counted, or a block.
    pub fn reset(&mut self, quotas: &[TickQuota], moment: Moment) -> bool {
        let was_blocked = self.unblock(moment);
        let had_units = self.usage(quotas, moment).iter().any(|units| *units > 0);
        *self = Self { life: self.life + 1, ..Self::new(self.counting, self.longest) };
        had_units || was_blocked
    }

    /// Denies every check of the key for `ticks`.
    pub fn block(&mut self, moment: Moment, ticks: u64) {
        self.blocked_until = moment.date + ticks;
    }

    /// Ends the block. Returns `true` if there was one.
    pub fn unblock(&mut self, moment: Moment) -> bool {
        let was_blocked = self.blocked_until > moment.now;
        self.blocked_until = 0;
        was_blocked
    }

    /// Returns the units that count under each quota.
    pub fn usage(&self, quotas: &[TickQuota], moment: Moment) -> Vec<u64> {
        let counted = |(index, quota): (usize, &TickQuota)| self.counted(index, *quota, moment.now);
        quotas.iter().enumerate().map(counted).map(saturated).collect()
    }

    /// Returns the ticks at which units were recorded that count under the longest quota, and their number,
    /// oldest first. Returns `None` if the algorithm does not record ticks.
    pub fn history(&self, quotas: &[TickQuota], moment: Moment) -> Option<Vec<(u64, u64)>> {
        let window = quotas.iter().map(|quota| quota.window).max()?;
        let counts = |(tick, _): &(u64, u64)| tick + window > moment.now;
        let cells = self.place(0, window).into_owned().cells.into_iter().filter(counts);
        (self.counting == Counting::Log).then(|| cells.collect())
    }

    /// Returns `true` if the key is not blocked and every quota has room for `cost` more units.
    pub fn fits(&self, quotas: &[TickQuota], now: u64, cost: u64) -> bool {
        let mut quotas = quotas.iter().enumerate();
        self.blocked_until <= now
            && quotas.all(|(index, quota)| self.fits_quota(index, *quota, now, cost))
    }

    /// Returns the units that count under a quota.
    fn counted(&self, index: usize, quota: TickQuota, now: u64) -> u128 {
        let place = self.place(index, quota.window);
        match self.counting {
            Counting::Gcra => place.bucket.parts(quota, now).div_ceil(quota.window.into()),
            counting => place.counted(counting, quota.window, now),
        }
    }

    fn fits_quota(&self, index: usize, quota: TickQuota, now: u64, cost: u64) -> bool {
        match self.counting {
            Counting::Gcra => {
                let unit = u128::from(quota.window);
                let parts = self.place(index, quota.window).bucket.parts(quota, now);
                parts + u128::from(cost) * unit <= u128::from(quota.limit) * unit
            }
            _ => self.counted(index, quota, now) + u128::from(cost) <= u128::from(quota.limit),
        }
    }

    /// Returns the status of every quota, for a request of `cost` or, without one, for units that were
    /// just taken.
    fn statuses(&self, quotas: &[TickQuota], now: u64, cost: Option<u64>) -> Vec<TickStatus> {
        let blocked = self.blocked_until.saturating_sub(now);
        let status = |(index, quota): (usize, &TickQuota)| {
            let counted = self.counted(index, *quota, now);
            let fits_at = |cost| move |tick| self.fits_quota(index, *quota, tick, cost);
            let retry_after = match cost {
                None => Some(0),
                Some(cost) if cost > quota.limit => None,
                Some(cost) => Some(first_tick(now, fits_at(cost)).max(blocked)),
            };
            let reset_after = match counted {
                0 => 0,
                _ => first_tick(now, |tick| self.counted(index, *quota, tick) < counted),
            };
            let remaining = saturated(u128::from(quota.limit).saturating_sub(counted));
            TickStatus {
                limit: quota.limit,
                remaining: if blocked > 0 { 0 } else { remaining },
                retry_after,
                reset_after: reset_after.max(blocked),
            }
        };
        quotas.iter().enumerate().map(status).collect()
    }

    /// Records units, whether they fit or not.
    pub fn take(&mut self, quotas: &[TickQuota], moment: Moment, units: u64) -> TickReceipt {
        self.end_empty_life(quotas, moment.now);
        let mut at = moment.date;
        let (counting, longest) = (self.counting, self.longest);
        for (index, quota) in quotas.iter().enumerate().take(self.lists(quotas)) {
            let window = if counting == Counting::Log { longest } else { quota.window };
            let mut place = self.place(index, window).into_owned();
            match counting {
                Counting::Gcra => place.bucket.fill(*quota, moment.now, units),
                _ => at = at.max(place.record(counting, window, moment, units)),
            }
            self.set_place(index, place);
        }
        TickReceipt { units, at, life: self.life }
    }

    fn remove(&mut self, quotas: &[TickQuota], now: u64, receipt: TickReceipt, units: u64) -> u64 {
        self.end_empty_life(quotas, now);
        if receipt.life != self.life {
            return 0;
        }
        let longest = self.longest;
        self.reduce(quotas, |place, counting, quota| match counting {
            Counting::Gcra => place.bucket.take_out(quota, now, receipt.at, units),
            _ => {
                let window = if counting == Counting::Log { longest } else { quota.window };
                place.remove(counting, window, now, receipt.at / counting.cell(window), units)
            }
        })
    }

    /// Removes units from what is recorded for each quota. Returns the most units that `remove` returns. What
    /// has none stays as it is.
    fn reduce(
        &mut self,
        quotas: &[TickQuota],
        remove: impl Fn(&mut Place, Counting, TickQuota) -> u64,
    ) -> u64 {
        let mut most = 0;
        for (index, quota) in quotas.iter().enumerate().take(self.lists(quotas)) {
            let mut place = self.place(index, quota.window).into_owned();
            let removed = remove(&mut place, self.counting, *quota);
            if removed > 0 {
                self.set_place(index, place);
            }
            most = most.max(removed);
        }
        most
    }

    /// Voids the receipts of buckets that are all empty: what was taken has leaked, and a receipt would return
    /// units that are taken from now on.
    fn end_empty_life(&mut self, quotas: &[TickQuota], now: u64) {
        let is_empty = |(index, quota): (usize, &TickQuota)| {
            self.place(index, quota.window).bucket.parts(*quota, now) == 0
        };
        if self.counting == Counting::Gcra && quotas.iter().enumerate().all(is_empty) {
            self.life += 1;
        }
    }

    /// The number of lists that quotas are recorded in.
    fn lists(&self, quotas: &[TickQuota]) -> usize {
        if self.counting == Counting::Log { 1 } else { quotas.len() }
    }

    /// Returns what is recorded for a quota, in cells of its window. Under another window than it was recorded
    /// for, all units count as recorded with the latest one.
    fn place(&self, index: usize, window: u64) -> Cow<'_, Place> {
        let index = if self.counting == Counting::Log { 0 } else { index };
        let place = self.places.get(index).unwrap_or(&EMPTY);
        let length = self.counting.cell(window);
        if place.window == window || !self.counting.is_aligned() {
            return Cow::Borrowed(place);
        }
        let units: u64 = place.cells.values().sum();
        let cells = [(place.latest / length, units)].into_iter().filter(|(_, units)| *units > 0);
        Cow::Owned(Place { window, cells: cells.collect(), ..*place })
    }

    fn set_place(&mut self, index: usize, place: Place) {
        if self.places.len() <= index {
            self.places.resize(index + 1, EMPTY.clone());
        }
        self.places[index] = place;
    }
}

static EMPTY: Place =
    Place { window: 1, latest: 0, cells: BTreeMap::new(), bucket: Bucket { ticks: 0, parts: 0 } };

impl Place {
    fn counted(&self, counting: Counting, window: u64, now: u64) -> u128 {
        let (mut whole, mut covered) = (0, 0);
        for (cell, units) in &self.cells {
            match self.share(counting, window, now, *cell) {
                Share::Whole => whole += u128::from(*units),
                Share::Covered => covered += u128::from(*units),
                Share::Nothing => {}
            }
        }
        if covered > 0 {
            let ticks_covered = window - self.clock(window, now) % window;
            whole += (covered * u128::from(ticks_covered)).div_ceil(window.into());
        }
        whole
    }

    /// Returns the share of a cell that counts at `now`.
    fn share(&self, counting: Counting, window: u64, now: u64, cell: u64) -> Share {
        let cells_ago = || (self.clock(window, now) / window).checked_sub(cell);
        let counts = match counting {
            Counting::Log | Counting::Segments(_) => {
                last_tick(cell, counting.cell(window)) + window > now
            }
            Counting::Counter if cells_ago() == Some(1) => return Share::Covered,
            Counting::Counter | Counting::Fixed => cells_ago() == Some(0),
            Counting::Gcra => false,
        };
        if counts { Share::Whole } else { Share::Nothing }
    }

    /// Returns the time by which cells as long as a window count. A unit that is dated in a later cell than
    /// that of now has begun the later one.
    fn clock(&self, window: u64, now: u64) -> u64 {
        now.max(self.latest / window * window)
    }

    /// Records units, drops those that no longer count, and returns the tick of the units.
    fn record(&mut self, counting: Counting, window: u64, moment: Moment, units: u64) -> u64 {
        let (Moment { now, date }, length) = (moment, counting.cell(window));
        let latest = date.max(self.latest);
        let (cell, at) = match counting {
            Counting::Log => (date, date),
            Counting::Segments(_) => (latest / length, latest),
            _ => (latest / length, date.max(latest / length * length)),
        };
        // A unit that is dated ahead ends the cell before it.
        let clock = match counting {
            Counting::Counter | Counting::Fixed => date,
            _ => now,
        };
        let mut kept = core::mem::take(&mut self.cells);
        kept.retain(|cell, _| self.share(counting, window, clock, *cell) != Share::Nothing);
        if let Counting::Segments(number) = counting {
            // A window has as many segments, and one that it covers partly. Units that are older, because
            // the new ones are dated ahead, count in the oldest of them.
            let oldest = cell.saturating_sub(number);
            let newer = kept.split_off(&oldest);
            let older: u64 = core::mem::replace(&mut kept, newer).values().sum();
            if older > 0 {
                *kept.entry(oldest).or_default() += older;
            }
        }
        let count = kept.entry(cell).or_default();
        *count = count.saturating_add(units);
        self.cells = kept;
        self.latest = latest;
        self.window = window;
        at
    }

    /// Removes up to `units` of a cell that counts.
    fn remove(&mut self, counting: Counting, window: u64, now: u64, cell: u64, units: u64) -> u64 {
        if self.share(counting, window, now, cell) == Share::Nothing {
            return 0;
        }
        let Some(count) = self.cells.get_mut(&cell) else { return 0 };
        let removed = units.min(*count);
        *count -= removed;
        self.cells.retain(|_, units| *units > 0);
        removed
    }
}

impl Counting {
    /// Returns `true` if cells are longer than a tick, so that another window has others.
    fn is_aligned(self) -> bool {
        !matches!(self, Self::Log | Self::Gcra)
    }

    /// Returns the length of a cell.
    fn cell(self, window: u64) -> u64 {
        match self {
            Self::Log | Self::Gcra => 1,
            Self::Segments(number) => window.div_ceil(number).max(1),
            Self::Counter | Self::Fixed => window.max(1),
        }
    }
}

fn last_tick(cell: u64, length: u64) -> u64 {
    (cell + 1) * length - 1
}

fn saturated(units: u128) -> u64 {
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Returns the ticks from `now` until `holds` is first true, for a condition that stays true.
///
/// Tries 1, 2, 4, 8 ticks ahead until it holds and then bisects the last step. Gives up after 2^62
/// ticks, which is longer than any result can be.
fn first_tick(now: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(now) {
        return 0;
    }
    let mut too_early = 0;
    let mut late_enough = 1;
    while !holds(now.saturating_add(late_enough)) {
        if late_enough >= 1 << 62 {
            return u64::MAX;
        }
        too_early = late_enough;
        late_enough *= 2;
    }
    while late_enough - too_early > 1 {
        let middle = too_early + (late_enough - too_early) / 2;
        if holds(now.saturating_add(middle)) {
            late_enough = middle;
        } else {
            too_early = middle;
        }
    }
    late_enough
}
