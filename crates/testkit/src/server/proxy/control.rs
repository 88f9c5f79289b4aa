//! The state that all connections of a proxy share: settings, counters, open connections.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::pipe::Direction;
use super::{AcceptMode, Counters, ReplyFault};

#[derive(Debug, Default)]
pub(super) struct Control(watch::Sender<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    /// The fault of replies, and the number of replies, or `None` for all.
    pub(super) fault: Option<(ReplyFault, Option<u64>)>,
    pub(super) accept_mode: AcceptMode,
    pub(super) counters: Counters,
    /// The tasks of the connections, by number.
    pub(super) lines: BTreeMap<u64, AbortHandle>,
    /// Connections of the proxy itself that fill the accept queue, until they are accepted. `None`
    /// if closed.
    pub(super) fillers: HashMap<SocketAddr, Option<TcpStream>>,
    /// Whether the acceptor has stopped accepting.
    pub(super) is_accepting_paused: bool,
    pub(super) is_over: bool,
}

/// The flow in one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    pub(super) delay: Duration,
    /// Bytes per second.
    pub(super) pace: Option<NonZeroU32>,
}

impl Control {
    /// Reads the state.
    pub(super) fn see<T>(&self, see: impl FnOnce(&State) -> T) -> T {
        see(&self.0.borrow())
    }

    /// Changes the state, and wakes tasks that wait for it to change.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        self.0.send_modify(change);
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counters)) {
        self.0.send_if_modified(|state| {
            count(&mut state.counters);
            false
        });
    }

    pub(super) async fn wait_for(&self, is_so: impl FnMut(&State) -> bool) {
        // The sender is alive, because it is this one.
        let _ = self.0.subscribe().wait_for(is_so).await;
    }

    pub(super) fn flow(&self, direction: Direction) -> Flow {
        self.see(|state| match direction {
            Direction::Requests => state.requests,
            Direction::Replies => state.replies,
        })
    }

    /// Returns the fault of the next reply.
    pub(super) fn next_fault(&self) -> Option<ReplyFault> {
        let mut next = None;
        self.change(|state| match &mut state.fault {
            None | Some((_, Some(0))) => {}
            Some((fault, left)) => {
                *left = left.map(|left| left - 1);
                next = Some(fault.clone());
            }
        });
        next
    }

    /// Closes all connections.
    pub(super) fn close_all(&self) {
        self.change(|state| {
            for line in std::mem::take(&mut state.lines).into_values() {
                line.abort();
                state.counters.cuts += 1;
            }
        });
    }
}
