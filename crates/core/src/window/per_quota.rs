//! Several quotas for an algorithm with one state per quota.

use super::{DecodeContext, KeptSince, Limits, Window};
use crate::account::Account;
use crate::error::Error;
use crate::time::Moment;

/// One window per quota.
#[derive(Debug, Default)]
pub(crate) struct PerQuota<W>(Box<[W]>);

impl<W: Window> Window for PerQuota<W> {
    fn new(limits: &Limits, epoch: u16) -> Self {
        Self((0..limits.quotas().len()).map(|index| W::new(&limits.only(index), epoch)).collect())
    }

    fn epoch(&self) -> u16 {
        self.0.first().map_or(0, W::epoch)
    }

    fn is_foreign(&self, limits: &Limits, _: usize) -> bool {
        self.0.iter().enumerate().any(|(index, window)| window.is_foreign(limits, index))
    }

    fn advance(&mut self, limits: &Limits, now: u64, account: &Account) {
        let kept = self.kept_epoch(limits, now);
        for (index, window) in self.0.iter_mut().enumerate() {
            window.advance(&limits.only(index), now, account);
        }
        self.keep_epoch(kept);
    }

    fn used(&self, limits: &Limits, index: usize, now: u64) -> u64 {
        self.0.get(index).map_or(0, |window| window.used(&limits.only(index), 0, now))
    }

    fn kept_units(&self, limits: &Limits, since: KeptSince) -> u64 {
        let windows = self.0.iter().enumerate();
        let kept = windows.map(|(index, window)| window.kept_units(&limits.only(index), since));
        kept.max().unwrap_or(0)
    }

    fn seed(&mut self, limits: &Limits, moment: Moment, units: &[u64], account: &Account) {
        for ((index, window), units) in self.0.iter_mut().enumerate().zip(units) {
            window.seed(&limits.only(index), moment, core::slice::from_ref(units), account);
        }
    }

    fn retry(&self, limits: &Limits, index: usize, now: u64, cost: u64) -> u64 {
        self.0.get(index).map_or(0, |window| window.retry(&limits.only(index), 0, now, cost))
    }

    fn reset(&self, limits: &Limits, index: usize, now: u64) -> u64 {
        self.0.get(index).map_or(0, |window| window.reset(&limits.only(index), 0, now))
    }

    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        let kept = self.kept_epoch(limits, moment.now);
        let mut tick = moment.date;
        for (index, window) in self.0.iter_mut().enumerate() {
            tick = tick.max(window.take(&limits.only(index), moment, cost, account));
        }
        self.keep_epoch(kept);
        tick
    }

    fn take_ahead(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        let windows = self.0.iter_mut().enumerate();
        let ticks = windows
            .map(|(index, window)| window.take_ahead(&limits.only(index), moment, cost, account));
        ticks.min().unwrap_or(moment.date)
    }

    fn give_back(
        &mut self,
        limits: &Limits,
        now: u64,
        tick: u64,
        units: u64,
        account: &Account,
    ) -> u64 {
        let windows = self.0.iter_mut().enumerate();
        windows
            .map(|(index, window)| window.give_back(&limits.only(index), now, tick, units, account))
            .max()
            .unwrap_or(0)
    }

    fn forgive(&mut self, limits: &Limits, now: u64, units: u64, account: &Account) -> u64 {
        let windows = self.0.iter_mut().enumerate();
        windows
            .map(|(index, window)| window.forgive(&limits.only(index), now, units, account))
            .max()
            .unwrap_or(0)
    }

    fn idle_at(&self, longest: u64) -> u64 {
        self.0.iter().map(|window| window.idle_at(longest)).max().unwrap_or(0)
    }

    fn heap_bytes(&self) -> usize {
        let own = if self.0.is_empty() { 0 } else { size_of_val(&*self.0) + 8 };
        own + self.0.iter().map(W::heap_bytes).sum::<usize>()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for window in &self.0 {
            window.encode(out);
        }
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let windows: Result<_, _> = (0..context.limits.quotas().len())
            .map(|index| {
                W::decode(input, &DecodeContext { limits: &context.limits.only(index), ..*context })
            })
            .collect();
        let many = windows.map(Self)?;
        context.account.grow(size_of_val(&*many.0) + 8);
        Ok(many)
    }
}

impl<W: Window> PerQuota<W> {
    /// Returns the epoch if the first window is empty and another one is not. An empty window may change it,
    /// but receipts are void only if nothing counts under any quota.
    fn kept_epoch(&self, limits: &Limits, now: u64) -> Option<u16> {
        let counts = |index| self.used(limits, index, now) > 0;
        (!counts(0) && (1..self.0.len()).any(counts)).then(|| self.epoch())
    }

    fn keep_epoch(&mut self, epoch: Option<u16>) {
        if let (Some(epoch), Some(first)) = (epoch, self.0.first_mut()) {
            first.set_epoch(epoch);
        }
    }
}
