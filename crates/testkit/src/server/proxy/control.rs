//! What all threads of a proxy share: the settings, the counters, the open lines.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::wait::now;
use super::counters::Counters;
use super::fault::{Door, ReplyFault};
use super::line::Line;
use super::pipe::Direction;

#[derive(Debug, Default)]
pub(super) struct Control {
    state: Mutex<State>,
    /// Told whenever a thread that waits may have to do something else.
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    /// What becomes of replies, and of how many; of all if `None`.
    pub(super) fault: Option<(ReplyFault, Option<u64>)>,
    pub(super) door: Door,
    pub(super) counters: Counters,
    lines: Vec<Arc<Line>>,
    fillers: Vec<SocketAddr>,
    /// Whether the acceptor has seen that the door is shut.
    is_nobody_let_in: bool,
    is_over: bool,
}

/// How one direction flows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    pub(super) delay: Duration,
    /// Bytes a second.
    pub(super) pace: Option<NonZeroU32>,
}

impl State {
    pub(super) fn heal(&mut self) {
        self.requests = Flow::default();
        self.replies = Flow::default();
        self.fault = None;
    }
}

impl Control {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let answer = change(&mut self.lock());
        self.changed.notify_all();
        answer
    }

    pub(super) fn counters(&self) -> Counters {
        self.lock().counters
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.lock().counters);
    }

    pub(super) fn flow(&self, direction: Direction) -> Flow {
        let state = self.lock();
        match direction {
            Direction::Requests => state.requests,
            Direction::Replies => state.replies,
        }
    }

    /// What becomes of the reply that begins now.
    pub(super) fn next_fault(&self) -> Option<ReplyFault> {
        let mut state = self.lock();
        let (fault, left) = state.fault.as_mut()?;
        match left {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        Some(fault.clone())
    }

    /// Waits while there is a black hole; answers whether the line is still whole.
    pub(super) fn wait_for_light(&self, line: &Line) -> bool {
        let dark = |state: &mut State| state.door == Door::BlackHole && !line.is_cut();
        drop(self.changed.wait_while(self.lock(), dark).unwrap_or_else(PoisonError::into_inner));
        !line.is_cut()
    }

    /// Waits until a moment has come; answers whether the line is still whole.
    pub(super) fn wait_until(&self, moment: Instant, line: &Line) -> bool {
        let time = moment.saturating_duration_since(now());
        let whole = |_: &mut State| !line.is_cut();
        let waited = self.changed.wait_timeout_while(self.lock(), time, whole);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        !line.is_cut()
    }

    /// Waits while the door is shut; answers whether to go on at all.
    pub(super) fn wait_for_door(&self) -> bool {
        let shut = |state: &mut State| state.door == Door::Shut && !state.is_over;
        self.change(|state| state.is_nobody_let_in = shut(state));
        let state = self.changed.wait_while(self.lock(), shut);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.is_nobody_let_in = false;
        !state.is_over
    }

    /// Waits until the door is not only shut, but nobody stands behind it to let one more in.
    pub(super) fn wait_for_shut(&self) {
        let open = |state: &mut State| state.door == Door::Shut && !state.is_nobody_let_in;
        drop(self.changed.wait_while(self.lock(), open).unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn add_filler(&self, address: SocketAddr) {
        self.lock().fillers.push(address);
    }

    /// Whether a connection is one of our own that kept the door shut; asked once for each.
    pub(super) fn was_filler(&self, address: SocketAddr) -> bool {
        let fillers = &mut self.lock().fillers;
        let before = fillers.len();
        fillers.retain(|filler| *filler != address);
        fillers.len() < before
    }

    /// Takes a line in, if there are fewer than `lines_max` and the proxy is not at its end.
    pub(super) fn add(&self, line: &Arc<Line>, lines_max: usize) -> bool {
        let mut state = self.lock();
        if state.is_over || state.lines.len() >= lines_max {
            state.counters.refused += 1;
            return false;
        }
        state.counters.connections += 1;
        state.lines.push(Arc::clone(line));
        true
    }

    /// Closes a line and forgets it.
    pub(super) fn remove(&self, line: &Arc<Line>) {
        self.change(|state| {
            line.cut();
            state.lines.retain(|other| !Arc::ptr_eq(other, line));
        });
    }

    pub(super) fn cut(&self, line: &Line) {
        self.change(|_| line.cut());
    }

    pub(super) fn cut_all(&self) {
        self.change(|state| {
            state.counters.cuts += u64::try_from(state.lines.len()).unwrap_or(u64::MAX);
            state.lines.iter().for_each(|line| line.cut());
        });
    }

    pub(super) fn end(&self) {
        self.change(|state| {
            state.is_over = true;
            state.lines.iter().for_each(|line| line.cut());
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
