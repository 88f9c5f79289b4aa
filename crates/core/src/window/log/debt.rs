//! Units above the limit, which are recorded without a check.

use super::Log;
use super::body::Body;
use crate::account::Account;
use crate::quota::Quota;
use crate::time::Moment;
use crate::window::{Limits, Window};

impl Log {
    /// Records units without a check. If the longest quota is used up without the newest entry, the
    /// units join it, at the later tick: however much is recorded above the limit, it is one entry.
    ///
    /// The joined units count longer, by less than the window, and never shorter.
    pub(super) fn charge_joined(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> u64 {
        let quotas = limits.quotas().iter();
        let longest = quotas.reduce(|one, two| if two.window > one.window { two } else { one });
        let Some(quota) = longest.filter(|quota| self.recorded_units() >= quota.limit) else {
            return self.take(limits, moment, cost, account);
        };
        // Every entry counts if the window is longer than the time.
        let since = (moment.now.checked_sub(quota.window)).map_or(0, |expired| expired + 1);
        let newest = self.newest_from(since);
        if newest.units == 0 || newest.before < quota.limit.max(1) {
            return self.take(limits, moment, cost, account);
        }
        let date = moment.date.max(self.end());
        let joined = self.give_back(limits, moment.now, newest.tick, newest.units, account);
        let moment = Moment { now: moment.now, date };
        self.take(limits, moment, cost.saturating_add(joined).min(Quota::LIMIT_MAX), account)
    }

    fn newest_from(&self, since: u64) -> Newest {
        if let Body::Wide(wide) = &self.body {
            let (before, units) = wide.newest_from(since);
            return Newest { before, tick: wide.end(), units };
        }
        let mut newest = Newest { before: 0, tick: 0, units: 0 };
        for (tick, units) in self.walk().filter(|(tick, _)| *tick >= since) {
            newest = Newest { before: newest.before.saturating_add(newest.units), tick, units };
        }
        newest
    }
}

/// The units of the newest entry, and of those before it.
struct Newest {
    before: u64,
    tick: u64,
    units: u64,
}
