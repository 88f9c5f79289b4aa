//! The Redis protocol, so that any Redis client in any language can ask.
//!
//! `CL.THROTTLE` is redis-cell's; the `SG.` commands are ours: see `docs/resp.md`.

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
use self::parse::Arguments;
use self::reply::Replies;
use self::throttle::Throttles;
use crate::engine::Engine;

/// What one connection may do.
#[derive(Debug, Clone, Copy)]
pub struct RespLimits {
    /// Without a command for so long, a connection is closed.
    pub idle_max: Duration,
    /// Answers that are not read for so long end it too.
    pub write_max: Duration,
}

impl Default for RespLimits {
    fn default() -> Self {
        Self { idle_max: Duration::from_secs(300), write_max: Duration::from_secs(10) }
    }
}

/// Bytes read at once.
const READ: usize = 16 * 1024;
/// Answers are sent when they are so many bytes, even if more commands are there.
const WRITE: usize = 64 * 1024;
/// The most bytes that a command may take before it is all there: one of the longest arguments of
/// all kinds, with room to spare.
const PENDING_MAX: usize = 1024 * 1024;

/// Serves one connection to its end. `stop` ends it between commands.
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
    let (mut stop, mut quiet) = (pin!(stop), Quiet::new(limits.idle_max));
    let mut beat = pin!(sleep(quiet.period));
    let mut input: Vec<u8> = Vec::with_capacity(READ);
    let (mut replies, mut throttles) = (Replies::default(), Throttles::default());
    let mut arguments = Arguments::default();
    loop {
        input.reserve(READ);
        let read = {
            let mut reading = pin!(stream.read_buf(&mut input));
            poll_fn(|cx| {
                // While bytes come, nothing else is asked.
                if let Poll::Ready(read) = reading.as_mut().poll(cx) {
                    return Poll::Ready(Some(read));
                }
                if stop.as_mut().poll(cx).is_ready() || quiet.is_over(beat.as_mut(), cx) {
                    return Poll::Ready(None);
                }
                Poll::Pending
            })
            .await
        };
        match read {
            Some(Ok(0)) | None => return Ok(()),
            Some(Ok(_)) => quiet.beats = 0,
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

/// Most clients take their answers at once: a clock is read only for those that do not.
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

/// How long a client has said nothing, by a timer that commands do not set anew.
struct Quiet {
    period: Duration,
    /// Since the last bytes came.
    beats: u32,
    is_set: bool,
}

/// In the longest that a client may be quiet. It is over between that and a quarter more.
const BEATS: u32 = 4;

impl Quiet {
    fn new(most: Duration) -> Self {
        Self { period: most / BEATS, beats: 0, is_set: false }
    }

    /// Counts the beats that have passed; the timer is asked once, and then when it has gone off.
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
