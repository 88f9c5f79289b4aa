//! Tests of `replies`.

use super::*;

const WINDOW: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);
const KEY: TieredKey = TieredKey { key: 7, tier: 0 };

/// Notes a reply that was sent, received and executed at these milliseconds, with this share left.
fn note(replies: &Replies, start: Instant, [sent, received, server]: [u32; 3], left: u64) -> bool {
    let times = ReplyTimes {
        sent: start + MS * sent,
        received: start + MS * received,
        server: MS * server,
        into_tick: Duration::ZERO,
    };
    replies.note(KEY, times, [left].into_iter(), || false)
}

fn left(replies: &Replies, now: Instant) -> Option<u64> {
    replies.with(KEY, |reply| Some(reply?.left(0, WINDOW, now)?.units))
}

#[test]
fn a_reply_counts_for_a_window_and_each_one_renews_it() {
    let (replies, start) = (Replies::new(1 << 20), Instant::now());
    assert_eq!(left(&replies, start), None);
    assert!(note(&replies, start, [0, 1, 0], 5));
    assert_eq!(left(&replies, start + WINDOW), Some(5));
    assert_eq!(left(&replies, start + WINDOW + MS), None);
    assert!(note(&replies, start, [50, 51, 50], 3));
    assert_eq!(left(&replies, start + WINDOW + MS * 50), Some(3));
    assert_eq!(left(&replies, start + WINDOW + MS * 51), None);
}

#[test]
fn replies_in_another_order_leave_no_more() {
    let (replies, start) = (Replies::new(1 << 20), Instant::now());
    assert!(note(&replies, start, [1, 9, 6], 3));
    assert!(!note(&replies, start, [0, 10, 5], 4), "executed earlier");
    assert!(note(&replies, start, [2, 10, 6], 4), "executed in the same microsecond");
    assert_eq!(left(&replies, start), Some(3));
    assert!(note(&replies, start, [2, 11, 7], 8), "units have expired");
    assert_eq!(left(&replies, start), Some(8));
}

// After a failover or a clock step, the time of the server may be earlier.
#[test]
fn a_reply_to_a_call_sent_later_counts_whatever_the_server_clock_is() {
    let (replies, start) = (Replies::new(1 << 20), Instant::now());
    assert!(note(&replies, start, [0, 1, 1000], 5));
    assert!(note(&replies, start, [1, 2, 3], 2));
    assert_eq!(left(&replies, start), Some(2));
}

#[test]
fn units_that_redis_does_not_have_yet_outlast_a_reply() {
    let (replies, start) = (Replies::new(1 << 20), Instant::now());
    assert!(note(&replies, start, [0, 1, 1], 5));
    replies.with(KEY, |reply| reply.unwrap().admitted = 4);
    let times = ReplyTimes {
        sent: start + MS,
        received: start + MS,
        server: MS,
        into_tick: Duration::ZERO,
    };
    assert!(replies.note(KEY, times, [5].into_iter(), || true));
    assert_eq!(left(&replies, start), Some(1));
    assert!(note(&replies, start, [1, 2, 2], 5));
    assert_eq!(left(&replies, start), Some(5));
}

#[test]
fn a_flood_of_keys_takes_bounded_memory_and_evicts_idle_keys_first() {
    let (replies, start) = (Replies::new(1 << 16), Instant::now());
    for key in 0..100_000 {
        let times =
            ReplyTimes { sent: start, received: start, server: MS, into_tick: Duration::ZERO };
        replies.note(TieredKey { key, tier: 0 }, times, [1].into_iter(), || false);
        assert!(note(&replies, start, [0, 1, 1], 5));
    }
    let bytes: usize = replies.shards.iter().map(|shard| shard.lock().bytes).sum();
    assert!(bytes <= 1 << 16, "{bytes}");
    assert_eq!(left(&replies, start), Some(1), "the smaller share of one time");
    for shard in &replies.shards {
        let shard = shard.lock();
        assert_eq!(shard.replies.len(), shard.queue.len());
        assert_eq!(shard.replies.values().map(LastReply::bytes).sum::<usize>(), shard.bytes);
    }
}

#[test]
fn a_key_is_forgotten_in_all_tiers() {
    let (replies, start) = (Replies::new(1 << 20), Instant::now());
    let times = ReplyTimes { sent: start, received: start, server: MS, into_tick: Duration::ZERO };
    for (key, tier) in [(7, 0), (7, 3), (7 + 64, 0)] {
        replies.note(TieredKey { key, tier }, times, [1].into_iter(), || false);
    }
    replies.forget(7);
    assert_eq!(left(&replies, start), None);
    assert!(replies.with(TieredKey { key: 7, tier: 3 }, |reply| reply.is_none()));
    assert!(replies.with(TieredKey { key: 7 + 64, tier: 0 }, |reply| reply.is_some()));
}
