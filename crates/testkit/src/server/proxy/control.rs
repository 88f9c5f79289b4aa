//! What all connections of a proxy share: the settings, the counters, the open lines.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::pipe::Direction;
use super::{Counters, Door, ReplyFault};

#[derive(Debug, Default)]
pub(super) struct Control(watch::Sender<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    /// What becomes of replies, and of how many; of all if `None`.
    pub(super) fault: Option<(ReplyFault, Option<u64>)>,
    pub(super) door: Door,
    pub(super) counters: Counters,
    /// The tasks that serve connections, by the number of the connection.
    pub(super) lines: BTreeMap<u64, AbortHandle>,
    /// Connections of our own that keep the door shut, until they are accepted; closed if `None`.
    pub(super) fillers: HashMap<SocketAddr, Option<TcpStream>>,
    /// Whether the acceptor has seen that the door is shut.
    pub(super) is_nobody_let_in: bool,
    pub(super) is_over: bool,
}

/// How one direction flows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    pub(super) delay: Duration,
    /// Bytes a second.
    pub(super) pace: Option<NonZeroU32>,
}

impl Control {
    /// Looks at the state.
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
        // The sender is this one: it is not gone.
        let _ = self.0.subscribe().wait_for(is_so).await;
    }

    pub(super) fn flow(&self, direction: Direction) -> Flow {
        self.see(|state| match direction {
            Direction::Requests => state.requests,
            Direction::Replies => state.replies,
        })
    }

    /// What becomes of the reply that begins now.
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
