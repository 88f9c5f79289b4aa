//! The waker of a connection, which can pass over a wake that means nothing.
//!
//! Whoever takes a piece of an HTTP/1 body wakes the connection, so that it reads the next one. Behind the
//! last piece there is no next one: the connection, which is being polled right then, would be polled
//! once more for nothing, with every request.

use core::cell::Cell;
use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;

/// The waker that a connection is polled with.
#[derive(Debug, Default)]
pub(super) struct ConnectionWaker {
    made: Option<(Arc<Task>, Waker)>,
}

/// The task that the connection is polled by.
#[derive(Debug)]
struct Task(Waker);

impl ConnectionWaker {
    /// A waker of this task.
    #[inline]
    pub(super) fn of(&mut self, task: &Waker) -> &Waker {
        // Made once, unless the connection moves on to another task.
        self.made.take_if(|(known, _)| !known.0.will_wake(task));
        let (_, waker) = self.made.get_or_insert_with(|| {
            let task = Arc::new(Task(task.clone()));
            (Arc::clone(&task), task.into())
        });
        waker
    }
}

thread_local! {
    /// What becomes of wakes by this thread. Those by others, such as that bytes came, are never held.
    static WAKES: Cell<Wakes> = const { Cell::new(Wakes::Passed) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wakes {
    Passed,
    Held,
    /// Held, and there was one.
    Missed,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match WAKES.get() {
            Wakes::Passed => self.0.wake_by_ref(),
            Wakes::Held | Wakes::Missed => WAKES.set(Wakes::Missed),
        }
    }
}

/// Does something without waking connections, and tells whether one would have been woken.
#[inline]
pub(in crate::http) fn without_wakes<T>(act: impl FnOnce() -> T) -> (T, bool) {
    let _ending = Ending;
    WAKES.set(Wakes::Held);
    let result = act();
    (result, WAKES.get() == Wakes::Missed)
}

/// Lets wakes pass again, after a panic too.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        WAKES.set(Wakes::Passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_wakes_by_this_thread_and_meanwhile_are_held() {
        let count = Arc::new(Count::default());
        let wakes = || count.0.load(Ordering::Relaxed);
        let (task, mut connection) = (Waker::from(Arc::clone(&count)), ConnectionWaker::default());
        let waker = connection.of(&task).clone();
        waker.wake_by_ref();
        assert_eq!(wakes(), 1);
        assert_eq!(without_wakes(|| waker.wake_by_ref()), ((), true));
        assert_eq!(without_wakes(|| ()), ((), false));
        assert_eq!(wakes(), 1);
        without_wakes(|| std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join()))
            .0
            .unwrap();
        assert_eq!(wakes(), 2);
        let panicked =
            std::panic::catch_unwind(|| without_wakes(|| panic!("as the test wants it")));
        assert!(panicked.is_err());
        waker.wake();
        assert_eq!(wakes(), 3);
    }

    #[test]
    fn a_connection_that_moves_wakes_its_new_task() {
        let [one, other] = [(); 2].map(|()| Arc::new(Count::default()));
        let mut connection = ConnectionWaker::default();
        let first = connection.of(&Arc::clone(&one).into()).clone();
        assert!(connection.of(&Arc::clone(&one).into()).will_wake(&first));
        connection.of(&Arc::clone(&other).into()).wake_by_ref();
        let counts = [one, other].map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(counts, [0, 1]);
    }
}
