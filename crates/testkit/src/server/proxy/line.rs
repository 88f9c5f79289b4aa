//! A client's connection and the one to the server that belongs to it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(super) struct Line {
    client: TcpStream,
    /// Made when the first byte may be forwarded.
    server: OnceLock<TcpStream>,
    is_cut: AtomicBool,
}

impl Line {
    pub(super) fn new(client: TcpStream) -> Self {
        Self { client, server: OnceLock::new(), is_cut: AtomicBool::new(false) }
    }

    pub(super) fn client(&self) -> &TcpStream {
        &self.client
    }

    /// The connection to the server.
    pub(super) fn connect(&self, server: SocketAddr) -> io::Result<&TcpStream> {
        let stream = TcpStream::connect(server)?;
        // Small writes are what a test wants to see as they are.
        self.client.set_nodelay(true)?;
        stream.set_nodelay(true)?;
        let stream = self.server.get_or_init(|| stream);
        if self.is_cut() {
            // Cut before there was a server to be cut from.
            self.cut();
        }
        Ok(stream)
    }

    /// Closes both sides, now; what waits to be read or written fails.
    pub(super) fn cut(&self) {
        // A sequentially consistent pair with the look in `connect`: one of the two sees the other.
        self.is_cut.store(true, Ordering::SeqCst);
        // Fails only where the other side was quicker.
        let _ = self.client.shutdown(Shutdown::Both);
        if let Some(server) = self.server.get() {
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }
}
