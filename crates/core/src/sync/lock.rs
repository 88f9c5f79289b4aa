//! The lock of a shard, which is held for some ten nanoseconds as a rule.

use core::hint;
use core::time::Duration;
use std::thread;

use spin::mutex::SpinMutex;

pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, SpinMutex<()>, T>;

/// A lock that is given back by a plain write. One that has to look for sleepers then takes a second
/// atomic operation, which is a twentieth of a check.
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
            // To look first, as a try takes the lock's memory away from the thread that works on it.
            if !self.0.is_locked()
                && let Some(guard) = self.0.try_lock()
            {
                return guard;
            }
        }
    }
}

/// Looks at the lock with only a short pause in between.
const LOOKS_SOON: u32 = 16;
/// Further looks that let other threads run in between.
const LOOKS_POLITE: u32 = 512;
/// The pause before every later look. Sleeping comes late, because a sleeping thread may hold other
/// locks and does not wake when this one is free.
const SLEEP: Duration = Duration::from_micros(50);

/// What lies between two looks that come soon: about half a microsecond where it was measured. Two threads that ask for
/// one key again and again get twice as many answers as with looks all the time, since each
/// has the memory to itself for longer.
const PAUSES: u32 = 30;

/// Waits for the next look, longer the more there were. A thread that holds a lock that long was
/// interrupted and may have a lower priority than the waiting one, so yielding is not enough.
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
