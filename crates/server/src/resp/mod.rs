//! The Redis protocol, for any Redis client.
//!
//! `CL.THROTTLE` is redis-cell's, the `SG.` commands are ours: see `docs/resp.md`. The codec is our own
//! because it does not allocate per command: see `docs/design/0008-fast-paths.md`.

mod command;
mod parse;
mod reply;
mod throttle;

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep, timeout};

use self::command::{Call, Then};
use self::parse::CommandArguments;
use self::reply::Replies;
use self::throttle::Throttles;
use crate::access::Access;
use crate::engine::Engine;

/// Bounds on a connection.
#[derive(Debug, Clone, Copy)]
pub struct RespLimits {
    /// The time for a client to send a whole command, from its first byte.
    pub command_max: Duration,
    /// A connection without a command is closed after this time.
    pub idle_max: Duration,
    /// The time for a client to read its replies.
    pub write_max: Duration,
    /// The longest key, in bytes.
    pub key_max: usize,
}

impl Default for RespLimits {
    fn default() -> Self {
        Self {
            command_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(300),
            write_max: Duration::from_secs(10),
            key_max: 1024,
        }
    }
}

/// The size of the first read, and of the buffer of an idle connection.
const FIRST_READ: usize = 1024;
/// The size of reads from a client that sends more than that at once.
const READ: usize = 16 * 1024;
/// Replies are sent when they reach this size, even if more commands are waiting.
const WRITE: usize = 64 * 1024;
/// The maximum size of an incomplete command, in bytes.
const PENDING_MAX: usize = 1024 * 1024;

/// Serves one connection until the client closes it or, between commands, until `stop`.
///
/// # Errors
///
/// When the connection breaks; [`TimedOut`](io::ErrorKind::TimedOut) when the client was too slow.
pub async fn serve<S>(
    mut stream: S,
    engine: Arc<Engine>,
    access: Access,
    limits: RespLimits,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut stop, mut timer) = (pin!(stop), CommandTimer::new(limits));
    let mut beat = pin!(sleep(timer.period));
    let mut input: Vec<u8> = Vec::new();
    let (mut replies, mut throttles) = (Replies::default(), Throttles::default());
    let (mut arguments, mut token) = (CommandArguments::default(), None);
    loop {
        input.reserve(if input.len() < FIRST_READ { FIRST_READ } else { READ });
        let read = {
            let mut reading = pin!(stream.read_buf(&mut input));
            poll_fn(|cx| {
                // While bytes arrive, nothing else is polled.
                if let Poll::Ready(read) = reading.as_mut().poll(cx) {
                    return Poll::Ready(Some(read));
                }
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                timer.poll(beat.as_mut(), cx)
            })
            .await
        };
        match read {
            Some(Ok(0)) | None => return Ok(()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
        }
        let mut used = 0;
        let mut then = Then::Go;
        while then == Then::Go {
            let rest = &input[used..];
            match arguments.read(rest) {
                Ok(Some(length)) => {
                    let mut call = Call {
                        engine: &engine,
                        input: rest,
                        arguments: &arguments,
                        replies: &mut replies,
                        throttles: &mut throttles,
                        key_max: limits.key_max,
                        access: &access,
                        token: &mut token,
                    };
                    then = call.run().await;
                    used += length;
                }
                Ok(None) if rest.len() > PENDING_MAX => {
                    replies.error("ERR Protocol error: a command has at most 1 MiB");
                    then = Then::Quit;
                }
                Ok(None) => break,
                Err(malformed) => {
                    replies.error(&format!("ERR {malformed}"));
                    then = Then::Quit;
                }
            }
            if replies.bytes().len() >= WRITE {
                send(&mut stream, &mut replies, limits).await?;
            }
        }
        input.drain(..used);
        timer.note(used > 0, !input.is_empty());
        if input.is_empty() {
            input.shrink_to(READ);
        }
        send(&mut stream, &mut replies, limits).await?;
        if then == Then::Quit {
            return stream.shutdown().await;
        }
    }
}

async fn send<S: AsyncWrite + Unpin>(
    stream: &mut S,
    replies: &mut Replies,
    limits: RespLimits,
) -> io::Result<()> {
    if replies.bytes().is_empty() {
        return Ok(());
    }
    write(stream, replies.bytes(), limits).await?;
    replies.clear();
    Ok(())
}

/// Most clients read at once, so the timer is only set for those that do not.
async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    bytes: &[u8],
    limits: RespLimits,
) -> io::Result<()> {
    let mut writing = pin!(stream.write_all(bytes));
    match poll_fn(|cx| Poll::Ready(writing.as_mut().poll(cx))).await {
        Poll::Ready(written) => written,
        Poll::Pending => timeout(limits.write_max, writing).await?,
    }
}

/// Measures how long a client has been silent, and how long it takes to send a command, with a timer
/// that commands do not reset.
struct CommandTimer {
    period: Duration,
    is_set: bool,
    /// Beats since the last command.
    still: u32,
    /// Beats since the beginning of a command that is incomplete.
    partial: Option<u32>,
    still_max: u32,
    partial_max: u32,
}

/// Beats per shortest timeout. A timeout expires between its length and half as much more.
const BEATS: u32 = 4;

impl CommandTimer {
    fn new(limits: RespLimits) -> Self {
        let RespLimits { command_max, idle_max, .. } = limits;
        let period = (command_max.min(idle_max) / BEATS).max(Duration::from_millis(1));
        // Rounded up, plus one: the first beat may come right after the bytes.
        let beats = |timeout: Duration| {
            let beats = timeout.as_nanos().div_ceil(period.as_nanos());
            u32::try_from(beats).unwrap_or(u32::MAX).saturating_add(1)
        };
        let (still_max, partial_max) = (beats(idle_max), beats(command_max));
        Self { period, is_set: false, still: 0, partial: None, still_max, partial_max }
    }

    /// Notes whether bytes completed a command, and whether an incomplete one is left.
    fn note(&mut self, is_complete: bool, is_partial: bool) {
        if is_complete {
            (self.still, self.partial) = (0, None);
        }
        self.partial = if is_partial { self.partial.or(Some(0)) } else { None };
    }

    /// Counts beats. The timer is polled once, to register the task, and then only when it has fired.
    /// Ready with an error for a client that is too slow, and with `None` for one that is idle.
    fn poll(
        &mut self,
        mut beat: Pin<&mut Sleep>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<usize>>> {
        if self.is_set && !beat.is_elapsed() {
            return Poll::Pending;
        }
        self.is_set = true;
        while beat.as_mut().poll(cx).is_ready() {
            self.still += 1;
            if let Some(partial) = &mut self.partial {
                *partial += 1;
                if *partial >= self.partial_max {
                    return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
                }
            }
            if self.still >= self.still_max {
                return Poll::Ready(None);
            }
            beat.as_mut().reset(Instant::now() + self.period);
        }
        Poll::Pending
    }
}
