//! A cluster: slots, and their primaries.
//!
//! Routing is implemented here so that a call is never sent twice: a cluster client that retries
//! when a connection breaks would count the check twice.

use core::fmt;
use core::sync::atomic::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use redis::Value;
use slidegate::DegradedReason;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::background::BackgroundTask;
use super::failure::{Failure, FailureKind};
use super::link::NodeEvent;
use super::node::{Node, Request, Timing};
use super::sentinel::MakeNode;
use super::slots::SlotMap;
use super::{RefreshPace, ServerCounts};

/// The nodes of a cluster, discovered from some of them.
pub(crate) struct Cluster {
    seeds: Vec<Box<str>>,
    make: MakeNode,
    timing: Timing,
    counts: Arc<ServerCounts>,
    state: Mutex<State>,
    refresh_pace: RefreshPace,
    /// Looks up the slots, with a separate time budget.
    refreshing: BackgroundTask,
    /// The result of the last lookup. `None` while the first one is in flight.
    refreshed: watch::Sender<Option<Result<(), Failure>>>,
    this: Weak<Self>,
}

#[derive(Default)]
struct State {
    slots: Option<SlotMap>,
    nodes: HashMap<Box<str>, Arc<Node>>,
}

/// The maximum number of redirections of a call.
const HOPS_MAX: usize = 5;

