//! Accepting connections.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::http::{Connections, Entry};

/// Tells everybody that it is time to end.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Ends everything that holds a [`Stop`].
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Nothing has ended yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// What to wait on.
    pub fn stop(&self) -> Stop {
        Stop(self.0.subscribe())
    }

    /// It is time.
    pub fn end(&self) {
        self.0.send_replace(true);
    }
}

impl Default for Stopper {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// Waits until it is time.
    pub async fn wait(mut self) {
        // Without a stopper nobody will ever say so; then it is over as well.
        let _ = self.0.wait_for(|ended| *ended).await;
    }

    /// Whether it is time.
    pub fn is_over(&self) -> bool {
        *self.0.borrow()
    }
}

/// Listens on an address.
///
/// # Errors
///
/// When it is taken or not ours, with its name.
pub async fn listen(name: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address} for {name}: something else listens there; choose another \
             with --listen-{name} or `listen.{name}`"
        ),
        _ => format!("cannot listen on {address} for {name}: {error}"),
    })
}

/// The next connection that finds a place; none when it is time to end. Those that find none are
/// closed at once.
pub async fn accept(
    listener: &TcpListener,
    connections: &Arc<Connections>,
    stop: &Stop,
) -> Option<(TcpStream, SocketAddr, Entry)> {
    /// No descriptors are left, or the like: it gets no better by trying at once.
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.clone().wait() => return None,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(place) = connections.enter() {
                    let _ = stream.set_nodelay(true);
                    return Some((stream, peer, place));
                }
            }
            Err(error) if is_of_one(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Whether the error is that of one connection, which came and went.
fn is_of_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
