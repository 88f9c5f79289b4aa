//! One direction of a connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::control::{Control, Flow};
use super::frame::Frames;
use super::{Door, ReplyFault};

/// Forwards what arrives on one side to the other, late, slowly or not at all.
#[derive(Debug)]
pub(super) struct Pipe<'a> {
    control: &'a Control,
    direction: Direction,
    frames: Frames,
    /// What becomes of the reply that is under way.
    fault: Option<ReplyFault>,
    is_amid_frame: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Requests,
    Replies,
}

/// The most that is read at a time.
const PIECE_MAX: usize = 64 * 1024;

/// The most pieces that are held back. Nothing more is read until one was forwarded.
const QUEUE_MAX: usize = 16;

/// A throttled pipe writes so many times a second, if it has that many bytes.
const WRITES_A_SECOND: u32 = 50;

impl<'a> Pipe<'a> {
    pub(super) fn new(control: &'a Control, direction: Direction) -> Self {
        Self { control, direction, frames: Frames::default(), fault: None, is_amid_frame: false }
    }

    /// Forwards until `from` ends; fails when the connection must be closed.
    pub(super) async fn run(mut self, from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let (queue, mut pieces) = mpsc::channel(QUEUE_MAX);
        let reading = read(self.control, self.direction, from, queue);
        let writing = async {
            while let Some((due, piece)) = pieces.recv().await {
                // A timer is only exact to a millisecond: without a delay, none is set.
                if due > Instant::now() {
                    sleep_until(due).await;
                }
                self.control.wait_for(|state| state.door != Door::BlackHole).await;
                match self.direction {
                    Direction::Requests => self.forward_requests(&piece, &mut to).await?,
                    Direction::Replies => self.forward_replies(&piece, &mut to).await?,
                }
            }
            // The other direction may have something left to say.
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
    async fn send(&self, mut bytes: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        while !bytes.is_empty() {
            let (length, time) = next_write(self.control.flow(self.direction), bytes.len());
            let (now_sent, later) = bytes.split_at(length);
            let count = u64::try_from(length).unwrap_or(u64::MAX);
            // Counted first: a client that has got the bytes sees them counted.
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

/// Queues what arrives with the moment at which it is due.
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
        // What cannot be queued has nobody to be forwarded to.
        if length == 0 || queue.send((due, piece[..length].to_vec())).await.is_err() {
            return Ok(());
        }
    }
}

/// How many bytes to write at once, and how long to rest after them.
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
