//! One direction of a line.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::super::wait::now;
use super::control::{Control, Flow};
use super::fault::ReplyFault;
use super::frame::Frames;
use super::line::Line;

/// Forwards what arrives on one side to the other, late, slowly or not at all.
#[derive(Debug)]
pub(super) struct Pipe<'a> {
    control: &'a Control,
    line: &'a Line,
    from: &'a TcpStream,
    to: &'a TcpStream,
    direction: Direction,
    frames: Frames,
    /// What becomes of the reply that is under way.
    fault: Option<ReplyFault>,
    is_amid_frame: bool,
    /// What arrived and is not yet due.
    queue: VecDeque<(Instant, Vec<u8>)>,
    queue_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Requests,
    Replies,
}

/// The line is closed, or must be.
#[derive(Debug)]
struct Closed;

/// The most that is read at a time.
const PIECE_MAX: usize = 64 * 1024;

/// Above this, nothing more is read until something was forwarded.
const QUEUE_MAX: usize = 1024 * 1024;

/// A throttled pipe writes so many times a second, if it has that many bytes.
const WRITES_A_SECOND: u32 = 50;

impl<'a> Pipe<'a> {
    pub(super) fn new(
        control: &'a Control,
        line: &'a Line,
        server: &'a TcpStream,
        direction: Direction,
    ) -> Self {
        let (from, to) = match direction {
            Direction::Requests => (line.client(), server),
            Direction::Replies => (server, line.client()),
        };
        Self {
            control,
            line,
            from,
            to,
            direction,
            frames: Frames::default(),
            fault: None,
            is_amid_frame: false,
            queue: VecDeque::new(),
            queue_bytes: 0,
        }
    }

    /// Forwards until one side closes.
    pub(super) fn run(mut self) {
        match self.forward_all() {
            // The other direction may have something left to say.
            Ok(()) => drop(self.to.shutdown(Shutdown::Write)),
            Err(Closed) => self.control.cut(self.line),
        }
    }

    fn forward_all(&mut self) -> Result<(), Closed> {
        let mut piece = vec![0; PIECE_MAX];
        loop {
            self.forward_due()?;
            match self.read(&mut piece)? {
                None => {}
                Some(0) => return self.forward_rest(),
                Some(length) => self.enqueue(&piece[..length]),
            }
        }
    }

    /// Reads a piece; `None` if something in the queue is due before one arrives.
    fn read(&self, piece: &mut [u8]) -> Result<Option<usize>, Closed> {
        let wait = self.queue.front().map(|(due, _)| due.saturating_duration_since(now()));
        // Zero would mean without end.
        let wait = wait.map(|wait| wait.max(Duration::from_millis(1)));
        self.from.set_read_timeout(wait).map_err(|_| Closed)?;
        let mut from = self.from;
        match from.read(piece) {
            Ok(length) => Ok(Some(length)),
            Err(error) if is_passing(&error) => Ok(None),
            Err(_) => Err(Closed),
        }
    }

    fn enqueue(&mut self, piece: &[u8]) {
        self.queue_bytes += piece.len();
        self.queue.push_back((now() + self.flow().delay, piece.to_vec()));
    }

    /// Forwards what is due; if too much is held back, waits for what is next.
    fn forward_due(&mut self) -> Result<(), Closed> {
        while let Some((due, piece)) = self.queue.pop_front() {
            if due > now() && self.queue_bytes <= QUEUE_MAX {
                self.queue.push_front((due, piece));
                return Ok(());
            }
            self.forward(due, &piece)?;
        }
        Ok(())
    }

    fn forward_rest(&mut self) -> Result<(), Closed> {
        while let Some((due, piece)) = self.queue.pop_front() {
            self.forward(due, &piece)?;
        }
        Ok(())
    }

    fn forward(&mut self, due: Instant, piece: &[u8]) -> Result<(), Closed> {
        self.queue_bytes -= piece.len();
        let whole = self.control.wait_until(due, self.line);
        if !whole || !self.control.wait_for_light(self.line) {
            return Err(Closed);
        }
        match self.direction {
            Direction::Requests => self.forward_requests(piece),
            Direction::Replies => self.forward_replies(piece),
        }
    }

