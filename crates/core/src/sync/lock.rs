//! The lock of a shard, which is usually held for about ten nanoseconds.

use core::hint;
use core::time::Duration;
use std::thread;

use spin::mutex::SpinMutex;

pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, SpinMutex<()>, T>;

/// A lock that is released by a plain store. A lock that has to look for sleeping threads needs a
/// second atomic operation, which is a twentieth of a check.
#[derive(Debug)]
pub(crate) struct Mutex<T>(lock_api::Mutex<SpinMutex<()>, T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(lock_api::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> MutexGuard<'_, T> {
        let mut looks = 0;
        loop {
            pause(looks);
            looks = looks.saturating_add(1);
            // Reads first, because an attempt takes the cache line away from the holder.
            if !self.0.is_locked()
                && let Some(guard) = self.0.try_lock()
            {
                return guard;
            }
        }
    }
}

/// The number of attempts with a short pause in between.
const LOOKS_SOON: u32 = 16;
/// The number of further attempts that yield in between.
const LOOKS_POLITE: u32 = 512;
/// The pause before every later attempt. Threads sleep late, because a sleeping thread may hold
/// other locks and does not wake when this one is released.
const SLEEP: Duration = Duration::from_micros(50);

/// The number of spin hints between the first attempts, about half a microsecond where it was
/// measured. Two threads that check one key continuously get twice the throughput of continuous
/// attempts, because each has the cache line for longer.
const PAUSES: u32 = 30;

/// Pauses before the next attempt, longer after more attempts. A holder that takes that long was
/// preempted and may have a lower priority than the waiting thread, so yielding is not enough.
fn pause(looks: u32) {
    if looks < LOOKS_SOON {
        (0..PAUSES).for_each(|_| hint::spin_loop());
    } else if looks < LOOKS_SOON + LOOKS_POLITE {
        thread::yield_now();
    } else {
        #[expect(clippy::disallowed_methods, reason = "a lock waits in real time")]
        thread::sleep(SLEEP);
    }
}

#[cfg(test)]
mod tests;