/// The number of nodes that are queried for the slots at the same time, so that one that hangs
/// costs little.
const ASKED_AT_ONCE: usize = 3;

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<Box<str>>,
        make: MakeNode,
        timing: Timing,
        counts: Arc<ServerCounts>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            let weak = Weak::clone(this);
            let make: MakeNode = Box::new(move |address| {
                let (weak, lost) = (Weak::clone(&weak), Box::<str>::from(address));
                // A replica may have taken over.
                let on_event = Box::new(move |event| {
                    if let (Some(cluster), NodeEvent::Lost) = (weak.upgrade(), event)
                        && cluster.is_serving(&lost).unwrap_or(true)
                    {
                        cluster.refresh_soon();
                    }
                });
                Ok(make(address)?.on_event(on_event))
            });
            Self {
                seeds,
                make,
                timing,
                counts,
                state: Mutex::default(),
                refresh_pace: RefreshPace::default(),
                refreshing: BackgroundTask::default(),
                refreshed: watch::Sender::new(None),
                this: Weak::clone(this),
            }
        })
    }

    pub(crate) fn known(&self) -> Vec<Arc<Node>> {
        self.state.lock().nodes.values().cloned().collect()
    }

    /// Returns the node of a slot, as far as it is known.
    pub(crate) fn known_of(&self, slot: u16) -> Option<Arc<Node>> {
        let state = self.state.lock();
        let address = state.slots.as_ref()?.address(slot)?;
        state.nodes.get(address).cloned()
    }

    /// Returns known nodes with slots. Others are seeds that are being queried, and targets of
    /// redirections.
    pub(crate) fn serving(&self) -> Vec<Arc<Node>> {
        let state = self.state.lock();
        let serving = state.slots.iter().flat_map(SlotMap::addresses);
        serving.filter_map(|address| state.nodes.get(address).cloned()).collect()
    }

    /// Returns `true` if a node has slots. Returns `None` if no slots are known.
    fn is_serving(&self, address: &str) -> Option<bool> {
        let state = self.state.lock();
        state.slots.as_ref().map(|slots| slots.addresses().contains(&address))
    }

    /// Returns `false` if no primary can be reached, or if the first lookup of the slots failed.
    pub(crate) fn is_reachable(&self) -> bool {
        let serving = self.serving();
        if serving.is_empty() {
            return !matches!(*self.refreshed.borrow(), Some(Err(_)));
        }
        serving.iter().any(|node| !node.is_unreachable())
    }

    /// Every primary, looked up now.
    pub(crate) async fn primaries(&self, until: Instant) -> Result<Vec<Arc<Node>>, Failure> {
        self.refresh(until).await?;
        let addresses: Vec<String> = {
            let state = self.state.lock();
            let slots = state.slots.iter().flat_map(SlotMap::addresses);
            slots.map(str::to_owned).collect()
        };
        addresses.iter().map(|address| self.node(address)).collect()
    }

    pub(crate) async fn call(
        &self,
        slot: u16,
        mut request: Request<'_>,
        until: Instant,
    ) -> Result<(Value, Arc<Node>), Failure> {
        let mut node = self.node_of(slot, until).await?;
        for _ in 0..HOPS_MAX {
            let failure = match node.call(request, until).await {
                Ok(value) => return Ok((value, node)),
                Err(failure) => failure,
            };
            // A redirection means that nothing was done here.
            match &failure.kind {
                FailureKind::Moved { slot, address } => {
                    self.counts.redirects.fetch_add(1, Ordering::Relaxed);
                    self.moved(*slot, address);
                    node = self.node(address)?;
                    request.asking = false;
                }
                FailureKind::RedirectOnce { address } => {
                    self.counts.redirects.fetch_add(1, Ordering::Relaxed);
                    node = self.node(address)?;
                    request.asking = true;
                }
                _ => {
                    if failure.suggests_failover() {
                        self.refresh_soon();
                    }
                    return Err(failure);
                }
            }
        }
        let why = format!("slot {slot} was redirected {HOPS_MAX} times");
        Err(Failure::refused(DegradedReason::Rejected, why))
    }

    async fn node_of(&self, slot: u16, until: Instant) -> Result<Arc<Node>, Failure> {
        if self.state.lock().slots.is_none() {
            self.first_refresh(until).await?;
        }
        let address = {
            let state = self.state.lock();
            state.slots.as_ref().and_then(|slots| slots.address(slot)).map(str::to_owned)
        };
        match address {
            Some(address) => self.node(&address),
            None => {
                self.refresh_soon();
                let why = format!("no node of the cluster has slot {slot}");
                Err(Failure::refused(DegradedReason::NotWritable, why))
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

    fn moved(&self, slot: u16, address: &str) {
        if let Some(slots) = &mut self.state.lock().slots {
            slots.moved(slot, address);
        }
        // If one slot has moved, others may have too.
        self.refresh_soon();
    }

    /// Looks up the slots in the background, unless that has just been done.
    fn refresh_soon(&self) {
        if self.refresh_pace.is_due(Instant::now()) {
            // Without a runtime, the next call returns the error.
            let _ = self.start_refresh();
        }
    }

    /// Starts a lookup unless one is in flight.
    fn start_refresh(&self) -> Result<(), Failure> {
        self.refreshing.ensure(|| {
            self.refreshed.send_replace(None);
            let cluster = Weak::clone(&self.this);
            async move {
                if let Some(cluster) = cluster.upgrade() {
                    let result = cluster.look_up().await;
                    cluster.refreshed.send_replace(Some(result));
                }
            }
        })
    }

    /// Looks up the slots and waits for the result until `until`. The lookup continues after that.
    async fn refresh(&self, until: Instant) -> Result<(), Failure> {
        self.start_refresh()?;
        let mut refreshed = self.refreshed.subscribe();
        let result = match timeout_at(until, refreshed.wait_for(Option::is_some)).await {
            Ok(Ok(result)) => result.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        let late = || Failure::connecting("the slots of the cluster are not known yet");
        result.unwrap_or_else(|| Err(late()))
    }

    /// Like [`refresh`](Cluster::refresh), while no slot is known. A lookup that has just failed is
    /// not repeated immediately.
    async fn first_refresh(&self, until: Instant) -> Result<(), Failure> {
        let last = self.refreshed.borrow().clone();
        match last {
            Some(Err(failure)) if !self.refresh_pace.is_due(Instant::now()) => Err(failure),
            _ => self.refresh(until).await,
        }
    }

    /// Queries several nodes at a time until one replies with the slots.
    async fn look_up(&self) -> Result<(), Failure> {
        let mut addresses = self.addresses_to_try().into_iter();
        let mut last = Failure::unreachable("there is no node to query for the slots");
        let mut queries = JoinSet::new();
        loop {
            while queries.len() < ASKED_AT_ONCE
                && let Some(address) = addresses.next()
            {
                let node = self.node(&address)?;
                let until = self.timing.query_deadline();
                queries.spawn(async move { fetch_slots(&node, until).await });
            }
            match queries.join_next().await {
                Some(Ok(Ok(slots))) => {
                    self.adopt(slots);
                    return Ok(());
                }
                Some(Ok(Err(failure))) => last = failure,
                Some(Err(_)) => {}
                None => return Err(last),
            }
        }
    }

    /// Returns the addresses, known nodes first: seeds may no longer exist.
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

    fn adopt(&self, slots: SlotMap) {
        let mut state = self.state.lock();
        let kept: Vec<Box<str>> = slots.addresses().into_iter().map(Into::into).collect();
        // Seeds too: their nodes are created again if they are needed, and some no longer exist.
        state.nodes.retain(|address, _| kept.contains(address));
        state.slots = Some(slots);
        drop(state);
        // A key should not have to wait for the connection to its node.
        for node in kept.iter().filter_map(|address| self.node(address).ok()) {
            node.connect_soon();
        }
    }
}

async fn fetch_slots(node: &Arc<Node>, until: Instant) -> Result<SlotMap, Failure> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let reply = node.query(&command, until).await?;
    let address = node.address();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    SlotMap::read(&reply, host).filter(|slots| !slots.addresses().is_empty()).ok_or_else(|| {
        let why = format!("{address} reports no slots: is it part of a cluster?");
        Failure::refused(DegradedReason::Rejected, why)
    })
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("seeds", &self.seeds)
            .field("nodes", &self.known())
            .finish_non_exhaustive()
    }
}
