//! All state to a file and back.
//!
//! ```text
//! header                a frame: magic, version, name of the policy, algorithm, quotas, tick, now,
//!                       secret, 1 with boot id and time since boot, or 0,
//!                       date, longest windows, number of lost ranges, lost ranges
//! frame, frame, ...     each: length, bytes, checksum
//! end                   a frame of length zero, then the number of frames, and nothing else
//! ```
//!
//! The name is in the header because a file can be renamed, and because counts of another policy would
//! charge its keys for requests that they never made, or forgive them theirs.

use core::fmt;
use core::time::Duration;
use std::io::{Read, Write};

use super::{Limiter, LimiterBuilder};
use crate::coding::{Reader, Writer, damaged};
use crate::error::{Error, ErrorKind};
use crate::key::Secret;
use crate::memory::KeptWindows;
use crate::policy::{Algorithm, Policy};
use crate::time::BootTime;

const MAGIC: &[u8; 8] = b"slidegat";
const VERSION: u64 = 4;
/// The most ranges of lost ticks that are kept; the oldest are joined.
const LOST_MAX: usize = 16;
/// The longest frame that is read: far more than a step writes.
const FRAME_MAX: u64 = 1 << 30;

/// The result of restoring a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Keys that were restored into the table.
    pub keys: u64,
    /// Keys that did not fit. Their usage is in the overflow sketch.
    pub dropped: u64,
}

impl Limiter {
    /// Writes all state, the secret of the fingerprints included: give the file mode 0600. Returns
    /// the number of keys.
    ///
    /// Holds no lock while it writes, so checks continue meanwhile. Units that are taken while it
    /// runs may or may not be in the snapshot; their receipts are void after a restore.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` fails.
    pub fn save(&self, out: &mut impl Write) -> Result<u64, Error> {
        self.save_at(out, self.clock.boot_time())
    }

    fn save_at(&self, out: &mut impl Write, boot: Option<BootTime>) -> Result<u64, Error> {
        write_frame(out, &self.header(boot))?;
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

    fn header(&self, boot: Option<BootTime>) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.put_u64(VERSION);
        header.put_bytes(self.policy.name().as_bytes());
        header.put_u64(algorithm_number(&self.policy));
        header.put_u64(self.policy.quotas().len() as u64);
        header.put_u64(self.scale.tick_nanos());
        // Entries may be dated by a clock that has gone back since.
        let (moment, latest) = (self.moment(), self.store.latest());
        header.put_u64(moment.now.max(latest.now));
        header.extend_from_slice(&self.secret.bytes());
        header.put_u64(boot.is_some().into());
        if let Some(BootTime { id, elapsed }) = boot {
            header.extend_from_slice(&id);
            header.put_u64(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        }
        header.put_u64(moment.date.max(latest.date));
        let KeptWindows { own, restored, until } = self.store.kept_windows();
        header.put_u64(own);
        header.put_u64(restored);
        header.put_u64(until);
        header.put_u64(self.lost.len() as u64);
        for ticks in &self.lost {
            header.put_u64(ticks.start);
            header.put_u64(ticks.end);
        }
        header
    }
}

impl LimiterBuilder {
    /// Creates the limiter with the state that [`Limiter::save`] wrote, older by the time that has
    /// passed since. The secret is the snapshot's. Receipts that were issued before the save stay
    /// valid. `input` must end with the snapshot.
    ///
    /// With the default clock on Linux, the time is that since boot, unless the machine was restarted:
    /// a wall clock that was set forward forgives nothing. Otherwise it is the time that the clock
    /// shows.
    ///
    /// The policy has the name, the algorithm and the number of quotas that it had. It may have other
    /// limits and windows. If the snapshot was written under
    /// tiers, their keys are kept for the longest of their windows, so that the tiers can be created
    /// after the first checks.
    ///
    /// ```
    /// use slidegate::{Limiter, Policy, Quota};
    ///
    /// let policy = Policy::new("api", Quota::per_minute(1))?;
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
    /// Returns an error if a setting is out of range, if `input` fails, or if the snapshot is
    /// damaged, cut short, of another version, or of another policy, algorithm, number of quotas or
    /// tick.
    pub fn restore(self, input: &mut impl Read) -> Result<(Limiter, RestoreReport), Error> {
        self.restore_at(input, Limiter::boot_time)
    }

