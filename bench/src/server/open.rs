//! Latency at a load that does not wait for replies (an open model).
//!
//! Every request has a time at which it is due, independent of the requests before it. Its latency
//! counts from that time: if a server stalls, all requests that had to wait count.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::load_client::LoadClient;
use crate::Failure;
use crate::clock;

/// Latencies of one round, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// When requests are due, and which one is next.
#[derive(Debug)]
struct Schedule {
    began: Instant,
    gap: Duration,
    count: u64,
    next: AtomicU64,
    /// A permit for every request that is due.
    due: Semaphore,
}

/// Sends `rate` requests per second for `time`, over all connections.
pub(super) async fn lap(
    lines: &mut Vec<LoadClient>,
    rate: u32,
    time: Duration,
) -> Result<Latency, Failure> {
    let gap = Duration::from_secs(1) / rate;
    let count = u64::try_from(time.as_nanos() / gap.as_nanos().max(1))?;
    let schedule = Arc::new(Schedule {
        began: clock::instant(),
        gap,
        count,
        next: AtomicU64::new(0),
        due: Semaphore::new(0),
    });
    let mut tasks = JoinSet::new();
    let askers = lines.len();
    for line in lines.drain(..) {
        tasks.spawn(ask_when_due(line, Arc::clone(&schedule)));
    }
    pace(&schedule).await?;
    // Clients that still wait find no request left.
    schedule.due.add_permits(askers);
    let mut nanos = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (line, more) = done??;
        lines.push(line);
        nanos.extend(more);
    }
    nanos.sort_unstable();
    let at = |hundredths: usize| {
        let nanos = nanos.get(nanos.len() * hundredths / 100).copied().unwrap_or_default();
        Duration::from_nanos(nanos).as_secs_f64() * 1e6
    };
    Ok(Latency { p50: at(50), p99: at(99) })
}

async fn ask_when_due(
    mut line: LoadClient,
    schedule: Arc<Schedule>,
) -> Result<(LoadClient, Vec<u64>), String> {
    let mut nanos = Vec::new();
    loop {
        schedule.due.acquire().await.map_err(|error| error.to_string())?.forget();
        let number = schedule.next.fetch_add(1, Ordering::Relaxed);
        if number >= schedule.count {
            return Ok((line, nanos));
        }
        let due = schedule.moment(number);
        line.ask().await?;
        let late = clock::instant().saturating_duration_since(due);
        nanos.push(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl Schedule {
    fn moment(&self, number: u64) -> Instant {
        let nanos = u64::try_from(self.gap.as_nanos()).unwrap_or(u64::MAX);
        self.began + Duration::from_nanos(nanos.saturating_mul(number))
    }
}

/// Releases requests when they are due. Uses the kernel's timer, because the runtime's has a
/// resolution of a millisecond.
async fn pace(schedule: &Schedule) -> Result<(), Failure> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
    let gap = Timespec { tv_sec: 0, tv_nsec: schedule.gap.subsec_nanos().into() };
    let spec = Itimerspec { it_interval: gap, it_value: gap };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
    #[expect(deprecated, reason = "its replacement is unsafe; no other code closes this timer")]
    let timer = AsyncFd::new(timer)?;
    let mut released = 0;
    while released < schedule.count {
        let mut ready = timer.readable().await?;
        // The number of expirations does not matter: the clock determines what is due.
        let _ = rustix::io::read(timer.get_ref(), &mut [0; 8]);
        ready.clear_ready();
        let since = schedule.began.elapsed().as_nanos() / schedule.gap.as_nanos().max(1);
        let due = u64::try_from(since)?.saturating_add(1).min(schedule.count);
        schedule.due.add_permits(usize::try_from(due.saturating_sub(released))?);
        released = released.max(due);
    }
    Ok(())
}
