//! The Redis protocol, so that any Redis client in any language can ask.
//!
//! `CL.THROTTLE` is redis-cell's; the `SG.` commands are ours: see `docs/resp.md`.

mod command;
mod parse;
mod reply;
mod throttle;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

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
    let mut stop = core::pin::pin!(stop);
    let mut input: Vec<u8> = Vec::with_capacity(READ);
    let (mut replies, mut throttles) = (Replies::default(), Throttles::default());
    let mut arguments = Arguments::default();
    loop {
        input.reserve(READ);
        let read = tokio::select! {
            read = timeout(limits.idle_max, stream.read_buf(&mut input)) => read,
            () = &mut stop => return Ok(()),
        };
        match read {
            Ok(Ok(0)) | Err(_) => return Ok(()),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
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
    if !replies.bytes().is_empty() {
        timeout(limits.write_max, stream.write_all(replies.bytes())).await??;
        replies.clear();
    }
    Ok(())
}
