//! Batches compared with single checks.

use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use super::*;

const MOMENT: Moment = Moment { now: 1000, date: 1000 };

fn store(limit: u64, shards: usize) -> MemoryStore<Log> {
    let limits = Limits::of(&[(limit, 60_000)]);
    let scale = TickScale::new(Duration::from_millis(1)).unwrap();
    let on_full = OnFull::Overflow;
    MemoryStore::new(&StoreSettings {
        shards,
        memory_limit: 1 << 20,
        on_full,
        scale,
        limits,
        waiters_max: 16,
        waiters_per_key_max: 16,
    })
}

fn request(store: &MemoryStore<Log>, fingerprint: u64, cost: u64) -> Request<'_> {
    Request { fingerprint, limits: &store.shared.limits, moment: MOMENT, cost }
}

proptest! {
    // Keys in several shards, new and existing, repeated in a batch, with some of the shards left
    // to single checks.
    #[test]
    fn a_batch_decides_like_single_checks(
        batches in prop::collection::vec(
            (prop::collection::vec(0u64..12, 1..40), prop::collection::vec(0usize..4, 0..3)),
            1..10,
        ),
        cost in 1u64..3,
    ) {
        let (batched, single) = (store(5, 4), store(5, 4));
        for (keys, busy) in batches {
            for index in busy {
                batched.shards[index].1.mark();
            }
            let requests: Vec<_> = keys.iter().map(|key| request(&batched, *key, cost)).collect();
            let mut decisions = Vec::new();
            batched.check_many(&requests, &mut decisions);
            let expected = keys.iter().map(|key| single.check(&request(&single, *key, cost)));
            let seen = |decision: &Decision| (decision.is_allowed(), decision.remaining());
            let expected: Vec<_> = expected.map(|decision| seen(&decision)).collect();
            prop_assert_eq!(decisions.iter().map(seen).collect::<Vec<_>>(), expected);
        }
    }
}

// If a batch waited for a lock while it holds others, a third thread would wait for both.
#[test]
fn a_batch_holds_no_lock_while_it_waits_for_one() {
    for taken in [0, 1] {
        let store = store(5, 2);
        let free = 1 - taken;
        let guard = store.shards[taken].0.lock();
        let (sender, receiver) = mpsc::channel();
        let decisions = thread::scope(|scope| {
            let batch = scope.spawn(|| {
                let mut decisions = Vec::new();
                let requests = [0, 1, 0, 1].map(|key| request(&store, key, 1));
                store.check_many(&requests, &mut decisions);
                decisions
            });
            scope.spawn(|| {
                // The batch has reached the taken lock once it has marked the shard.
                while store.shards[taken].1.0.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
                let _ = sender.send(store.used(&request(&store, free as u64, 1)));
            });
            let seen = receiver.recv_timeout(Duration::from_secs(20));
            drop(guard);
            assert!(seen.is_ok(), "the lock of shard {free} was held");
            batch.join().unwrap()
        });
        assert_eq!(decisions.iter().map(Decision::remaining).collect::<Vec<_>>(), [4, 4, 3, 3]);
    }
}

#[test]
fn a_shard_is_batched_again_later() {
    let contention = Contention::default();
    assert!(!contention.is_busy());
    contention.mark();
    assert!((0..Contention::BATCHES).all(|_| contention.is_busy()));
    assert!(!contention.is_busy());
}
