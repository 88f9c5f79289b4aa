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
use crate::engine::Engine;

/// Bounds on a connection.
#[derive(Debug, Clone, Copy)]
pub struct RespLimits {
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
            idle_max: Duration::from_secs(300),
            write_max: Duration::from_secs(10),
            key_max: 1024,
        }
    }
}

/// Bytes read at once.
const READ: usize = 16 * 1024;
/// Replies are sent when they reach this size, even if more commands are waiting.
const WRITE: usize = 64 * 1024;
/// The maximum size of an incomplete command, in bytes.
const PENDING_MAX: usize = 1024 * 1024;

/// Serves one connection until the client closes it or, between commands, until `stop`.
///
/// # Errors
///
/// When the connection breaks.
pub async fn serve<S>(
    mut stream: S,
    engine: Arc<Engine>,
    limits: RespLimits,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut stop, mut idle) = (pin!(stop), IdleTimer::new(limits.idle_max));
    let mut beat = pin!(sleep(idle.period));
    let mut input: Vec<u8> = Vec::with_capacity(READ);
    let (mut replies, mut throttles) = (Replies::default(), Throttles::default());
    let mut arguments = CommandArguments::default();
    loop {
        input.reserve(READ);
        let read = {
            let mut reading = pin!(stream.read_buf(&mut input));
            poll_fn(|cx| {
                // While bytes arrive, nothing else is polled.
                if let Poll::Ready(read) = reading.as_mut().poll(cx) {
                    return Poll::Ready(Some(read));
                }
                if stop.as_mut().poll(cx).is_ready() || idle.is_over(beat.as_mut(), cx) {
                    return Poll::Ready(None);
                }
                Poll::Pending
            })
            .await
        };
        match read {
            Some(Ok(0)) | None => return Ok(()),
            Some(Ok(_)) => idle.beats = 0,
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

/// Measures how long a client has been silent, with a timer that commands do not reset.
struct IdleTimer {
    period: Duration,
    /// Beats since the last bytes arrived.
    beats: u32,
    is_set: bool,
}

/// Beats per idle timeout, which expires between its length and a quarter more.
const BEATS: u32 = 4;

impl IdleTimer {
    fn new(most: Duration) -> Self {
        Self { period: most / BEATS, beats: 0, is_set: false }
    }

    /// Counts beats. The timer is polled once, to register the task, and then only when it has fired.
    fn is_over(&mut self, mut beat: Pin<&mut Sleep>, cx: &mut Context<'_>) -> bool {
        if self.is_set && !beat.is_elapsed() {
            return false;
        }
        self.is_set = true;
        while beat.as_mut().poll(cx).is_ready() {
            self.beats += 1;
            if self.beats > BEATS {
                return true;
            }
            beat.as_mut().reset(Instant::now() + self.period);
        }
        false
    }
}
