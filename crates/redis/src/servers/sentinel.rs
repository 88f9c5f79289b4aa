//! A primary that Sentinels name.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::failure::{Failure, FailureKind};
use super::node::{Node, Request, Timing};

/// Makes the node of an address, with the credentials and settings for it.
pub(crate) type MakeNode = Box<dyn Fn(&str) -> Result<Node, Failure> + Send + Sync>;

/// Asks Sentinels who the primary is, at first and whenever it fails.
pub(crate) struct Sentinel {
    sentinels: Vec<Arc<Node>>,
    service: Box<str>,
    make: MakeNode,
    timing: Timing,
    state: Mutex<State>,
}

struct State {
    primary: Option<Arc<Node>>,
    /// When the Sentinels were last asked after a failure.
    asked: Option<Instant>,
}

/// Sentinels are not asked more often than this.
const PAUSE: Duration = Duration::from_millis(100);

impl Sentinel {
    pub(crate) fn new(sentinels: Vec<Node>, service: &str, make: MakeNode, timing: Timing) -> Self {
        Self {
            sentinels: sentinels.into_iter().map(Arc::new).collect(),
            service: service.into(),
            make,
            timing,
            state: Mutex::new(State { primary: None, asked: None }),
        }
    }

    pub(crate) fn known(&self) -> Option<Arc<Node>> {
        self.state.lock().primary.clone()
    }

    /// The primary, asked for if it is not known.
    pub(crate) async fn primary(self: &Arc<Self>, until: Instant) -> Result<Arc<Node>, Failure> {
        match self.known() {
            Some(primary) => Ok(primary),
            None => self.ask(until).await,
        }
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        command: &Cmd,
        callers: u32,
        until: Instant,
    ) -> Result<(Value, Arc<Node>), Failure> {
        let primary = self.primary(until).await?;
        let result = primary.call(Request::Shared(command, callers), until).await;
        if let Err(failure) = &result {
            let open = matches!(failure.kind, FailureKind::Open(_));
            if open || failure.is_of_the_server() {
                self.ask_soon();
            }
        }
        result.map(|value| (value, primary))
    }

    /// Asks in the background whether there is another primary by now.
    fn ask_soon(self: &Arc<Self>) {
        let now = Instant::now();
        {
            let mut state = self.state.lock();
            if state.asked.is_some_and(|asked| now < asked + PAUSE) {
                return;
            }
            state.asked = Some(now);
        }
        let sentinel = Arc::clone(self);
        let until = now + self.timing.connect.max(self.timing.call);
        tokio::spawn(async move { sentinel.ask(until).await });
    }

    async fn ask(&self, until: Instant) -> Result<Arc<Node>, Failure> {
        let mut last = Failure::refused("there is no Sentinel to ask");
        for sentinel in &self.sentinels {
            match self.ask_one(sentinel, until).await {
                Ok(address) => return self.adopt(&address),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn ask_one(&self, sentinel: &Arc<Node>, until: Instant) -> Result<String, Failure> {
        // One that hangs must leave time for the others.
        let left = until.saturating_duration_since(Instant::now());
        let until = Instant::now() + left / 2;
        let mut question = redis::cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&*self.service);
        let answer = sentinel.ask(Request::One(&question), until).await?;
        let unknown = || {
            let service = &self.service;
            Failure::refused(format!("{} knows no service {service:?}", sentinel.address()))
        };
        let (host, port): (String, u16) = redis::from_redis_value(answer).map_err(|_| unknown())?;
        Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
    }

    /// A primary with another address starts with a breaker of its own.
    fn adopt(&self, address: &str) -> Result<Arc<Node>, Failure> {
        let mut state = self.state.lock();
        if let Some(primary) = state.primary.as_ref().filter(|node| node.address() == address) {
            return Ok(Arc::clone(primary));
        }
        let primary = Arc::new((self.make)(address)?);
        state.primary = Some(Arc::clone(&primary));
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
