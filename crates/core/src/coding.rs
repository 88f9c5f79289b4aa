//! Encoding of numbers and bytes in snapshots.

use crate::error::{Error, ErrorKind};
use crate::time::TICK_BITS;

/// The maximum number of units that a window counts. More are not recorded, because such a key is
/// denied anyway.
pub(crate) const UNITS_MAX: u64 = (1 << 56) - 1;

/// Writes the values of a snapshot.
pub(crate) trait Writer {
    fn put_u64(&mut self, value: u64);
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Writer for Vec<u8> {
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u64(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads the values of a snapshot, and never past its end.
pub(crate) trait Reader<'a> {
    fn take_raw(&mut self, count: usize) -> Result<&'a [u8], Error>;

    fn take_u64(&mut self) -> Result<u64, Error> {
        let bytes = self.take_raw(8)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads a tick of 48 bits.
    fn take_tick(&mut self) -> Result<u64, Error> {
        let tick = self.take_u64()?;
        if tick >> TICK_BITS == 0 { Ok(tick) } else { Err(damaged("a tick")) }
    }

    /// Reads the units of a window. Debt may make them larger than the largest limit.
    fn take_units(&mut self) -> Result<u64, Error> {
        let units = self.take_u64()?;
        if units <= UNITS_MAX { Ok(units) } else { Err(damaged("a count")) }
    }

    fn take_bytes(&mut self) -> Result<&'a [u8], Error> {
        let count = self.take_u64()?;
        self.take_raw(usize::try_from(count).unwrap_or(usize::MAX))
    }
}

impl<'a> Reader<'a> for &'a [u8] {
    fn take_raw(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let Some((head, rest)) = self.split_at_checked(count) else {
            return Err(damaged("the length"));
        };
        *self = rest;
        Ok(head)
    }
}

/// Returns the error for an unreadable snapshot.
#[cold]
pub(crate) fn damaged(what: &str) -> Error {
    let message = format!(
        "damaged snapshot: {what} is invalid; start without it, and limits count from zero"
    );
    Error::new(ErrorKind::Snapshot, message)
}
