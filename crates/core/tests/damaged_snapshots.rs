//! Snapshots that are damaged, cut short, foreign or forged: an error, or the same limiter.
//!
//! What could go wrong: a panic, an allocation for a false length, a limiter that silently starts
//! with the counts of other keys.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::{self, Read, Write};
use std::time::Duration;

use slidegate::{
    Algorithm, Cost, Error, ErrorKind, Limiter, LimiterBuilder, ManualClock, Policy, Quota,
};

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

// The checksums are there for this: one byte that a disk gets wrong.
#[test]
fn a_flipped_byte_is_an_error_or_changes_nothing() {
    for algorithm in ALGORITHMS {
        let snapshot = small(algorithm, 2);
        let expected = decisions(&restored(&snapshot, algorithm, 2).unwrap());
        for at in 0..snapshot.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut damaged = snapshot.clone();
                damaged[at] ^= flip;
                match restored(&damaged, algorithm, 2) {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Snapshot, "byte {at}"),
                    Ok(limiter) => {
                        assert_eq!(decisions(&limiter), expected, "{algorithm:?}, byte {at}");
                    }
                }
            }
        }
    }
}

// A program that was killed while it wrote leaves the beginning of a snapshot.
#[test]
fn what_is_cut_short_is_an_error() {
    for algorithm in ALGORITHMS {
        let snapshot = small(algorithm, 1);
        for end in 0..snapshot.len() {
            let error = restored(&snapshot[..end], algorithm, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Snapshot, "{algorithm:?}, {end} bytes");
        }
    }
}

// Two snapshots in one file, or a file that was not truncated before it was written.
#[test]
fn bytes_behind_the_end_are_an_error() {
    for algorithm in ALGORITHMS {
        let snapshot = small(algorithm, 1);
        for rest in [&[0][..], &[0; 20], &snapshot] {
            let error = restored(&[&snapshot, rest].concat(), algorithm, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Snapshot, "{algorithm:?}, {} bytes", rest.len());
        }
        let mut frames = frames(&snapshot);
        frames.last_mut().unwrap().push(0);
        assert!(restored(&joined(&frames), algorithm, 1).is_err(), "{algorithm:?}");
    }
}

// Checksums do not stop an attacker who recomputes them: nothing that decodes may panic, then or later.
#[test]
fn a_forged_frame_never_panics() {
    for algorithm in ALGORITHMS {
        for quotas in [1, 2] {
            let snapshot = small(algorithm, quotas);
            let frames = frames(&snapshot);
            for (index, frame) in frames.iter().enumerate() {
                for at in 0..frame.len() {
                    for value in [0, 1, 0x7F, 0x80, 0xFF, frame[at] ^ 1] {
                        let mut forged = frames.clone();
                        forged[index][at] = value;
                        if let Ok(limiter) = restored(&joined(&forged), algorithm, quotas) {
                            exercise(&limiter);
                        }
                    }
                }
            }
        }
    }
}

// A frame that is missing or doubled has a checksum that is right.
#[test]
fn a_missing_frame_is_an_error() {
    let frames = frames(&small(Algorithm::Log, 1));
    // What comes behind the last frame is not the snapshot's.
    for index in 0..frames.len() - 1 {
        let mut fewer = frames.clone();
        fewer.remove(index);
        assert!(restored(&joined(&fewer), Algorithm::Log, 1).is_err(), "without frame {index}");
        let mut more = frames.clone();
        more.insert(index, frames[index].clone());
        assert!(restored(&joined(&more), Algorithm::Log, 1).is_err(), "frame {index} twice");
    }
}

// The message must say what the file is and what was expected.
#[test]
fn a_foreign_snapshot_names_both_values() {
    let snapshot = small(Algorithm::Log, 1);
    let refused = |builder: LimiterBuilder| {
        let error = builder.restore(&mut snapshot.as_slice()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Snapshot);
        error.to_string()
    };
    let mut newer = frames(&snapshot);
    newer[0][8] = 9;
    let error = restored(&joined(&newer), Algorithm::Log, 1).unwrap_err();
    assert_eq!(error.to_string(), "snapshot has version 9, this limiter 4");

    let other = Policy::new("login", Quota::per_minute(3)).unwrap();
    let error = refused(Limiter::builder(other));
    assert_eq!(error, "snapshot has policy \"saved\", this limiter \"login\"");
    let error = refused(builder(Algorithm::Log, 2));
    assert_eq!(error, "snapshot has number of quotas 1, this limiter 2");
    let error = refused(builder(Algorithm::Log, 1).tick(Duration::from_millis(10)));
    assert_eq!(error, "snapshot has tick in nanoseconds 1000000, this limiter 10000000");
    for other in [Algorithm::Counter, Algorithm::Gcra, Algorithm::Fixed] {
        let error = refused(builder(other, 1));
        assert!(error.starts_with("snapshot has algorithm "), "{error}");
        assert!(error.contains(", this limiter "), "{error}");
    }
}

