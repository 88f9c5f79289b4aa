//! A cluster: slots, and the primaries that have them.
//!
//! Routing is our own so that a call is never sent twice: a cluster client that retries by itself
//! when a connection breaks would count the check twice.

use core::fmt;
use core::sync::atomic::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout_at};

use super::failure::{Failure, FailureKind};
use super::node::{Node, Request, Timing};
use super::sentinel::MakeNode;
use super::slots::SlotMap;
use super::{RefreshPace, ServerCounts};

/// The nodes of a cluster, found from some of them.
pub(crate) struct Cluster {
    seeds: Vec<Box<str>>,
    make: MakeNode,
    timing: Timing,
    counts: Arc<ServerCounts>,
    state: Mutex<State>,
    refresh_pace: RefreshPace,
    /// Held while the slots are looked up.
    refreshing: AsyncMutex<()>,
}

#[derive(Default)]
struct State {
    slots: Option<SlotMap>,
    nodes: HashMap<Box<str>, Arc<Node>>,
}

/// A call follows no more redirections than this.
const HOPS_MAX: usize = 5;

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<Box<str>>,
        make: MakeNode,
        timing: Timing,
        counts: Arc<ServerCounts>,
    ) -> Self {
        let state = Mutex::new(State::default());
        let refreshing = AsyncMutex::new(());
        let refresh_pace = RefreshPace::default();
        Self { seeds, make, timing, counts, state, refresh_pace, refreshing }
    }

    pub(crate) fn known(&self) -> Vec<Arc<Node>> {
        self.state.lock().nodes.values().cloned().collect()
    }

    /// The node that has a slot, as far as is known.
    pub(crate) fn known_of(&self, slot: u16) -> Option<Arc<Node>> {
        let state = self.state.lock();
        let address = state.slots.as_ref()?.address(slot)?;
        state.nodes.get(address).cloned()
    }

    /// Known nodes that have slots. Others are seeds, which may be dead for good.
    pub(crate) fn serving(&self) -> Vec<Arc<Node>> {
        let state = self.state.lock();
        let serving = state.slots.iter().flat_map(SlotMap::addresses);
        serving.filter_map(|address| state.nodes.get(address).cloned()).collect()
    }

    pub(crate) async fn primaries(
        self: &Arc<Self>,
        until: Instant,
    ) -> Result<Vec<Arc<Node>>, Failure> {
        self.refresh(until).await?;
        let addresses: Vec<String> = {
            let state = self.state.lock();
            let slots = state.slots.iter().flat_map(SlotMap::addresses);
            slots.map(str::to_owned).collect()
        };
        addresses.iter().map(|address| self.node(address)).collect()
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        slot: u16,
        command: &Cmd,
        until: Instant,
    ) -> Result<(Value, Arc<Node>), Failure> {
        let mut node = self.node_of(slot, until).await?;
        let mut asking = false;
        for _ in 0..HOPS_MAX {
            let failure = match node.call(Request { command, callers: 1, asking }, until).await {
                Ok(value) => return Ok((value, node)),
                Err(failure) => failure,
            };
            // A redirection says that nothing was done here.
            match &failure.kind {
                FailureKind::Moved { slot, address } => {
                    self.counts.redirects.fetch_add(1, Ordering::Relaxed);
                    self.moved(*slot, address);
                    node = self.node(address)?;
                    asking = false;
                }
                FailureKind::RedirectOnce { address } => {
                    self.counts.redirects.fetch_add(1, Ordering::Relaxed);
                    node = self.node(address)?;
                    asking = true;
                }
                kind => {
                    if failure.is_server_fault() || matches!(kind, FailureKind::Open(_)) {
                        self.refresh_soon();
                    }
                    return Err(failure);
                }
            }
        }
        Err(Failure::refused(format!("slot {slot} was redirected {HOPS_MAX} times")))
    }

    async fn node_of(self: &Arc<Self>, slot: u16, until: Instant) -> Result<Arc<Node>, Failure> {
        if self.state.lock().slots.is_none() {
            self.refresh(until).await?;
        }
        let address = {
            let state = self.state.lock();
            state.slots.as_ref().and_then(|slots| slots.address(slot)).map(str::to_owned)
        };
        match address {
            Some(address) => self.node(&address),
            None => {
                self.refresh_soon();
                Err(Failure::refused(format!("no node of the cluster has slot {slot}")))
            }
        }
    }

    fn node(&self, address: &str) -> Result<Arc<Node>, Failure> {
        let mut state = self.state.lock();
        if let Some(node) = state.nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new((self.make)(address)?);
        state.nodes.insert(address.into(), Arc::clone(&node));
        Ok(node)
    }

    fn moved(self: &Arc<Self>, slot: u16, address: &str) {
        if let Some(slots) = &mut self.state.lock().slots {
            slots.moved(slot, address);
        }
        // Where one slot went, others may have.
        self.refresh_soon();
    }

    /// Looks up the slots in the background, unless that has just been done.
    fn refresh_soon(self: &Arc<Self>) {
        let now = Instant::now();
        if !self.refresh_pace.is_due(now) {
            return;
        }
        let cluster = Arc::clone(self);
        let until = now + self.timing.connect.max(self.timing.call) * 2;
        tokio::spawn(async move { cluster.refresh(until).await });
    }

    /// Queries every node in turn until one replies with the slots.
    async fn refresh(&self, until: Instant) -> Result<(), Failure> {
        let before = self.state.lock().slots.is_none();
        let late = || Failure::refused("the cluster did not name its slots in time");
        let _refreshing = timeout_at(until, self.refreshing.lock()).await.map_err(|_| late())?;
        if before && self.state.lock().slots.is_some() {
            return Ok(());
        }
        let mut last = Failure::refused("there is no node to ask for the slots");
        for address in self.addresses_to_try() {
            match self.fetch_slots(&address, until).await {
                Ok(slots) => {
                    self.adopt(slots);
                    return Ok(());
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Known nodes first: seeds may have gone.
    fn addresses_to_try(&self) -> Vec<Box<str>> {
        let state = self.state.lock();
        let known = state.slots.iter().flat_map(SlotMap::addresses).map(Into::into);
        let mut all: Vec<Box<str>> = known.collect();
        for seed in &self.seeds {
            if !all.contains(seed) {
                all.push(seed.clone());
            }
        }
        all
    }

    async fn fetch_slots(&self, address: &str, until: Instant) -> Result<SlotMap, Failure> {
        // A node that hangs must leave time for the others.
        let left = until.saturating_duration_since(Instant::now());
        let until = Instant::now() + left / 2;
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let reply = self.node(address)?.query(&command, until).await?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        SlotMap::read(&reply, host).filter(|slots| !slots.addresses().is_empty()).ok_or_else(|| {
            Failure::refused(format!("{address} names no slots: is it part of a cluster?"))
        })
    }

    fn adopt(&self, slots: SlotMap) {
        let mut state = self.state.lock();
        let kept: Vec<Box<str>> = slots.addresses().into_iter().map(Into::into).collect();
        state.nodes.retain(|address, _| kept.contains(address) || self.seeds.contains(address));
        state.slots = Some(slots);
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("seeds", &self.seeds)
            .field("nodes", &self.known())
            .finish_non_exhaustive()
    }
}
