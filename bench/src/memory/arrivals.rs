//! When requests arrive, and for which keys.

use core::ops::Range;

use crate::memory::store::Store;
use crate::numbers::BLOCK;
use crate::poisson::Poisson;
use crate::random::Random;
use crate::rounding::to_float;

/// How requests arrive, to the millisecond.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrivals {
    /// Independent requests of one unit, `per_minute` for each key on average.
    ///
    /// Drawn as one stream over all keys: a number of requests per millisecond, each for a random
    /// key. That is equivalent to a separate stream for each key.
    Poisson { per_minute: u32 },
    /// One request for every key in every window, evenly spread.
    EachWindow,
    /// Every `step` milliseconds one request for every key, for all the units that a Poisson
    /// stream of `per_minute` would have asked for in the meantime.
    Costs { per_minute: u32, step: u64 },
}

/// Milliseconds in a window.
pub(crate) const WINDOW: u64 = 60_000;

/// The arrivals for a part of the keys.
#[derive(Debug)]
pub(crate) struct Stream {
    keys: Range<u32>,
    arrivals: Arrivals,
    poisson: Poisson,
    random: Random,
}

impl Stream {
    /// The arrivals for `keys`.
    pub(crate) fn new(arrivals: Arrivals, keys: Range<u32>) -> Self {
        let minute = f64::from(60_000_u32);
        let mean = match arrivals {
            Arrivals::Poisson { per_minute } => {
                f64::from(keys.end - keys.start) * f64::from(per_minute) / minute
            }
            Arrivals::EachWindow => 0.0,
            Arrivals::Costs { per_minute, step } => f64::from(per_minute) * to_float(step) / minute,
        };
        let random = Random::new(u64::from(keys.start));
        Self { keys, arrivals, poisson: Poisson::new(mean), random }
    }

    /// Sends what arrives in millisecond `now`.
    pub(crate) fn step<S: Store>(&mut self, store: &S, scratch: &mut S::Scratch, now: u64) {
        match self.arrivals {
            Arrivals::Poisson { .. } => {
                let mut left = self.poisson.draw(&mut self.random);
                while left > 0 {
                    let mut block = [0; BLOCK];
                    let size = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
                    block[..size].fill_with(|| self.any_key());
                    store.ask(scratch, &block[..size]);
                    left -= size as u64;
                }
            }
            Arrivals::EachWindow => {
                let mut block = [0; BLOCK];
                let mut size = 0;
                for key in due(&self.keys, now % WINDOW) {
                    block[size] = u64::from(key);
                    size += 1;
                    if size == BLOCK {
                        store.ask(scratch, &block);
                        size = 0;
                    }
                }
                store.ask(scratch, &block[..size]);
            }
            Arrivals::Costs { step, .. } if now.is_multiple_of(step) => {
                for key in self.keys.clone() {
                    let units = self.poisson.draw(&mut self.random);
                    store.ask_units(u64::from(key), units);
                }
            }
            Arrivals::Costs { .. } => {}
        }
    }

    /// The keys they are for.
    pub(crate) fn keys(&self) -> Range<u32> {
        self.keys.clone()
    }

    fn any_key(&mut self) -> u64 {
        let keys = self.keys.end - self.keys.start;
        u64::from(self.keys.start + self.random.below(keys))
    }
}

/// The keys whose turn comes in this millisecond of the window.
fn due(keys: &Range<u32>, millisecond: u64) -> Range<u32> {
    let count = u64::from(keys.end - keys.start);
    let edge = |millisecond: u64| {
        u32::try_from(u64::from(keys.start) + count * millisecond / WINDOW).unwrap_or(keys.end)
    };
    edge(millisecond)..edge(millisecond + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_due_once_a_window() {
        let keys = 5..1_000_003;
        let mut next = keys.start;
        for millisecond in 0..WINDOW {
            let due = due(&keys, millisecond);
            assert_eq!(due.start, next);
            next = due.end;
        }
        assert_eq!(next, keys.end);
    }
}
