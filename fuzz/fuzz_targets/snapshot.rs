//! Any bytes into `restore`: an error or a limiter that works, never a panic.
//!
//! What could go wrong: a length believed before it is checked, a state that no check could have made
//! and that a later check trips over, more memory than the budget. Bytes from nowhere never get past
//! the checksums, so most inputs are a true snapshot with some bytes changed and sealed again.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use slidegate::{Algorithm, Cost, Limiter, LimiterBuilder, ManualClock, Policy, Quota};

/// Where the clock starts.
const START: Duration = Duration::from_secs(1_000_000);

#[derive(Debug, Arbitrary)]
struct Input {
    settings: Settings,
    /// How long after the snapshot it is restored.
    aged_millis: u32,
    snapshot: Snapshot,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Settings {
    algorithm: Kind,
    /// A second quota: logs are cut into chunks then, other states are doubled.
    two_quotas: bool,
    /// Enough keys before the snapshot to fill the table, so that the overflow sketch is in use.
    flooded: bool,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Kind {
    Log,
    LogCapped,
    Counter,
    Segments,
    Gcra,
    Fixed,
}

#[derive(Debug, Arbitrary)]
enum Snapshot {
    /// As it is, checksums and all.
    Bytes(Vec<u8>),
    /// A true header, then these frames.
    Frames(Vec<Vec<u8>>),
    /// A true snapshot with other bytes in some places, and perhaps cut short.
    Changed { checks: Vec<(u8, u8, u16)>, changes: Vec<Change>, cut: Option<u16> },
}

#[derive(Debug, Arbitrary)]
struct Change {
    frame: u8,
    at: u16,
    value: u8,
}

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let bytes = match &input.snapshot {
        Snapshot::Bytes(bytes) => bytes.clone(),
        Snapshot::Frames(frames) => {
            let mut all = opened(&taken(input.settings, &[]));
            all.truncate(1);
            all.extend(frames.iter().filter(|frame| !frame.is_empty()).cloned());
            sealed(&all)
        }
        Snapshot::Changed { checks, changes, cut } => {
            let mut frames = opened(&taken(input.settings, checks));
            changes.iter().for_each(|change| change.apply(&mut frames));
            let mut bytes = sealed(&frames);
            bytes.truncate(cut.map_or(usize::MAX, usize::from));
            bytes
        }
    };
    let clock = ManualClock::new(START + Duration::from_millis(u64::from(input.aged_millis)));
    let restored = builder(input.settings, &clock).restore(&mut bytes.as_slice());
    if let Ok((limiter, _)) = restored {
        use_it(&limiter, &clock);
    }
}

impl Change {
    fn apply(&self, frames: &mut [Vec<u8>]) {
        let frame = usize::from(self.frame).checked_rem(frames.len());
        let Some(frame) = frame.and_then(|index| frames.get_mut(index)) else { return };
        let place = usize::from(self.at).checked_rem(frame.len());
        if let Some(byte) = place.and_then(|at| frame.get_mut(at)) {
            *byte = self.value;
        }
    }
}

/// A true snapshot of a limiter that saw some checks.
fn taken(settings: Settings, checks: &[(u8, u8, u16)]) -> Vec<u8> {
    let clock = ManualClock::new(START);
    let limiter = builder(settings, &clock).build().expect("settings in range");
    for key in 0..if settings.flooded { FLOOD } else { 0 } {
        let _ = limiter.check(&(FLOOD + key));
    }
    for (key, cost, millis) in checks.iter().take(CHECKS_MAX) {
        clock.advance(Duration::from_millis(u64::from(*millis)));
        let cost = Cost::new(u64::from(*cost).max(1)).expect("one or more");
        let _ = limiter.check_cost(&u64::from(*key % 8), cost);
    }
    let mut bytes = Vec::new();
    limiter.save(&mut bytes).expect("writing to memory does not fail");
    bytes
}

/// More would only be slow.
const CHECKS_MAX: usize = 200;

/// Keys that the budget has no room for.
const FLOOD: u64 = 2000;

const MEMORY_LIMIT: usize = 64 * 1024;

/// The frames of a snapshot, header first, without the end.
fn opened(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).expect("a true length");
        if length == 0 {
            break;
        }
        frames.push(rest[..length].to_vec());
        bytes = &rest[length + CHECKSUM..];
    }
    frames
}

/// Frames with their lengths, checksums and the end, as `save` writes them.
fn sealed(frames: &[Vec<u8>]) -> Vec<u8> {
    let count = frames.len().saturating_sub(1) as u64;
    let end = [Vec::new(), count.to_le_bytes().to_vec()];
    let mut bytes = Vec::new();
    for frame in frames.iter().chain(&end) {
        let from = bytes.len();
        bytes.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        bytes.extend_from_slice(frame);
        let checksum = crc32fast::hash(&bytes[from..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

const CHECKSUM: usize = 4;

/// Whatever was restored, every operation answers and the budget holds.
fn use_it(limiter: &Limiter, clock: &ManualClock) {
    for millis in [0, 1, 59_999, 1, 120_000] {
        clock.advance(Duration::from_millis(millis));
        for key in 0..8_u64 {
            let _ = limiter.peek(&key);
            let decision = limiter.check(&key);
            let _ = limiter.usage(&key);
            let _ = limiter.history(&key);
            if let Some(receipt) = decision.into_receipt() {
                assert!(limiter.refund(receipt) <= 1, "one unit was taken");
            }
        }
        let stats = limiter.stats();
        assert!(stats.bytes <= stats.memory_limit, "{stats:?}");
    }
    limiter.sweep(usize::MAX);
}

fn builder(settings: Settings, clock: &ManualClock) -> LimiterBuilder {
    let minute = Quota::per_minute(100);
    let hour = settings.two_quotas.then(|| Quota::per_hour(300));
    let policy = Policy::builder("fuzz")
        .quota(minute)
        .quotas(hour)
        .algorithm(settings.algorithm.algorithm())
        .build()
        .expect("one or two quotas");
    Limiter::builder(policy)
        .clock(clock.clone())
        .memory_limit(MEMORY_LIMIT)
        .shards(2)
        .secret([7; 16])
}

impl Kind {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::Log => Algorithm::Log,
            Self::LogCapped => Algorithm::LogCapped { bytes_max: 64 },
            Self::Counter => Algorithm::Counter,
            Self::Segments => Algorithm::Segments { count: 6 },
            Self::Gcra => Algorithm::Gcra,
            Self::Fixed => Algorithm::Fixed,
        }
    }
}
