//! The thread that lets clients in.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::super::wait::rest;
use super::control::Control;
use super::line::Line;
use super::pipe::{Direction, Pipe};

#[derive(Debug)]
pub(super) struct Acceptor {
    control: Arc<Control>,
    listener: Arc<TcpListener>,
    server: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// More open connections than a test needs; each takes two threads.
const LINES_MAX: usize = 256;

impl Acceptor {
    pub(super) fn new(
        control: Arc<Control>,
        listener: Arc<TcpListener>,
        server: SocketAddr,
    ) -> Self {
        Self { control, listener, server, threads: Vec::new() }
    }

    /// Until the proxy is dropped.
    pub(super) fn run(mut self) {
        while self.control.wait_for_door() {
            let Ok((client, address)) = self.listener.accept() else {
                // A client that is gone already, or too many open files: better in a moment.
                rest();
                continue;
            };
            // One who came while the door was being shut waits outside, too.
            if !self.control.wait_for_door() {
                break;
            }
            if !self.control.was_filler(address) {
                self.admit(client);
            }
        }
        for thread in self.threads {
            // A panic of it has been printed already.
            let _ = thread.join();
        }
    }

    fn admit(&mut self, client: TcpStream) {
        self.threads.retain(|thread| !thread.is_finished());
        let line = Arc::new(Line::new(client));
        if !self.control.add(&line, LINES_MAX) {
            return;
        }
        let (control, server, its_line) =
            (Arc::clone(&self.control), self.server, Arc::clone(&line));
        let started = thread::Builder::new().name("proxied".to_owned()).spawn(move || {
            // Nobody to say it to: the client sees that its connection is closed.
            let _ = serve(&control, &its_line, server);
            control.remove(&its_line);
        });
        match started {
            Ok(thread) => self.threads.push(thread),
            Err(_) => self.control.remove(&line),
        }
    }
}

fn serve(control: &Control, line: &Line, server: SocketAddr) -> io::Result<()> {
    if !control.wait_for_light(line) {
        return Ok(());
    }
    let server = line.connect(server)?;
    thread::scope(|scope| {
        let requests = Pipe::new(control, line, server, Direction::Requests);
        thread::Builder::new().spawn_scoped(scope, || requests.run())?;
        Pipe::new(control, line, server, Direction::Replies).run();
        Ok(())
    })
}
