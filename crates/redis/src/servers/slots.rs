//! The nodes of the slots of a cluster.

use redis::Value;

/// Slots of a cluster, each with the address of its primary.
#[derive(Debug, Default, Clone)]
pub(crate) struct SlotMap {
    /// Sorted by the first slot; ranges do not overlap.
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    address: Box<str>,
}

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

impl SlotMap {
    /// Reads the reply of `CLUSTER SLOTS`. `host` is that of the queried node, for nodes that do
    /// not know their own name.
    pub(crate) fn read(answer: &Value, host: &str) -> Option<Self> {
        let Value::Array(rows) = answer else {
            return None;
        };
        let mut ranges = Vec::with_capacity(rows.len());
        for row in rows {
            let Value::Array(row) = row else {
                return None;
            };
            let [first, last, primary, ..] = row.as_slice() else {
                return None;
            };
            let (first, last) = (slot(first)?, slot(last)?);
            let address = address(primary, host)?;
            ranges.push(Range { first, last, address });
        }
        ranges.sort_by_key(|range| range.first);
        Some(Self { ranges })
    }

    /// Returns the address of the node with a slot.
    pub(crate) fn address(&self, slot: u16) -> Option<&str> {
        let at = self.ranges.partition_point(|range| range.last < slot);
        self.ranges.get(at).filter(|range| range.first <= slot).map(|range| &*range.address)
    }

    /// Returns every primary once.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.ranges.iter().map(|range| &*range.address).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Records that another node has this slot now.
    pub(crate) fn moved(&mut self, slot: u16, address: &str) {
        let at = self.ranges.partition_point(|range| range.last < slot);
        let moved = Range { first: slot, last: slot, address: address.into() };
        let Some(range) = self.ranges.get(at).filter(|range| range.first <= slot).cloned() else {
            self.ranges.insert(at, moved);
            return;
        };
        let before = Range { last: slot.wrapping_sub(1), ..range.clone() };
        let after = Range { first: slot + 1, ..range.clone() };
        let parts = [
            (range.first < slot).then_some(before),
            Some(moved),
            (range.last > slot).then_some(after),
        ];
        self.ranges.splice(at..=at, parts.into_iter().flatten());
    }
}

/// Returns the slot of a key: that of the text between its first braces, if any, as Redis defines
/// it.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, bit by bit, because a tag has only sixteen bytes.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
    }
    crc
}

fn slot(value: &Value) -> Option<u16> {
    match value {
        Value::Int(slot) => u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    }
}

fn address(node: &Value, asked: &str) -> Option<Box<str>> {
    let Value::Array(node) = node else {
        return None;
    };
    let [host, Value::Int(port), ..] = node.as_slice() else {
        return None;
    };
    let host = match host {
        Value::BulkString(bytes) => core::str::from_utf8(bytes).ok()?,
        Value::SimpleString(text) => text,
        _ => "",
    };
    let host = if host.is_empty() || host == "?" { asked } else { host };
    Some(format!("{host}:{port}").into_boxed_str())
}

#[cfg(test)]
mod tests;
