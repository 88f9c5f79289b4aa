//! Tests of `lock`.

use super::*;
use core::sync::atomic::{AtomicBool, Ordering};

#[test]
fn one_at_a_time() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 20_000;
    let lock = Mutex::new((0, 0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let mut pair = lock.lock();
                    pair.0 += 1;
                    let seen = pair.0;
                    hint::black_box(&mut pair.1);
                    pair.1 = seen;
                    assert_eq!(pair.0, pair.1);
                }
            });
        }
    });
    assert_eq!(*lock.lock(), (THREADS * TURNS, THREADS * TURNS));
}

// The lock is not fair, so a thread might wait forever.
#[test]
fn no_thread_starves() {
    let (lock, done) = (Mutex::new(0u64), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                *lock.lock() += 1;
            }
        });
        for _ in 0..10_000 {
            *lock.lock() += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
}

// The holder sleeps for longer than the first attempts, so the waiting thread sleeps too.
#[test]
fn waits_for_a_slow_holder() {
    let (lock, held, seen) = (Mutex::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let until = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut guard = lock.lock();
            held.store(true, Ordering::Release);
            until(&seen);
            (0..100).for_each(|_| pause(u32::MAX));
            *guard = 1;
        });
        until(&held);
        assert!(lock.try_lock().is_none());
        seen.store(true, Ordering::Release);
        assert_eq!(*lock.lock(), 1);
    });
}
