//! Sends the requests of a plan.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use slidegate_sim::number::{to_float, to_whole};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::audit::whole_nanos;
use crate::plan::{Pace, Plan};
use crate::record::{Exchange, Progress, Recorder};
use crate::report::{Ending, Report};
use crate::target::{Connection, Failure, Target, TargetError};

/// The time between two calls with the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// The longest sleep of the thread that releases requests, so that it notices the end.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// What all connections share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    start: Instant,
    recorder: Mutex<Recorder>,
    /// Requests of an open loop that are due and not taken by a connection.
    due: Semaphore,
    /// The number of the next request.
    next: AtomicU64,
    is_stopped: AtomicBool,
}

/// Sends requests until the time of the plan is over or `stop` is ready, and returns what was measured.
///
/// # Errors
///
/// Returns an error if the plan cannot be run, or if the first request, for a key of its own, has no decision.
pub async fn run(
    plan: Plan,
    target: &Target,
    stop: impl Future<Output = ()>,
    mut on_progress: impl FnMut(Progress),
) -> Result<Report, TargetError> {
    let refuse = |message: String| TargetError { message, is_unreachable: false };
    plan.check().map_err(|error| refuse(error.to_string()))?;
    let recorder = Recorder::new(&plan).map_err(|error| refuse(error.to_string()))?;
    probe(&plan, target).await?;
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        let mut connection = target.connection();
        let connected = connection.connect(plan.deadline).await;
        connected.map_err(|failure| unreachable(target, &failure))?;
        connections.push(connection);
    }
    let (duration, deadline) = (plan.duration, plan.deadline);
    #[expect(clippy::disallowed_methods, reason = "real requests are sent in real time")]
    let start = Instant::now();
    let shared = Arc::new(Shared {
        plan,
        start,
        recorder: Mutex::new(recorder),
        due: Semaphore::new(0),
        next: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
    });
    let mut workers = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        workers.spawn(Arc::clone(&shared).work(number as u64, connection));
    }
    let pacer = matches!(shared.plan.pace, Pace::Open(_)).then(|| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.release())
    });
    // Requests that were due are sent late rather than never, but not for ever.
    let last = tokio::time::sleep(duration + deadline);
    let mut ticks = tokio::time::interval(PROGRESS_EVERY);
    tokio::pin!(last, stop);
    let mut ending = Ending::Complete;
    loop {
        tokio::select! {
            joined = workers.join_next() => if joined.is_none() { break },
            () = &mut last, if !shared.is_stopped() => shared.stop(),
            () = &mut stop, if !shared.is_stopped() => {
                ending = Ending::Interrupted;
                shared.stop();
            }
            _ = ticks.tick() => {
                let progress = shared.recorder.lock().progress(shared.start.elapsed());
                on_progress(progress);
            }
        }
    }
    shared.stop();
    if let Some(pacer) = pacer {
        // It sleeps for no longer than `SLEEP_MAX`.
        let _ = tokio::task::spawn_blocking(move || pacer.join()).await;
    }
    let elapsed = shared.start.elapsed();
    let mut recorder = shared.recorder.lock();
    if recorder.is_full() {
        ending = Ending::Full;
    }
    recorder.close_step();
    let unsent = match ending {
        Ending::Interrupted => 0,
        Ending::Complete | Ending::Full => shared.unsent(),
    };
    Ok(Report::new(&shared.plan, target, &recorder, elapsed, unsent, ending))
}

/// Sends one request for a key that no other request is for: what is wrong with all of them shows at once.
async fn probe(plan: &Plan, target: &Target) -> Result<(), TargetError> {
    let mut connection = target.connection();
    let connected = connection.connect(plan.deadline).await;
    connected.map_err(|failure| unreachable(target, &failure))?;
    let key = format!("{}probe", plan.key_prefix);
    match connection.check(&key, plan.deadline).await {
        Ok(_) => Ok(()),
        Err(failure) if matches!(failure.kind.as_str(), "connect" | "no reply from Redis") => {
            Err(unreachable(target, &failure))
        }
        Err(failure) => Err(TargetError {
            message: format!("{target} has no decision for the first request: {failure}"),
            is_unreachable: failure.kind == "deadline",
        }),
    }
}

fn unreachable(target: &Target, failure: &Failure) -> TargetError {
    let message = format!("cannot reach {target}: {}. Is it running there?", failure.detail);
    TargetError { message, is_unreachable: true }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Connections finish the requests in flight, and send no others.
    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.due.close();
    }

    /// Returns the number of requests of an open loop.
    fn planned(&self) -> u64 {
        match self.plan.pace {
            Pace::Open(rate) => to_whole((rate * self.plan.duration.as_secs_f64()).ceil()).max(1),
            Pace::Closed => u64::MAX,
        }
    }

    fn unsent(&self) -> u64 {
        match self.plan.pace {
            Pace::Open(_) => self.planned().saturating_sub(self.next.load(Ordering::Relaxed)),
            Pace::Closed => 0,
        }
    }

    /// Releases requests when they are due. This is a thread because a timer of the runtime has a resolution of a
    /// millisecond, which would be most of the measured latency.
    fn release(&self) {
        let Pace::Open(rate) = self.plan.pace else { return };
        let planned = self.planned();
        let mut released = 0;
        while released < planned && !self.is_stopped() {
            let elapsed = self.start.elapsed();
            let due = (to_whole(elapsed.as_secs_f64() * rate) + 1).min(planned);
            if due > released {
                self.due.add_permits(usize::try_from(due - released).unwrap_or_default());
                released = due;
            }
            let next = Duration::from_secs_f64(to_float(released) / rate);
            #[expect(clippy::disallowed_methods, reason = "requests are due at real times")]
            thread::sleep(next.saturating_sub(self.start.elapsed()).min(SLEEP_MAX));
        }
    }

    /// Waits for the next request. Returns when it is due, or `None` at the end.
    async fn due_ns(&self) -> Option<u64> {
        match self.plan.pace {
            Pace::Open(rate) => {
                self.due.acquire().await.ok()?.forget();
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                if number + 1 >= self.planned() {
                    // Nothing is left to wait for.
                    self.due.close();
                }
                Some(to_whole(to_float(number) / rate * 1e9))
            }
            Pace::Closed => {
                self.next.fetch_add(1, Ordering::Relaxed);
                let elapsed = self.start.elapsed();
                (elapsed < self.plan.duration && !self.is_stopped()).then(|| whole_nanos(elapsed))
            }
        }
    }

    async fn work(self: Arc<Self>, number: u64, mut connection: Connection) {
        let mut draws = self.plan.keys.draws(self.plan.seed.wrapping_add(number));
        while let Some(due_ns) = self.due_ns().await {
            let key = draws.draw();
            let name = format!("{}{key}", self.plan.key_prefix);
            let sent_ns = self.elapsed_ns();
            let result = connection.check(&name, self.plan.deadline).await;
            let answered_ns = self.elapsed_ns();
            let mut recorder = self.recorder.lock();
            recorder.record(Exchange { key, due_ns, sent_ns, answered_ns, result });
            if recorder.is_full() {
                self.stop();
            }
        }
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
