//! All state to a file and back.
//!
//! ```text
//! magic, version, algorithm, quotas, tick, now, secret
//! frame, frame, ...     each: length, bytes, checksum
//! end                   a frame of length zero, then the number of frames
//! ```

use std::io::{Read, Write};

use super::{Limiter, LimiterBuilder};
use crate::coding::{Reader, Writer, damaged};
use crate::error::{Error, ErrorKind};
use crate::key::Secret;
use crate::policy::{Algorithm, Policy};

const MAGIC: &[u8; 8] = b"slidegat";
const VERSION: u64 = 1;
const HEADER: usize = 8 + 5 * 8 + 16;
/// The longest frame that is read: far more than a step writes.
const FRAME_MAX: u64 = 1 << 30;

/// What a snapshot brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Keys in the table again.
    pub keys: u64,
    /// Keys that found no room and went into the overflow sketch.
    pub dropped: u64,
}

impl Limiter {
    /// Writes all state, the secret of the fingerprints included: give the file mode 0600.
    ///
    /// Goes a step at a time and holds no lock while it writes, so checks go on meanwhile. What
    /// is admitted while it runs may or may not be in it. Returns the number of keys.
    ///
    /// # Errors
    ///
    /// When `out` fails.
    pub fn save(&self, out: &mut impl Write) -> Result<u64, Error> {
        let mut header = MAGIC.to_vec();
        header.put_u64(VERSION);
        header.put_u64(algorithm_number(&self.policy));
        header.put_u64(self.policy.quotas().len() as u64);
        header.put_u64(self.scale.tick_nanos());
        // Entries may be dated by a clock that has gone back since.
        header.put_u64(self.moment().now.max(self.store.latest()));
        header.extend_from_slice(&self.secret.bytes());
        write_frame(out, &header)?;
        let (mut frames, mut keys) = (0u64, 0);
        for shard in 0..self.store.shards() {
            keys += self.store.save(shard, &mut |frame| {
                frames += 1;
                write_frame(out, frame)
            })?;
        }
        let mut end = Vec::new();
        end.put_u64(frames);
        write_frame(out, &[])?;
        write_frame(out, &end)?;
        out.flush().map_err(|error| failed("written", &error))?;
        Ok(keys)
    }
}

impl LimiterBuilder {
    /// Makes the limiter and brings back the state that [`Limiter::save`] wrote, older by the
    /// time that has passed since. The secret is the snapshot's.
    ///
    /// The policy may have other limits and windows than it had: state is kept to the safe side.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    ///
    /// let policy = Policy::new("api", Quota::per_minute(1)?)?;
    /// let before = Limiter::new(policy.clone())?;
    /// let _ = before.check("alice");
    /// let mut file = Vec::new();
    /// before.save(&mut file)?;
    ///
    /// let (after, report) = Limiter::builder(policy).restore(&mut file.as_slice())?;
    /// assert_eq!(report.keys, 1);
    /// assert!(!after.check("alice").is_allowed());
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When a setting is out of range, `input` fails, or what it holds is damaged, cut short, of
    /// another version, or of another algorithm, number of quotas or tick.
    pub fn restore(mut self, input: &mut impl Read) -> Result<(Limiter, RestoreReport), Error> {
        let header = read_frame(input)?;
        let mut fields = header.as_slice();
        if header.len() != HEADER || fields.take_raw(8)? != MAGIC {
            return Err(Error::new(ErrorKind::Snapshot, "this is no snapshot of a limiter"));
        }
        expect("version", fields.take_u64()?, VERSION)?;
        expect("algorithm", fields.take_u64()?, algorithm_number(self.policy()))?;
        expect("number of quotas", fields.take_u64()?, self.policy().quotas().len() as u64)?;
        expect("tick in nanoseconds", fields.take_u64()?, self.tick_nanos())?;
        let saved_at = fields.take_tick()?;
        let mut secret = [0; 16];
        secret.copy_from_slice(fields.take_raw(16)?);
        self.set_secret(Secret::new(secret));
        let limiter = self.build()?;
        // Both ticks count from the Unix epoch. If the wall clock went back, nothing has aged.
        let shift = saved_at.saturating_sub(limiter.moment().now);
        let report = limiter.read_frames(input, shift)?;
        Ok((limiter, report))
    }
}

impl Limiter {
    fn read_frames(&self, input: &mut impl Read, shift: u64) -> Result<RestoreReport, Error> {
        let mut report = RestoreReport::default();
        let mut frames = 0;
        loop {
            let frame = read_frame(input)?;
            if frame.is_empty() {
                break;
            }
            let restored =
                self.store.restore(&frame, &self.with_policy().request_for(0, 1), shift)?;
            report.keys += restored.keys;
            report.dropped += restored.dropped;
            frames += 1;
        }
        self.store.place_rest();
        expect("number of frames", read_frame(input)?.as_slice().take_u64()?, frames)?;
        Ok(report)
    }
}

fn write_frame(out: &mut impl Write, frame: &[u8]) -> Result<(), Error> {
    let mut head = Vec::new();
    head.put_u64(frame.len() as u64);
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head);
    checksum.update(frame);
    let tail = checksum.finalize().to_le_bytes();
    for bytes in [head.as_slice(), frame, &tail] {
        out.write_all(bytes).map_err(|error| failed("written", &error))?;
    }
    Ok(())
}

fn read_frame(input: &mut impl Read) -> Result<Vec<u8>, Error> {
    let mut head = [0; 8];
    input.read_exact(&mut head).map_err(|error| failed("read", &error))?;
    let length = u64::from_le_bytes(head);
    if length > FRAME_MAX {
        return Err(damaged("the length of a frame"));
    }
    // Memory grows with what is really there, whatever the length says.
    let mut frame = Vec::new();
    input.by_ref().take(length).read_to_end(&mut frame).map_err(|error| failed("read", &error))?;
    let mut tail = [0; 4];
    input.read_exact(&mut tail).map_err(|error| failed("read", &error))?;
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head);
    checksum.update(&frame);
    if checksum.finalize().to_le_bytes() == tail { Ok(frame) } else { Err(damaged("a checksum")) }
}

fn expect(what: &str, found: u64, expected: u64) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let message = format!("snapshot has {what} {found}, this limiter {expected}");
    Err(Error::new(ErrorKind::Snapshot, message))
}

fn failed(how: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Snapshot, format!("snapshot could not be {how}: {error}"))
}

fn algorithm_number(policy: &Policy) -> u64 {
    match policy.algorithm() {
        Algorithm::Log | Algorithm::LogCapped { .. } => 1,
        Algorithm::Counter => 2,
        Algorithm::Segments { .. } => 3,
        Algorithm::Gcra => 4,
        Algorithm::Fixed => 5,
    }
}
