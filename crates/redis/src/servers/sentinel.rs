//! A primary that Sentinels name.

use core::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RefreshPace;
use super::failure::{Failure, FailureKind};
use super::node::{Node, Request, Timing};

/// Makes the node of an address, with the credentials and settings for it.
pub(crate) type MakeNode = Box<dyn Fn(&str) -> Result<Node, Failure> + Send + Sync>;

/// Queries Sentinels for the primary, at first and whenever it fails.
pub(crate) struct Sentinel {
    sentinels: Vec<Arc<Node>>,
    service: Box<str>,
    make: MakeNode,
    timing: Timing,
    primary: Mutex<Option<Arc<Node>>>,
    refresh_pace: RefreshPace,
}

impl Sentinel {
    pub(crate) fn new(sentinels: Vec<Node>, service: &str, make: MakeNode, timing: Timing) -> Self {
        Self {
            sentinels: sentinels.into_iter().map(Arc::new).collect(),
            service: service.into(),
            make,
            timing,
            primary: Mutex::default(),
            refresh_pace: RefreshPace::default(),
        }
    }

    pub(crate) fn known(&self) -> Option<Arc<Node>> {
        self.primary.lock().clone()
    }

    /// The primary, looked up if it is not known.
    pub(crate) async fn primary(self: &Arc<Self>, until: Instant) -> Result<Arc<Node>, Failure> {
        match self.known() {
            Some(primary) => Ok(primary),
            None => self.find_primary(until).await,
        }
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        command: &Cmd,
        callers: u32,
        until: Instant,
    ) -> Result<(Value, Arc<Node>), Failure> {
        let primary = self.primary(until).await?;
        let result = primary.call(Request { command, callers, asking: false }, until).await;
        if let Err(failure) = &result {
            let open = matches!(failure.kind, FailureKind::Open(_));
            if open || failure.is_server_fault() {
                self.refresh_soon();
            }
        }
        result.map(|value| (value, primary))
    }

    /// Looks up the primary in the background, unless that has just been done.
    fn refresh_soon(self: &Arc<Self>) {
        let now = Instant::now();
        if !self.refresh_pace.is_due(now) {
            return;
        }
        let sentinel = Arc::clone(self);
        let until = now + self.timing.connect.max(self.timing.call);
        tokio::spawn(async move { sentinel.find_primary(until).await });
    }

    async fn find_primary(&self, until: Instant) -> Result<Arc<Node>, Failure> {
        let mut last = Failure::refused("there is no Sentinel to ask");
        for sentinel in &self.sentinels {
            match self.address_from(sentinel, until).await {
                Ok(address) => return self.adopt(&address),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn address_from(&self, sentinel: &Arc<Node>, until: Instant) -> Result<String, Failure> {
        // A Sentinel that hangs must leave time for the others.
        let left = until.saturating_duration_since(Instant::now());
        let until = Instant::now() + left / 2;
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&*self.service);
        let reply = sentinel.query(&command, until).await?;
        let unknown = || {
            let service = &self.service;
            Failure::refused(format!("{} knows no service {service:?}", sentinel.address()))
        };
        let (host, port): (String, u16) = redis::from_redis_value(reply).map_err(|_| unknown())?;
        Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
    }

    /// A primary with another address starts with a breaker of its own.
    fn adopt(&self, address: &str) -> Result<Arc<Node>, Failure> {
        let mut known = self.primary.lock();
        if let Some(primary) = known.as_ref().filter(|node| node.address() == address) {
            return Ok(Arc::clone(primary));
        }
        let primary = Arc::new((self.make)(address)?);
        *known = Some(Arc::clone(&primary));
        Ok(primary)
    }
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinel")
            .field("sentinels", &self.sentinels)
            .field("service", &self.service)
            .field("primary", &self.known())
            .finish_non_exhaustive()
    }
}