#[test]
fn what_is_no_snapshot_is_an_error() {
    let mut other_magic = frames(&small(Algorithm::Log, 1));
    other_magic[0][0] ^= 1;
    let endless = u64::MAX.to_le_bytes();
    for input in [&b""[..], b"{}", &[0; 100], &[0xFF; 1000], &endless, &joined(&other_magic)] {
        let error = restored(input, Algorithm::Log, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Snapshot, "{error}");
    }
}

// A setting that is out of range is that, not a damaged snapshot.
#[test]
fn a_wrong_setting_keeps_its_kind() {
    let snapshot = small(Algorithm::Log, 1);
    let error = builder(Algorithm::Log, 1).shards(3).restore(&mut snapshot.as_slice()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting);
}

// Full disks and broken pipes must come back as errors, wherever they strike.
#[test]
fn a_writer_or_reader_that_fails_is_an_error() {
    let limiter = filled(Algorithm::Log, 1);
    let snapshot = small(Algorithm::Log, 1);
    for left in 0..snapshot.len() {
        let error = limiter.save(&mut Failing(left)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Snapshot);
        assert!(error.to_string().contains("the disk is full"), "{error}");
        let mut input = snapshot[..left].chain(Failing(0));
        let error = builder(Algorithm::Log, 1).restore(&mut input).unwrap_err();
        assert!(error.to_string().contains("the disk is gone"), "{error}");
    }
}

/// Accepts this number of bytes, then fails.
struct Failing(usize);

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the disk is full"));
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

const KEYS: [&str; 3] = ["alice", "bob", "carol"];
const START: Duration = Duration::from_millis(1_700_000_012_345);

fn builder(algorithm: Algorithm, quotas: usize) -> LimiterBuilder {
    let quotas = [Quota::per_minute(5), Quota::per_hour(9)][..quotas].to_vec();
    let policy = Policy::builder("saved").quotas(quotas).algorithm(algorithm).build().unwrap();
    let clock = ManualClock::new(START + Duration::from_secs(3));
    Limiter::builder(policy).clock(clock).memory_limit(64 << 10).shards(1)
}

fn filled(algorithm: Algorithm, quotas: usize) -> Limiter {
    let clock = ManualClock::new(START);
    let limiter = builder(algorithm, quotas).clock(clock.clone()).secret([7; 16]).build().unwrap();
    for (index, key) in KEYS.iter().enumerate() {
        for _ in 0..=2 * index {
            let _ = limiter.check(*key);
            clock.advance(Duration::from_millis(300));
        }
    }
    limiter
}

/// A snapshot of a few hundred bytes.
fn small(algorithm: Algorithm, quotas: usize) -> Vec<u8> {
    let mut snapshot = Vec::new();
    filled(algorithm, quotas).save(&mut snapshot).unwrap();
    assert!(snapshot.len() < 1500);
    snapshot
}

fn restored(snapshot: &[u8], algorithm: Algorithm, quotas: usize) -> Result<Limiter, Error> {
    builder(algorithm, quotas).restore(&mut &*snapshot).map(|(limiter, _)| limiter)
}

fn decisions(limiter: &Limiter) -> Vec<slidegate::Decision> {
    KEYS.iter().map(|key| limiter.peek(*key)).collect()
}

/// Everything that looks at the state, so that a wrong one shows.
fn exercise(limiter: &Limiter) {
    for key in KEYS {
        let _ = (limiter.usage(key), limiter.history(key));
        let _ = limiter.peek_cost(key, Cost::new(4).unwrap());
        let receipt = limiter.check(key).into_receipt();
        let _ = limiter.check_cost(key, Cost::new(2).unwrap());
        if let Some(receipt) = receipt {
            limiter.refund(receipt);
        }
    }
    limiter.sweep(usize::MAX);
    limiter.save(&mut io::sink()).unwrap();
}

/// The frames of a snapshot, each without its length and checksum.
fn frames(mut snapshot: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = snapshot.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*head)).unwrap();
        frames.push(rest[..length].to_vec());
        snapshot = &rest[length + 4..];
    }
    frames
}

/// A snapshot of frames, with lengths and checksums that fit.
fn joined(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut snapshot = Vec::new();
    for frame in frames {
        let start = snapshot.len();
        snapshot.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        snapshot.extend_from_slice(frame);
        let checksum = crc32fast::hash(&snapshot[start..]);
        snapshot.extend_from_slice(&checksum.to_le_bytes());
    }
    snapshot
}
