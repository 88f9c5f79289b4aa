//! One direction of a connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::control::{Control, Flow};
use super::frame::Frames;
use super::{AcceptMode, ReplyFault};

/// Forwards data from one side to the other, with delays, throttling and faults.
#[derive(Debug)]
pub(super) struct Pipe<'a> {
    control: &'a Control,
    direction: Direction,
    frames: Frames,
    /// The fault of the current reply.
    fault: Option<ReplyFault>,
    is_amid_frame: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Requests,
    Replies,
}

/// The maximum number of bytes that are read at a time.
const PIECE_MAX: usize = 64 * 1024;

/// The maximum number of delayed pieces. Nothing more is read until one was forwarded.
const QUEUE_MAX: usize = 16;

/// The number of writes per second of a throttled pipe, if it has that many bytes.
const WRITES_A_SECOND: u32 = 50;

impl<'a> Pipe<'a> {
    pub(super) fn new(control: &'a Control, direction: Direction) -> Self {
        Self { control, direction, frames: Frames::default(), fault: None, is_amid_frame: false }
    }

    /// Forwards until `from` ends. Fails if the connection must be closed.
    pub(super) async fn run(mut self, from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let (queue, mut pieces) = mpsc::channel(QUEUE_MAX);
        let reading = read(self.control, self.direction, from, queue);
        let writing = async {
            while let Some((due, piece)) = pieces.recv().await {
                // A timer is only exact to a millisecond: without a delay, none is set.
                if due > Instant::now() {
                    sleep_until(due).await;
                }
                self.control.wait_for(|state| state.accept_mode != AcceptMode::BlackHole).await;
                match self.direction {
                    Direction::Requests => self.forward_requests(&piece, &mut to).await?,
                    Direction::Replies => self.forward_replies(&piece, &mut to).await?,
                }
            }
            // The other direction may have more data.
            let _ = to.shutdown().await;
            Ok(())
        };
        tokio::try_join!(reading, writing).map(|_| ())
    }

    async fn forward_requests(&mut self, piece: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        let mut requests = 0;
        let mut rest = piece;
        while !rest.is_empty() {
            let part = self.frames.follow(rest);
            requests += u64::from(part.is_last);
            rest = &rest[part.length..];
        }
        self.control.count(|counters| counters.requests += requests);
        self.send(piece, to).await
    }

    async fn forward_replies(&mut self, piece: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
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
                self.send(&kept, to).await?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            rest = later;
        }
        self.send(&kept, to).await
    }

    fn begin_reply(&mut self, kept: &mut Vec<u8>) {
        // A deaf connection stays deaf.
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

    /// Keeps the bytes of a part of a reply that are forwarded.
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

    /// Writes at the current pace.
    async fn send(&self, mut bytes: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        while !bytes.is_empty() {
            let (length, time) = next_write(self.control.flow(self.direction), bytes.len());
            let (now_sent, later) = bytes.split_at(length);
            let count = u64::try_from(length).unwrap_or(u64::MAX);
            // Counted first, so that a client that has received the bytes sees them counted.
            self.control.count(|counters| match self.direction {
                Direction::Requests => counters.bytes_to_server += count,
                Direction::Replies => counters.bytes_to_clients += count,
            });
            to.write_all(now_sent).await?;
            bytes = later;
            if !time.is_zero() {
                sleep(time).await;
            }
        }
        Ok(())
    }
}

/// Queues data with the time at which it is due.
async fn read(
    control: &Control,
    direction: Direction,
    mut from: ReadHalf<'_>,
    queue: mpsc::Sender<(Instant, Vec<u8>)>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_MAX];
    loop {
        let length = from.read(&mut piece).await?;
        let due = Instant::now() + control.flow(direction).delay;
        // If the queue is closed, there is no receiver.
        if length == 0 || queue.send((due, piece[..length].to_vec())).await.is_err() {
            return Ok(());
        }
    }
}

/// Returns the number of bytes to write, and the pause after them.
fn next_write(flow: Flow, length: usize) -> (usize, Duration) {
    let Some(pace) = flow.pace else { return (length, Duration::ZERO) };
    let share = usize::try_from(pace.get() / WRITES_A_SECOND).unwrap_or(usize::MAX);
    let length = length.min(share.max(1));
    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
    (length, Duration::from_secs(1) * bytes / pace.get())
}

#[derive(Debug, PartialEq, Eq)]
enum Kept {
    Some,
    AndNoMore,
}
