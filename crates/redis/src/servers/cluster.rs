//! A cluster: slots, and the primaries that have them.
//!
//! Routing is our own because a client that repeats a call by itself, when a connection breaks,
//! would count it twice.

use core::fmt;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout_at};

use super::counts::Counts;
use super::failure::{Failure, FailureKind};
use super::node::{Node, Request, Timing};
use super::sentinel::MakeNode;
use super::slots::SlotMap;

/// The nodes of a cluster, found from some of them.
pub(crate) struct Cluster {
    seeds: Vec<Box<str>>,
    make: MakeNode,
    timing: Timing,
    counts: Arc<Counts>,
    state: Mutex<State>,
    /// Held by whoever asks for the slots.
    asking: AsyncMutex<()>,
}

#[derive(Default)]
struct State {
    slots: Option<SlotMap>,
    nodes: HashMap<Box<str>, Arc<Node>>,
    /// When the slots were last asked for after a failure.
    asked: Option<Instant>,
}

/// The slots are not asked for more often than this.
const PAUSE: Duration = Duration::from_millis(100);

/// A call follows no more redirections than this.
const HOPS_MAX: usize = 5;

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<Box<str>>,
        make: MakeNode,
        timing: Timing,
        counts: Arc<Counts>,
    ) -> Self {
        let state = Mutex::new(State::default());
        Self { seeds, make, timing, counts, state, asking: AsyncMutex::new(()) }
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
        self.ask(until).await?;
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
            let result = if asking {
                let mut pipeline = Pipeline::with_capacity(2);
                pipeline.cmd("ASKING").ignore().add_command(command.clone());
                node.call(Request::Last(&pipeline, 2), until).await
            } else {
                node.call(Request::One(command), until).await
            };
            let failure = match result {
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
                FailureKind::Ask { address } => {
                    self.counts.redirects.fetch_add(1, Ordering::Relaxed);
                    node = self.node(address)?;
                    asking = true;
                }
                FailureKind::Open(_) => {
                    self.ask_soon();
                    return Err(failure);
                }
                _ if failure.is_of_the_server() => {
                    self.ask_soon();
                    return Err(failure);
                }
                _ => return Err(failure),
            }
        }
        Err(Failure::refused(format!("slot {slot} was redirected {HOPS_MAX} times")))
    }

    async fn node_of(self: &Arc<Self>, slot: u16, until: Instant) -> Result<Arc<Node>, Failure> {
        if self.state.lock().slots.is_none() {
            self.ask(until).await?;
        }
        let address = {
            let state = self.state.lock();
            state.slots.as_ref().and_then(|slots| slots.address(slot)).map(str::to_owned)
        };
        match address {
            Some(address) => self.node(&address),
            None => {
                self.ask_soon();
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
        self.ask_soon();
    }

    /// Asks for the slots in the background, unless that has just been done.
    fn ask_soon(self: &Arc<Self>) {
        let now = Instant::now();
        {
            let mut state = self.state.lock();
            if state.asked.is_some_and(|asked| now < asked + PAUSE) {
                return;
            }
            state.asked = Some(now);
        }
        let cluster = Arc::clone(self);
        let until = now + self.timing.connect.max(self.timing.call) * 2;
        tokio::spawn(async move { cluster.ask(until).await });
    }

    /// Asks every node in turn until one answers.
    async fn ask(&self, until: Instant) -> Result<(), Failure> {
        let before = self.state.lock().slots.is_none();
        let late = || Failure::refused("the cluster did not name its slots in time");
        let _asking = timeout_at(until, self.asking.lock()).await.map_err(|_| late())?;
        if before && self.state.lock().slots.is_some() {
            return Ok(());
        }
        let mut last = Failure::refused("there is no node to ask for the slots");
        for address in self.to_ask() {
            match self.ask_one(&address, until).await {
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
    fn to_ask(&self) -> Vec<Box<str>> {
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

    async fn ask_one(&self, address: &str, until: Instant) -> Result<SlotMap, Failure> {
        // One that hangs must leave time for the others.
        let left = until.saturating_duration_since(Instant::now());
        let until = Instant::now() + left / 2;
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let answer = self.node(address)?.ask(Request::One(&question), until).await?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        SlotMap::read(&answer, host).filter(|slots| !slots.addresses().is_empty()).ok_or_else(
            || Failure::refused(format!("{address} names no slots: is it part of a cluster?")),
        )
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
