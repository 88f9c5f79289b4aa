//! The Redis protocol, for any Redis client.
//!
//! `CL.THROTTLE` is redis-cell's, the `SG.` commands are ours: see `docs/resp.md`. The codec is our own
//! because it does not allocate per command: see `docs/design/0008-fast-paths.md`.

mod command;
mod parse;
mod reply;
mod throttle;
mod transaction;

use core::fmt::Display;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep, timeout};

use self::command::{AfterCommand, Call};
use self::parse::CommandArguments;
use self::reply::Replies;
use self::throttle::Throttles;
use self::transaction::{Next, Queue, Transaction};
use crate::access::Access;
use crate::engine::Engine;
use crate::net::{ActiveRequest, Activity, BODIES_MAX, BodyBudget, BodyShare, ClientWait};

/// Bounds on a connection.
#[derive(Debug, Clone)]
pub struct RespLimits {
    /// The time for a client to send a whole command, from its first byte.
    pub command_max: Duration,
    /// A connection without a command is closed after this time.
    pub idle_max: Duration,
    /// The time for a client to read its replies.
    pub write_max: Duration,
    /// The longest key, in bytes.
    pub key_max: usize,
    /// The longest time that a check may wait for units.
    pub wait_max: Duration,
    /// The memory for commands that are not complete, which other listeners may share.
    pub bodies: Arc<BodyBudget>,
}

impl Default for RespLimits {
    fn default() -> Self {
        Self {
            command_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(300),
            write_max: Duration::from_secs(10),
            key_max: 1024,
            wait_max: Duration::from_secs(30),
            bodies: BodyBudget::new(BODIES_MAX),
        }
    }
}

/// The size of the first read, and of the buffer of an idle connection.
const FIRST_READ: usize = 1024;
/// The size of reads from a client that sends more than that at once.
const READ: usize = 16 * 1024;
/// Replies are sent when they reach this size, even if more commands are waiting.
const WRITE: usize = 16 * 1024;
/// The maximum size of an incomplete command, in bytes.
const PENDING_MAX: usize = 1024 * 1024;

/// Serves one connection until the client closes it or, between commands, until `stop`. What the client
/// does is recorded in `activity`, which is new.
///
/// # Errors
///
/// When the connection breaks; [`TimedOut`](io::ErrorKind::TimedOut) when the client was too slow.
pub async fn serve<S>(
    mut stream: S,
    engine: Arc<Engine>,
    access: Access,
    limits: RespLimits,
    activity: Arc<Activity>,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut stop, mut timer) = (pin!(stop), CommandTimer::new(&limits));
    let mut tick = pin!(sleep(timer.period));
    let mut input: Vec<u8> = Vec::new();
    // Input that arrived while a check waited for units.
    let mut ahead: Vec<u8> = Vec::new();
    // Bytes of an incomplete command or transaction.
    let mut share = BodyShare::new(&limits.bodies, &activity);
    let mut session = Session::new(engine, limits, access, &activity);
    loop {
        if ahead.is_empty() {
            let is_over = |cx: &mut Context<'_>| {
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                timer.poll(tick.as_mut(), cx)
            };
            match read(&mut stream, &mut input, is_over).await {
                Some(Ok(0)) | None => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
            }
        } else {
            input.append(&mut ahead);
        }
        let mut used = 0;
        let mut after = AfterCommand::Continue;
        let mut running = None;
        while after == AfterCommand::Continue {
            let rest = &input[used..];
            match session.arguments.read(rest) {
                Ok(Some(length)) => {
                    used += length;
                    running.get_or_insert_with(|| ActiveRequest::begin(&*activity));
                    after = match session.take(rest, length) {
                        Next::Run if session.call(rest).may_wait() => {
                            let call = session.call(rest);
                            let ran = run_watched(call, &mut stream, &mut ahead, stop.as_mut());
                            let Some(then) = ran.await? else { return Ok(()) };
                            then
                        }
                        Next::Run => session.call(rest).run().await,
                        Next::Replied => AfterCommand::Continue,
                        Next::Exec(queue) => session.execute(queue, &mut stream).await?,
                    };
                }
                Ok(None) if rest.len() > PENDING_MAX => {
                    after = session.quit("Protocol error: a command has at most 1 MiB");
                }
                Ok(None) => break,
                Err(malformed) => after = session.quit(malformed),
            }
            session.send_if_long(&mut stream).await?;
        }
        input.drain(..used);
        timer.note(used > 0, !input.is_empty());
        if input.len() < FIRST_READ {
            input.shrink_to(READ);
        }
        if let Err(used_up) = share.hold(input.len() + session.transaction.bytes()) {
            after = session.quit(used_up);
        }
        session.send(&mut stream).await?;
        drop(running);
        if after == AfterCommand::Quit {
            return stream.shutdown().await;
        }
    }
}

/// Reads into the input, until `is_over` is ready.
async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut Vec<u8>,
    mut is_over: impl FnMut(&mut Context<'_>) -> Poll<Option<io::Result<usize>>>,
) -> Option<io::Result<usize>> {
    input.reserve(if input.len() < FIRST_READ { FIRST_READ } else { READ });
    let mut reading = pin!(stream.read_buf(input));
    // While bytes arrive, nothing else is polled.
    poll_fn(|cx| match reading.as_mut().poll(cx) {
        Poll::Ready(read) => Poll::Ready(Some(read)),
        Poll::Pending => is_over(cx),
    })
    .await
}

