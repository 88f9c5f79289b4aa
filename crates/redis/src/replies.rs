//! What Redis last reported as left of each key, for the local fallback.
//!
//! A reply counts until it is as old as the quota's window. Until then, this process may admit its share
//! of what the reply left, and no more. Every reply takes the place of the one before.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::deny::ReplyTimes;
use crate::key::TieredKey;

/// A bounded table of the last reply for each key.
#[derive(Debug)]
pub(crate) struct Replies {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    replies: HashMap<TieredKey, LastReply>,
    /// Every key once, in the order in which they are considered for eviction.
    queue: VecDeque<TieredKey>,
    bytes: usize,
}

/// The last reply for a key, and what was admitted instead of Redis since.
#[derive(Debug)]
pub(crate) struct LastReply {
    received: Instant,
    /// On the server's clock.
    executed: Duration,
    /// This process's share of what was left of each quota.
    left: Box<[u64]>,
    /// Units that this process has admitted instead of Redis since, and before if Redis does not have
    /// them yet.
    pub(crate) admitted: u64,
    /// Whether the key was renewed since it was last considered for eviction.
    is_recent: bool,
}

/// What a reply still allows under one quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub(crate) units: u64,
    /// The time until the reply no longer counts.
    pub(crate) lasts: Duration,
}

const SHARDS: usize = 64;

/// The keys that are considered for eviction at a time. If all of them are in use, one is evicted
/// regardless.
const CONSIDERED: usize = 8;

/// The bytes of a reply with its share of the map and of the queue, and of the allocation.
const REPLY_BYTES: usize =
    2 * size_of::<(TieredKey, LastReply)>() + 2 * size_of::<TieredKey>() + 32;

impl Replies {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, shard_bytes_max: bytes_max / SHARDS }
    }

    /// All tiers of a key are in one shard.
    fn shard(&self, key: u64) -> &Mutex<Shard> {
        let shard = usize::try_from(key % SHARDS as u64).unwrap_or(0);
        &self.shards[shard]
    }

    /// Stores a reply: the process's share of what it leaves of each quota. `keeps_admitted` returns
    /// whether units that were admitted before it still count. Returns `false` if a later reply is
    /// known.
    pub(crate) fn note(
        &self,
        key: TieredKey,
        times: ReplyTimes,
        left: impl ExactSizeIterator<Item = u64>,
        keeps_admitted: impl FnOnce() -> bool,
    ) -> bool {
        let mut shard = self.shard(key.key).lock();
        if let Some(reply) = shard.replies.get_mut(&key) {
            return reply.renew(times, left, keeps_admitted);
        }
        let reply = LastReply {
            received: times.received,
            executed: times.server,
            left: left.collect(),
            admitted: 0,
            is_recent: false,
        };
        shard.insert(key, reply, self.shard_bytes_max);
        true
    }

    /// Calls a function with the last reply for a key. No reply is stored meanwhile.
    pub(crate) fn with<T>(
        &self,
        key: TieredKey,
        call: impl FnOnce(Option<&mut LastReply>) -> T,
    ) -> T {
        call(self.shard(key.key).lock().replies.get_mut(&key))
    }

    /// Removes what is known about a key.
    pub(crate) fn forget(&self, key: u64) {
        let mut shard = self.shard(key).lock();
        let Shard { replies, queue, bytes } = &mut *shard;
        queue.retain(|tiered| {
            let is_other = tiered.key != key;
            if !is_other && let Some(reply) = replies.remove(tiered) {
                *bytes -= reply.bytes();
            }
            is_other
        });
    }
}

impl Shard {
    fn insert(&mut self, key: TieredKey, reply: LastReply, bytes_max: usize) {
        let bytes = reply.bytes();
        let mut considered = 0;
        while self.bytes + bytes > bytes_max {
            let Some(oldest) = self.queue.pop_front() else {
                return;
            };
            considered += 1;
            match self.replies.get_mut(&oldest) {
                Some(reply) if reply.is_recent && considered < CONSIDERED => {
                    reply.is_recent = false;
                    self.queue.push_back(oldest);
                }
                Some(reply) => {
                    self.bytes -= reply.bytes();
                    self.replies.remove(&oldest);
                }
                None => {}
            }
        }
        self.bytes += bytes;
        self.queue.push_back(key);
        self.replies.insert(key, reply);
    }
}

impl LastReply {
    fn bytes(&self) -> usize {
        REPLY_BYTES + size_of_val(&*self.left)
    }

    /// Stores a later reply. Replies to concurrent checks may arrive in any order. Two of the same time
    /// leave what both leave.
    fn renew(
        &mut self,
        times: ReplyTimes,
        left: impl ExactSizeIterator<Item = u64>,
        keeps_admitted: impl FnOnce() -> bool,
    ) -> bool {
        // The clock of another server, or one that went back, may show an earlier time.
        let is_later = times.sent >= self.received;
        if times.server < self.executed && !is_later {
            return false;
        }
        if times.server == self.executed && !is_later {
            for (known, left) in self.left.iter_mut().zip(left) {
                *known = left.min(*known);
            }
        } else if self.left.len() == left.len() {
            for (known, left) in self.left.iter_mut().zip(left) {
                *known = left;
            }
        }
        self.received = self.received.max(times.received);
        self.executed = times.server;
        self.is_recent = true;
        if !keeps_admitted() {
            self.admitted = 0;
        }
        true
    }

    /// Returns what the reply still allows under a quota, or `None` if it no longer counts.
    pub(crate) fn left(&self, quota: usize, window: Duration, now: Instant) -> Option<Left> {
        let units = self.left.get(quota)?.saturating_sub(self.admitted);
        let lasts = (self.received + window).saturating_duration_since(now);
        (!lasts.is_zero()).then_some(Left { units, lasts })
    }
}

#[cfg(test)]
mod tests;
