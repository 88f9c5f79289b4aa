//! A proxy that breaks connections like networks and failing servers do.

mod acceptor;
mod control;
mod frame;
mod pipe;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;

use super::wait::poll;
use super::{RedisServer, ServerError};
use acceptor::accept;
use control::{Control, Flow};

/// A loopback port that forwards to a server, unchanged until a fault is set.
///
/// A setting applies immediately, also to open connections, and to bytes that arrive from then on.
/// Requests and replies are recognized by their frames; where the stream is not the Redis protocol
/// (TLS), what is read at a time counts as one. Messages that a server pushes count as replies.
///
/// Dropping it closes all connections.
///
/// ```
/// use slidegate_testkit::server::{Proxy, RedisServer, ReplyFault};
///
/// let server = RedisServer::start()?;
/// let proxy = Proxy::in_front_of(&server)?;
/// let mut connection = redis::Client::open(proxy.url())?.get_connection()?;
///
/// proxy.fail_next(1, ReplyFault::Cut { after: 0 });
/// let answer = redis::cmd("INCR").arg("count").query::<u64>(&mut connection);
/// assert!(answer.is_err());
/// // It was counted all the same.
/// let count: u64 = redis::cmd("GET").arg("count").query(&mut server.connection()?)?;
/// assert_eq!(count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    control: Arc<Control>,
    listener: TcpListener,
    address: SocketAddr,
    url: String,
    /// Runs the tasks of all connections.
    thread: Option<JoinHandle<()>>,
}

/// Counters of a proxy, which only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were closed immediately, because too many were open.
    pub refused: u64,
    /// Whole requests forwarded.
    pub requests: u64,
    /// Whole replies read from the server, including dropped ones.
    pub replies: u64,
    /// Bytes forwarded to the server.
    pub bytes_to_server: u64,
    /// Bytes forwarded to clients.
    pub bytes_to_clients: u64,
    /// Replies, or parts of them, that were dropped.
    pub replies_swallowed: u64,
    /// Bytes of replies that were dropped.
    pub bytes_swallowed: u64,
    /// Connections that were closed in the middle of a reply.
    pub cuts: u64,
}

/// A fault of a reply. The request before it reached the server and was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyFault {
    /// The reply is dropped, and the stream continues after it.
    ///
    /// No network does that: a client that continues to use the connection takes the next reply for
    /// this one.
    Swallow,
    /// The reply and everything after it on that connection are dropped, and the connection stays
    /// open.
    Deafen,
    /// The first bytes arrive, then the connection is closed. `0` closes it instead of the reply.
    Cut {
        /// The number of bytes that arrive, at most the whole reply.
        after: usize,
    },
    /// These bytes arrive before the reply.
    Inject(Vec<u8>),
}

/// How clients are accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AcceptMode {
    /// Connections are accepted and served.
    #[default]
    Open,
    /// Connections are accepted, but nothing is forwarded in either direction, also on open ones.
    /// Held data is forwarded when the proxy is opened again.
    BlackHole,
    /// No connection is accepted or refused. Open connections are served.
    Shut,
}

/// The usual length of the accept queue.
const BACKLOG: i32 = 128;

/// More connections than the kernel queues at length zero.
const FILLERS_MAX: usize = 8;

/// The time after which a connection on loopback shows that the queue is full.
const FULL_AFTER: Duration = Duration::from_millis(200);

impl Proxy {
    /// Creates a proxy for a server, which may be restarted.
    pub fn in_front_of(server: &RedisServer) -> Result<Self, ServerError> {
        let mut proxy = Self::to_port(server.port())?;
        proxy.url = server.url_on(proxy.port());
        Ok(proxy)
    }

    /// Creates a proxy for a loopback port.
    pub fn to_port(port: u16) -> Result<Self, ServerError> {
        Self::start((Ipv4Addr::LOCALHOST, port).into())
            .map_err(|error| ServerError::new(format!("cannot start a proxy: {error}")))
    }

    fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control::default());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let accepting = {
            let _context = runtime.enter();
            accept(Arc::clone(&control), listener.try_clone()?.try_into()?, server)
        };
        let thread = thread::Builder::new().name("proxy".to_owned());
        let thread = Some(thread.spawn(move || runtime.block_on(accepting))?);
        let url = format!("redis://{address}/");
        Ok(Self { control, listener, address, url, thread })
    }

    /// Returns the server's address with the port of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns its loopback port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.control.see(|state| state.counters)
    }

    /// Delays requests by this time, without delaying later ones further.
    pub fn delay_requests(&self, delay: Duration) {
        self.control.change(|state| state.requests.delay = delay);
    }

    /// Delays replies by this time, without delaying later ones further.
    pub fn delay_replies(&self, delay: Duration) {
        self.control.change(|state| state.replies.delay = delay);
    }

    /// Limits the bytes of requests per second on each connection. `None` removes the limit.
    pub fn throttle_requests(&self, bytes_per_second: Option<NonZeroU32>) {
        self.control.change(|state| state.requests.pace = bytes_per_second);
    }

    /// Limits the bytes of replies per second on each connection. `None` removes the limit.
    pub fn throttle_replies(&self, bytes_per_second: Option<NonZeroU32>) {
        self.control.change(|state| state.replies.pace = bytes_per_second);
    }

    /// Applies a fault to every reply from now on.
    pub fn fail_replies(&self, fault: ReplyFault) {
        self.control.change(|state| state.fault = Some((fault, None)));
    }

    /// Applies a fault to the next `count` replies, on any connection.
    pub fn fail_next(&self, count: u64, fault: ReplyFault) {
        self.control.change(|state| state.fault = Some((fault, Some(count))));
    }

    /// Forwards replies unchanged again.
    pub fn pass_replies(&self) {
        self.control.change(|state| state.fault = None);
    }

    /// Sets how clients are accepted.
    pub fn set_accept_mode(&self, mode: AcceptMode) -> Result<(), ServerError> {
        if mode == AcceptMode::Shut {
            return self.shut();
        }
        self.open(mode).map_err(|error| {
            ServerError::new(format!("cannot set the accept mode to {mode:?}: {error}"))
        })
    }

    /// Closes every connection. New ones are accepted.
    pub fn close_all(&self) {
        self.control.close_all();
    }

    /// Forwards everything unchanged again. Closed connections stay closed, and deaf ones deaf.
    pub fn heal(&self) -> Result<(), ServerError> {
        self.control.change(|state| {
            state.requests = Flow::default();
            state.replies = Flow::default();
            state.fault = None;
        });
        self.set_accept_mode(AcceptMode::Open)
    }

    fn open(&self, mode: AcceptMode) -> io::Result<()> {
        rustix::net::listen(&self.listener, BACKLOG)?;
        self.control.change(|state| {
            state.accept_mode = mode;
            state.fillers.values_mut().for_each(|filler| *filler = None);
        });
        Ok(())
    }

    /// Stops accepting. The kernel completes connections for a program that does not accept, as
    /// long as its queue has space. So the queue is made short and filled, until a connection of
    /// the proxy itself stays pending.
    fn shut(&self) -> Result<(), ServerError> {
        self.control.change(|state| state.accept_mode = AcceptMode::Shut);
        poll("the acceptor to stop", || {
            Ok(self.control.see(|state| state.is_accepting_paused).then_some(()))
        })?;
        self.fill_queue().map_err(|error| ServerError::new(format!("cannot fill a queue: {error}")))
    }

    fn fill_queue(&self) -> io::Result<()> {
        rustix::net::listen(&self.listener, 0)?;
        for _ in 0..FILLERS_MAX {
            match TcpStream::connect_timeout(&self.address, FULL_AFTER) {
                Ok(filler) => {
                    let address = filler.local_addr()?;
                    self.control.change(|state| drop(state.fillers.insert(address, Some(filler))));
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("{FILLERS_MAX} connections did not fill the queue")))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.change(|state| state.is_over = true);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been printed already.
            let _ = thread.join();
        }
    }
}