    fn restore_at(
        mut self,
        input: &mut impl Read,
        boot_time: impl FnOnce(&Limiter) -> Option<BootTime>,
    ) -> Result<(Limiter, RestoreReport), Error> {
        let header = read_frame(input)?;
        let mut fields = header.as_slice();
        if fields.take_raw(8).ok() != Some(MAGIC) {
            return Err(Error::new(ErrorKind::Snapshot, "not a snapshot of a limiter"));
        }
        expect("version", fields.take_u64()?, VERSION)?;
        let name = String::from_utf8_lossy(fields.take_bytes()?).into_owned();
        expect("policy", name.as_str(), self.policy().name())?;
        expect("algorithm", fields.take_u64()?, algorithm_number(self.policy()))?;
        expect("number of quotas", fields.take_u64()?, self.policy().quotas().len() as u64)?;
        expect("tick in nanoseconds", fields.take_u64()?, self.tick_nanos())?;
        let saved_at = fields.take_tick()?;
        let mut secret = [0; 16];
        secret.copy_from_slice(fields.take_raw(16)?);
        self.set_secret(Secret::new(secret));
        let mut limiter = self.build()?;
        if let Some(saved) = take_boot_time(&mut fields)?
            && let Some(age) = boot_time(&limiter).and_then(|now| now.since(&saved))
        {
            limiter.set_age(saved_at, age)?;
        }
        limiter.continue_from(saved_at)?;
        limiter.read_history(&mut fields, saved_at)?;
        if !fields.is_empty() {
            return Err(damaged("the length of the header"));
        }
        let report = limiter.read_frames(input)?;
        Ok((limiter, report))
    }
}

impl Limiter {
    fn boot_time(&self) -> Option<BootTime> {
        self.clock.boot_time()
    }

    /// Makes the clock show `age` more than `saved_at`.
    fn set_age(&mut self, saved_at: u64, age: Duration) -> Result<(), Error> {
        if saved_at > self.scale.latest() {
            return Err(damaged("the time"));
        }
        self.clock.set(self.scale.since_epoch(saved_at).saturating_add(age));
        Ok(())
    }

    /// Makes sure that time does not go back. Both processes count ticks from the Unix epoch, so
    /// this only changes something if the wall clock went back. Then stored time runs ahead of the
    /// clock: entries and receipts keep their ticks, and nothing has aged.
    fn continue_from(&mut self, saved_at: u64) -> Result<(), Error> {
        if saved_at > self.scale.latest() {
            return Err(damaged("the time"));
        }
        let ahead = saved_at.saturating_sub(self.moment().now);
        self.scale = self.scale.ahead_by(ahead);
        for shard in 0..self.store.shards() {
            // Examines no slot: a shard without keys remembers the time too.
            self.store.sweep(shard, 0, self.moment());
        }
        Ok(())
    }

    /// Reads the part of the header that describes the time before the snapshot.
    fn read_history(&mut self, fields: &mut &[u8], saved_at: u64) -> Result<(), Error> {
        let date = fields.take_tick()?;
        let (own, restored) = (fields.take_tick()?, fields.take_tick()?);
        let windows = KeptWindows { own, restored, until: fields.take_u64()? };
        self.store.keep_restored(windows, saved_at);
        let moment = self.moment();
        // A counter counts units for up to two windows.
        let oldest = moment.now.saturating_sub(2 * self.store.kept_windows().longest());
        let ranges = fields.take_u64()?;
        for _ in 0..ranges {
            let ticks = fields.take_tick()?..fields.take_tick()?;
            if ticks.end > oldest {
                self.lost.push(ticks);
            }
        }
        self.lost.push(date + 1..moment.date);
        self.lost.retain(|ticks| !ticks.is_empty());
        while self.lost.len() > LOST_MAX {
            let oldest = self.lost.remove(0);
            self.lost[0].start = self.lost[0].start.min(oldest.start);
        }
        Ok(())
    }

    fn read_frames(&self, input: &mut impl Read) -> Result<RestoreReport, Error> {
        let mut report = RestoreReport::default();
        let mut frames = 0;
        loop {
            let frame = read_frame(input)?;
            if frame.is_empty() {
                break;
            }
            let restored = self.store.restore(&frame, &self.with_policy().request_for(0, 1))?;
            report.keys += restored.keys;
            report.dropped += restored.dropped;
            frames += 1;
        }
        let end = read_frame(input)?;
        let mut end = end.as_slice();
        expect("number of frames", end.take_u64()?, frames)?;
        if !end.is_empty() {
            return Err(damaged("the length of the end"));
        }
        // What follows was not written with the snapshot: two files in one, or a write that went wrong.
        match input.read(&mut [0]) {
            Ok(0) => Ok(report),
            Ok(_) => Err(damaged("the length (bytes follow the end)")),
            Err(error) => Err(failed("read", &error)),
        }
    }
}

fn take_boot_time(fields: &mut &[u8]) -> Result<Option<BootTime>, Error> {
    match fields.take_u64()? {
        0 => Ok(None),
        1 => {
            let mut id = [0; 16];
            id.copy_from_slice(fields.take_raw(16)?);
            let elapsed = Duration::from_nanos(fields.take_u64()?);
            Ok(Some(BootTime { id, elapsed }))
        }
        _ => Err(damaged("the time since boot")),
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

fn expect<T: Copy + PartialEq + fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let message = format!("snapshot has {what} {found:?}, this limiter {expected:?}");
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

#[cfg(test)]
mod tests;
