//! What all listeners share: accepting and counting connections, their timeouts, shutdown.

mod body;
mod body_budget;
mod connections;
mod drive;
mod frames;
mod observed;
mod timeouts;

use core::pin::pin;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

pub(crate) use self::body::{BodyError, BodyLimits, read_body};
pub(crate) use self::body_budget::BodyShare;
pub use self::body_budget::{BODIES_MAX, BodyBudget};
use self::connections::NoSlot;
pub use self::connections::{AddressLimit, ConnectionSlot, Connections};
pub(crate) use self::drive::{ConnectionEnd, Drive, drive};
pub(crate) use self::observed::ObservedStream;
pub use self::timeouts::Activity;
pub(crate) use self::timeouts::{ActiveRequest, ClientWait, ConnectionTimeouts};

/// The shutdown signal, for tasks that wait for it.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Ends every task that holds a [`Stop`].
#[derive(Debug, Default)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// The receiving side.
    pub fn stop(&self) -> Stop {
        Stop(self.0.subscribe())
    }

    /// Sends the signal.
    pub fn end(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits for the signal. Also returns when the [`Stopper`] is dropped.
    pub async fn wait(mut self) {
        let _ = self.0.wait_for(|ended| *ended).await;
    }

    /// Whether the signal was sent.
    pub fn is_over(&self) -> bool {
        *self.0.borrow()
    }

    /// Whether the signal was sent since this receiver was created. Cheaper than
    /// [`is_over`](Stop::is_over).
    pub(crate) fn has_news(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }
}

/// The bytes of a request over HTTP/2 that the library buffers before they are read.
pub(crate) const STREAM_WINDOW: u32 = 64 << 10;
/// The same, for all requests of a connection.
pub(crate) const CONNECTION_WINDOW: u32 = 256 << 10;

/// The backlog of a listener. The kernel lowers it to its own maximum, `net.core.somaxconn`.
const BACKLOG: u32 = 1 << 15;

/// Listens on an address.
///
/// # Errors
///
/// When the address is in use or not local. The message contains `name`.
pub(crate) fn listen(name: &str, address: SocketAddr) -> Result<TcpListener, String> {
    bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address} for {name}: something else listens there; choose another \
             with --listen-{name} or `listen.{name}`"
        ),
        _ => format!("cannot listen on {address} for {name}: {error}"),
    })
}

/// Checks whether an address can be listened on by this process, now or when it is free.
///
/// # Errors
///
/// When it is not local, or the port is privileged. The message contains `name`.
pub(crate) fn may_bind(name: &str, address: SocketAddr) -> Result<(), String> {
    match std::net::TcpListener::bind(address) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            Err(format!("cannot listen on {address} for {name}: {error}"))
        }
        _ => Ok(()),
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of an earlier process that linger in the kernel do not block a restart.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until the shutdown signal, and spawns the future that `serve` returns for each,
/// which holds the slot until it ends. If all slots are taken, the connection that has been idle longest
/// is closed. A connection without a slot is sent `refusal` and closed.
pub(crate) async fn accept_all<F>(
    listener: &TcpListener,
    connections: &Arc<Connections>,
    stop: &Stop,
    refusal: &[u8],
    tasks: &mut JoinSet<()>,
    serve: impl Fn(TcpStream, SocketAddr, ConnectionSlot) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    /// Out of file descriptors, most likely: trying again at once does not help.
    const PAUSE: Duration = Duration::from_millis(50);
    let mut stopped = pin!(stop.clone().wait());
    let (mut full, mut failing) = (LogInterval::default(), LogInterval::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stopped => return,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let mut entered = connections.enter(address.ip());
                while matches!(entered, Err(NoSlot::Full)) && connections.evict() {
                    if full.has_passed() {
                        warn!("{}", connections.describe_evictions());
                    }
                    // The evicted task ends at once, and frees its slot.
                    let _ = tasks.join_next().await;
                    entered = connections.enter(address.ip());
                }
                let slot = match entered {
                    Ok(slot) => slot,
                    Err(reason) => {
                        connections.refused.add(1);
                        // Best effort: a client is never waited for.
                        let _ = stream.try_write(refusal);
                        if full.has_passed() {
                            warn!("{}", connections.describe_refusals(reason, address.ip()));
                        }
                        continue;
                    }
                };
                // Replies are small and whole: waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                let id = slot.id();
                connections.spawned(id, tasks.spawn(serve(stream, address, slot)));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                connections.failed.add(1);
                if failing.has_passed() {
                    warn!("listener {}: cannot accept connections: {error}", connections.name());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Limits how often a repeated problem is logged.
#[derive(Debug, Default)]
pub(crate) struct LogInterval(Option<Instant>);

/// The minimum time between two log lines about the same problem.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

impl LogInterval {
    /// Returns `true` the first time, and then at most once per ten seconds.
    pub(crate) fn has_passed(&mut self) -> bool {
        let has_passed = self.0.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL);
        if has_passed {
            self.0 = Some(Instant::now());
        }
        has_passed
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
