//! A proxy that breaks connections the way networks and dying servers do.

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

/// A loopback port that forwards to a server, faithfully until a fault is set.
///
/// What is set applies at once, to open connections too, and to bytes that arrive from then on.
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

/// What a proxy has seen: numbers that only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were closed at once, because too many were open.
    pub refused: u64,
    /// Whole requests forwarded.
    pub requests: u64,
    /// Whole replies read from the server, whatever became of them.
    pub replies: u64,
    /// Bytes forwarded to the server.
    pub bytes_to_server: u64,
    /// Bytes forwarded to clients.
    pub bytes_to_clients: u64,
    /// Replies, or their beginnings, that were thrown away.
    pub replies_swallowed: u64,
    /// Bytes of replies that were thrown away.
    pub bytes_swallowed: u64,
    /// Connections that were closed in the middle of something.
    pub cuts: u64,
}

/// What becomes of a reply. The request before it reached the server and was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyFault {
    /// It is thrown away, and the stream goes on after it.
    ///
    /// No network does that: a client that goes on using the connection takes the next reply for this one.
    Swallow,
    /// It is thrown away, and so is everything after it on that connection, which stays open.
    Deafen,
    /// Its first bytes arrive, then the connection is closed; `0` closes it in place of the reply.
    Cut {
        /// How many bytes arrive; at most the whole reply.
        after: usize,
    },
    /// These bytes arrive before it.
    Inject(Vec<u8>),
}

/// How clients are received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Door {
    /// Connections are accepted and served.
    #[default]
    Open,
    /// Connections are accepted, and nothing is forwarded either way, on open ones neither. What was
    /// held back goes on when the door is opened.
    BlackHole,
    /// Nobody is let in: a client that connects gets no answer, not even a refusal. Open connections
    /// are served.
    Shut,
}

/// How many connections may wait to be accepted, as usual.
const BACKLOG: i32 = 128;

/// More than the kernel lets wait in a queue of length zero.
const FILLERS_MAX: usize = 8;

/// How long a connection on loopback may take before the queue is taken to be full.
const FULL_AFTER: Duration = Duration::from_millis(200);

impl Proxy {
    /// A proxy in front of a server; the server may be restarted behind it.
    pub fn in_front_of(server: &RedisServer) -> Result<Self, ServerError> {
        let mut proxy = Self::to_port(server.port())?;
        proxy.url = server.url_on(proxy.port());
        Ok(proxy)
    }

    /// A proxy in front of whatever listens on a loopback port.
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

    /// Where clients find it: the server's address with the port of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its loopback port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it has seen so far.
    pub fn counters(&self) -> Counters {
        self.control.see(|state| state.counters)
    }

    /// Holds requests back for so long; later ones do not wait for earlier ones to be over.
    pub fn delay_requests(&self, delay: Duration) {
        self.control.change(|state| state.requests.delay = delay);
    }

    /// Holds replies back for so long; later ones do not wait for earlier ones to be over.
    pub fn delay_replies(&self, delay: Duration) {
        self.control.change(|state| state.replies.delay = delay);
    }

    /// Forwards so many bytes of requests a second on each connection; any number if `None`.
    pub fn throttle_requests(&self, bytes_a_second: Option<NonZeroU32>) {
        self.control.change(|state| state.requests.pace = bytes_a_second);
    }

    /// Forwards so many bytes of replies a second on each connection; any number if `None`.
    pub fn throttle_replies(&self, bytes_a_second: Option<NonZeroU32>) {
        self.control.change(|state| state.replies.pace = bytes_a_second);
    }

    /// Does this to every reply from now on.
    pub fn fail_replies(&self, fault: ReplyFault) {
        self.control.change(|state| state.fault = Some((fault, None)));
    }

    /// Does this to the next `count` replies, whatever connection they come on, and to no more.
    pub fn fail_next(&self, count: u64, fault: ReplyFault) {
        self.control.change(|state| state.fault = Some((fault, Some(count))));
    }

    /// Forwards replies as they are again.
    pub fn pass_replies(&self) {
        self.control.change(|state| state.fault = None);
    }

    /// Opens the door, shuts it, or puts a black hole behind it.
    pub fn set_door(&self, door: Door) -> Result<(), ServerError> {
        if door == Door::Shut {
            return self.shut();
        }
        self.open(door)
            .map_err(|error| ServerError::new(format!("cannot set the door to {door:?}: {error}")))
    }

    /// Closes every connection now. New ones are welcome.
    pub fn close_all(&self) {
        self.control.close_all();
    }

    /// Forwards everything as it is again. Closed connections stay closed, and deaf ones deaf.
    pub fn heal(&self) -> Result<(), ServerError> {
        self.control.change(|state| {
            state.requests = Flow::default();
            state.replies = Flow::default();
            state.fault = None;
        });
        self.set_door(Door::Open)
    }

    fn open(&self, door: Door) -> io::Result<()> {
        rustix::net::listen(&self.listener, BACKLOG)?;
        self.control.change(|state| {
            state.door = door;
            state.fillers.values_mut().for_each(|filler| *filler = None);
        });
        Ok(())
    }

    /// The kernel greets clients for a program that does not accept, as long as its queue has room.
    /// So the queue is made short and filled, until a connection of our own is left waiting.
    fn shut(&self) -> Result<(), ServerError> {
        self.control.change(|state| state.door = Door::Shut);
        poll("the acceptor to stop", || {
            Ok(self.control.see(|state| state.is_nobody_let_in).then_some(()))
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
