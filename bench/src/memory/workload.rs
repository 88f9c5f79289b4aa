//! How many keys are kept, how they are counted and how their requests arrive.

use core::ops::Range;

use crate::memory::arrivals::Arrivals;
use crate::ours::Algorithm;

/// One table to fill.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) keys: u32,
    pub(crate) algorithm: Algorithm,
    /// Units per minute.
    pub(crate) limit: u64,
    pub(crate) arrivals: Arrivals,
    /// Windows of churn after the one that fills the table.
    pub(crate) churn: u64,
    /// Limiters that the keys are spread over, each with its share of the shards.
    ///
    /// A million logs of a thousand entries do not fit in any cache, and four thousand million
    /// checks that each wait for memory take too long. A block does fit; it has a limiter of its
    /// own because it runs ahead of the others, and a limiter's time never goes back.
    pub(crate) blocks: u32,
    /// Threads that send requests; each has its own blocks.
    pub(crate) threads: usize,
    pub(crate) subjects: &'static [&'static str],
    /// The most it should take, all in.
    pub(crate) target: Option<u64>,
}

/// Ours.
pub(crate) const SLIDEGATE: &str = "slidegate";
/// A ring of 64-bit timestamps for every key.
pub(crate) const RING: &str = "ring-int64";

const MB: u64 = 1_000_000;

impl Workload {
    /// All of them, the long ones last.
    pub(crate) const ALL: [Self; 7] = [
        Self {
            subjects: &[SLIDEGATE, RING],
            target: None,
            ..Self::log("log-10k-x-100", 10_000, 100)
        },
        Self { target: Some(30 * MB), ..Self::log("log-100k-x-100", 100_000, 100) },
        Self { target: Some(80 * MB), ..Self::log("log-1m-x-5", 1_000_000, 5) },
        Self {
            algorithm: Algorithm::Counter,
            arrivals: Arrivals::EachWindow,
            target: Some(450 * MB),
            ..Self::log("counter-10m", 10_000_000, 100)
        },
        Self {
            algorithm: Algorithm::Segments { count: 60 },
            arrivals: Arrivals::Poisson { per_minute: 60 },
            limit: 1000,
            blocks: 64,
            threads: 2,
            target: Some(120 * MB),
            ..Self::log("segments-500k-x-60", 500_000, 60)
        },
        Self {
            algorithm: Algorithm::LogCapped { bytes_max: 4096 },
            arrivals: Arrivals::Costs { per_minute: 1_000_000, step: 20 },
            target: Some(60 * MB),
            ..Self::log("capped-10k-x-1m", 10_000, 1_000_000)
        },
        Self {
            blocks: 1024,
            threads: 2,
            target: Some(1250 * MB),
            ..Self::log("log-1m-x-1000", 1_000_000, 1000)
        },
    ];

    /// The keys of one block.
    pub(crate) fn part(&self, block: u32) -> Range<u32> {
        let edge = |block: u32| {
            let edge = u64::from(self.keys) * u64::from(block) / u64::from(self.blocks);
            u32::try_from(edge).unwrap_or(self.keys)
        };
        edge(block)..edge(block + 1)
    }

    /// The exact log with as many requests as the limit lets through.
    const fn log(name: &'static str, keys: u32, limit: u32) -> Self {
        Self {
            name,
            keys,
            algorithm: Algorithm::Log,
            limit: limit as u64,
            arrivals: Arrivals::Poisson { per_minute: limit },
            churn: 3,
            blocks: 1,
            threads: 1,
            subjects: &[SLIDEGATE],
            target: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_keys() {
        for workload in &Workload::ALL {
            let parts: Vec<_> = (0..workload.blocks).map(|block| workload.part(block)).collect();
            assert_eq!(parts[0].start, 0);
            assert_eq!(parts[parts.len() - 1].end, workload.keys);
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