/// The state that the commands of a connection share.
struct Session<'s> {
    activity: &'s Activity,
    engine: Arc<Engine>,
    limits: RespLimits,
    replies: Replies,
    throttles: Throttles,
    arguments: CommandArguments,
    transaction: Transaction,
    access: Access,
    /// The token of the last `AUTH`.
    token: Option<Box<[u8]>>,
}

impl<'s> Session<'s> {
    /// Replies with an error, after which the connection is closed.
    fn quit(&mut self, error: impl Display) -> AfterCommand {
        self.replies.error(&format!("ERR {error}"));
        AfterCommand::Quit
    }

    fn new(
        engine: Arc<Engine>,
        limits: RespLimits,
        access: Access,
        activity: &'s Activity,
    ) -> Self {
        let (replies, throttles) = (Replies::default(), Throttles::default());
        let (arguments, transaction) = (CommandArguments::default(), Transaction::default());
        let token = None;
        Self { activity, engine, limits, replies, throttles, arguments, transaction, access, token }
    }

    /// The command that was parsed last, at the front of `input`.
    fn call<'a>(&'a mut self, input: &'a [u8]) -> Call<'a> {
        Call {
            engine: &self.engine,
            input,
            arguments: &self.arguments,
            replies: &mut self.replies,
            throttles: &mut self.throttles,
            key_max: self.limits.key_max,
            access: &self.access,
            token: &mut self.token,
            wait_max: self.limits.wait_max,
            in_transaction: false,
        }
    }

    /// Decides what to do with the command that was parsed last.
    fn take(&mut self, input: &[u8], length: usize) -> Next {
        // An empty command has no reply, as in Redis.
        let Some(name) = self.arguments.get(input, 0) else { return Next::Replied };
        let unknown = || Call::unknown(name);
        self.transaction.take(name, &input[..length], unknown, &mut self.replies)
    }

    /// Runs the commands of a transaction.
    async fn execute<S: AsyncWrite + Unpin>(
        &mut self,
        queue: Queue,
        stream: &mut S,
    ) -> io::Result<AfterCommand> {
        self.replies.array(queue.commands);
        let mut rest = &*queue.bytes;
        while let Ok(Some(length)) = self.arguments.read(rest) {
            Call { in_transaction: true, ..self.call(rest) }.run().await;
            rest = &rest[length..];
            self.send_if_long(stream).await?;
        }
        Ok(AfterCommand::Continue)
    }

    async fn send_if_long<S: AsyncWrite + Unpin>(&mut self, stream: &mut S) -> io::Result<()> {
        if self.replies.bytes().len() < WRITE {
            return Ok(());
        }
        self.send(stream).await
    }

    async fn send<S: AsyncWrite + Unpin>(&mut self, stream: &mut S) -> io::Result<()> {
        if self.replies.bytes().is_empty() {
            return Ok(());
        }
        let mut writing = pin!(stream.write_all(self.replies.bytes()));
        // Most clients read at once, so the timer is only set for those that do not.
        match poll_fn(|cx| Poll::Ready(writing.as_mut().poll(cx))).await {
            Poll::Ready(written) => written?,
            Poll::Pending => {
                let _waiting = ClientWait::begin(self.activity);
                timeout(self.limits.write_max, writing).await??;
            }
        }
        self.replies.clear();
        Ok(())
    }
}

/// Runs a command that may wait for units, until the client closes the connection or the daemon stops:
/// then it returns `None`, and the command no longer waits. Input that arrives meanwhile is kept.
async fn run_watched<S: AsyncRead + Unpin>(
    mut call: Call<'_>,
    stream: &mut S,
    ahead: &mut Vec<u8>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<Option<AfterCommand>> {
    let mut run = pin!(call.run());
    loop {
        ahead.reserve(FIRST_READ);
        let mut reading = pin!(stream.read_buf(ahead));
        let read = poll_fn(|cx| {
            if let Poll::Ready(then) = run.as_mut().poll(cx) {
                return Poll::Ready(Ok(Some(then)));
            }
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            reading.as_mut().poll(cx).map(Err)
        });
        match read.await {
            Ok(ended) => return Ok(ended),
            Err(Ok(0)) => return Ok(None),
            Err(Err(error)) => return Err(error),
            // Input ahead of the reply is bounded: beyond it, the connection is no longer watched.
            Err(Ok(_)) if ahead.len() > READ => return Ok(Some(run.await)),
            Err(Ok(_)) => {}
        }
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
    fn new(limits: &RespLimits) -> Self {
        let RespLimits { command_max, idle_max, .. } = *limits;
        let period = (command_max.min(idle_max) / BEATS).max(Duration::from_millis(1));
        // Rounded up, plus one: the first tick may come right after the bytes.
        let beats = |timeout: Duration| {
            let beats = timeout.as_nanos().div_ceil(period.as_nanos());
            u32::try_from(beats).unwrap_or(u32::MAX).saturating_add(1)
        };
        let (still_max, partial_max) = (beats(idle_max), beats(command_max));
        Self { period, is_set: false, still: 0, partial: None, still_max, partial_max }
    }

    /// Records whether the bytes completed a command, and whether an incomplete one is left.
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
        mut tick: Pin<&mut Sleep>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<usize>>> {
        if self.is_set && !tick.is_elapsed() {
            return Poll::Pending;
        }
        self.is_set = true;
        while tick.as_mut().poll(cx).is_ready() {
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
            tick.as_mut().reset(Instant::now() + self.period);
        }
        Poll::Pending
    }
}