    fn forward_requests(&mut self, piece: &[u8]) -> Result<(), Closed> {
        let mut requests = 0;
        let mut rest = piece;
        while !rest.is_empty() {
            let part = self.frames.follow(rest);
            requests += u64::from(part.is_last);
            rest = &rest[part.length..];
        }
        self.control.count(|counters| counters.requests += requests);
        self.send(piece)
    }

    fn forward_replies(&mut self, piece: &[u8]) -> Result<(), Closed> {
        let mut kept = Vec::with_capacity(piece.len());
        let mut rest = piece;
        while !rest.is_empty() {
            let part = self.frames.follow(rest);
            let (bytes, later) = rest.split_at(part.length);
            if !self.is_amid_frame {
                self.begin_reply(&mut kept);
            }
            self.is_amid_frame = !part.is_last;
            self.control.count(|counters| counters.replies += u64::from(part.is_last));
            if self.keep(bytes, part.is_last, &mut kept) == Kept::AndNoMore {
                self.control.count(|counters| counters.cuts += 1);
                self.send(&kept)?;
                return Err(Closed);
            }
            rest = later;
        }
        self.send(&kept)
    }

    fn begin_reply(&mut self, kept: &mut Vec<u8>) {
        // Once deaf, always deaf.
        if self.fault != Some(ReplyFault::Deafen) {
            self.fault = self.control.next_fault();
        }
        match &self.fault {
            Some(ReplyFault::Inject(bytes)) => kept.extend_from_slice(bytes),
            Some(ReplyFault::Swallow | ReplyFault::Deafen) => {
                self.control.count(|counters| counters.replies_swallowed += 1);
            }
            Some(ReplyFault::Cut { .. }) | None => {}
        }
    }

    /// Keeps what shall arrive of a part of a reply.
    fn keep(&mut self, bytes: &[u8], is_last: bool, kept: &mut Vec<u8>) -> Kept {
        match &mut self.fault {
            None | Some(ReplyFault::Inject(_)) => kept.extend_from_slice(bytes),
            Some(ReplyFault::Swallow | ReplyFault::Deafen) => self.swallow(bytes.len()),
            Some(ReplyFault::Cut { after }) => {
                let length = bytes.len().min(*after);
                *after -= length;
                let is_over = *after == 0 || is_last;
                kept.extend_from_slice(&bytes[..length]);
                self.swallow(bytes.len() - length);
                if is_over {
                    return Kept::AndNoMore;
                }
            }
        }
        Kept::Some
    }

    fn swallow(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.control.count(|counters| counters.bytes_swallowed += bytes);
    }

    /// Writes at the pace of the moment.
    fn send(&self, mut bytes: &[u8]) -> Result<(), Closed> {
        while !bytes.is_empty() {
            let (length, time) = self.next_write(bytes.len());
            let (now_sent, later) = bytes.split_at(length);
            self.write(now_sent)?;
            bytes = later;
            if time > Duration::ZERO && !self.control.wait_until(now() + time, self.line) {
                return Err(Closed);
            }
        }
        Ok(())
    }

    /// How many bytes to write at once, and how long to rest after them.
    fn next_write(&self, length: usize) -> (usize, Duration) {
        let Some(pace) = self.flow().pace else { return (length, Duration::ZERO) };
        let share = usize::try_from(pace.get() / WRITES_A_SECOND).unwrap_or(usize::MAX);
        let length = length.min(share.max(1));
        let bytes = u32::try_from(length).unwrap_or(u32::MAX);
        (length, Duration::from_secs(1) * bytes / pace.get())
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Closed> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // Counted first: whoever has got the bytes sees them counted.
        self.control.count(|counters| match self.direction {
            Direction::Requests => counters.bytes_to_server += length,
            Direction::Replies => counters.bytes_to_clients += length,
        });
        let mut to = self.to;
        to.write_all(bytes).map_err(|_| Closed)
    }

    fn flow(&self) -> Flow {
        self.control.flow(self.direction)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kept {
    Some,
    AndNoMore,
}

/// Whether reading may go on after this.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
