//! A proxy that breaks connections the way networks and dying servers do.

mod acceptor;
mod control;
mod counters;
mod fault;
mod frame;
mod line;
mod pipe;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{RedisServer, ServerError};
use acceptor::Acceptor;
use control::{Control, State};

pub use self::counters::Counters;
pub use self::fault::{Door, ReplyFault};

/// A loopback port that forwards to a server, faithfully until told otherwise.
///
/// What is set applies at once, to open connections too, and to bytes that arrive from then on.
/// Requests and replies are told apart by their frames; where the stream is not the Redis protocol
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
    listener: Arc<TcpListener>,
    address: SocketAddr,
    url: String,
    /// Connections of our own that keep the door shut.
    fillers: Mutex<Vec<TcpStream>>,
    acceptor: Option<JoinHandle<()>>,
}

/// How many connections may wait to be accepted, as usual.
const BACKLOG: i32 = 128;

/// More than the kernel lets wait when it is told that none may.
const FILLERS_MAX: usize = 8;

/// How long a connection on loopback may take before the queue is taken to be full.
const FULL_AFTER: Duration = Duration::from_millis(200);

impl Proxy {
    /// A proxy in front of a server; the server may be restarted behind it.
    ///
    /// # Errors
    ///
    /// When there is no port or no thread for it.
    pub fn in_front_of(server: &RedisServer) -> Result<Self, ServerError> {
        let mut proxy = Self::to_port(server.port())?;
        proxy.url = server.url_on(proxy.port());
        Ok(proxy)
    }

    /// A proxy in front of whatever listens on a loopback port.
    ///
    /// # Errors
    ///
    /// When there is no port or no thread for it.
    pub fn to_port(port: u16) -> Result<Self, ServerError> {
        Self::start((Ipv4Addr::LOCALHOST, port).into())
            .map_err(|error| ServerError::new(format!("cannot start a proxy: {error}")))
    }

    fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        let address = listener.local_addr()?;
        let control = Arc::new(Control::default());
        let acceptor = Acceptor::new(Arc::clone(&control), Arc::clone(&listener), server);
        let thread =
            thread::Builder::new().name("proxy".to_owned()).spawn(move || acceptor.run())?;
        let url = format!("redis://{address}/");
        let fillers = Mutex::new(Vec::new());
        Ok(Self { control, listener, address, url, fillers, acceptor: Some(thread) })
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
        self.control.counters()
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
    ///
    /// # Errors
    ///
    /// When the system cannot be made to keep clients waiting.
    pub fn set_door(&self, door: Door) -> Result<(), ServerError> {
        let failed = |error| ServerError::new(format!("cannot set the door to {door:?}: {error}"));
        if door == Door::Shut {
            self.shut().map_err(failed)
        } else {
            self.open(door).map_err(failed)
        }
    }

    /// Closes every connection now. New ones are welcome.
    pub fn close_all(&self) {
        self.control.cut_all();
    }

    /// Forwards everything as it is again. Closed connections stay closed, and deaf ones deaf.
    ///
    /// # Errors
    ///
    /// As [`set_door`](Proxy::set_door).
    pub fn heal(&self) -> Result<(), ServerError> {
        self.control.change(State::heal);
        self.set_door(Door::Open)
    }

    fn open(&self, door: Door) -> io::Result<()> {
        rustix::net::listen(&*self.listener, BACKLOG)?;
        self.control.change(|state| state.door = door);
        self.fillers().clear();
        Ok(())
    }

    /// The kernel greets clients for a program that does not accept, as long as its queue has room.
    /// So the queue is made short and filled, until a connection of our own is left waiting.
    fn shut(&self) -> io::Result<()> {
        self.control.change(|state| state.door = Door::Shut);
        // The acceptor may be waiting for a client: it gets one, and sees that the door is shut.
        self.fill()?;
        self.control.wait_for_shut();
        rustix::net::listen(&*self.listener, 0)?;
        for _ in 0..FILLERS_MAX {
            if !self.fill()? {
                return Ok(());
            }
        }
        Err(io::Error::other(format!("{FILLERS_MAX} connections did not fill the queue")))
    }

    /// Puts one more into the queue; answers whether there was room.
    fn fill(&self) -> io::Result<bool> {
        match TcpStream::connect_timeout(&self.address, FULL_AFTER) {
            Ok(filler) => {
                self.control.add_filler(filler.local_addr()?);
                self.fillers().push(filler);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn fillers(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.fillers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.end();
        // One that waits for a client gets one.
        let _ = TcpStream::connect_timeout(&self.address, FULL_AFTER);
        if let Some(acceptor) = self.acceptor.take() {
            // A panic of it has been printed already.
            let _ = acceptor.join();
        }
    }
}
