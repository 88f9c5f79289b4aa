//! Reports when failure modes start to decide, and when Redis decides again.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use slidegate::DegradedReason;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::redis::{Redis, RedisBuilder};
use crate::servers::{BackgroundTask, Failure, FailureKind};

/// The start or the end of a time in which failure modes decided because Redis did not: see
/// [`RedisBuilder::on_state_change`](crate::RedisBuilder::on_state_change).
///
/// Its text names the cause or the numbers, and no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateChange {
    /// A check was not decided by Redis, so the failure mode of its policy decided.
    #[non_exhaustive]
    Degraded {
        /// The cause as a word, as in metrics.
        reason: DegradedReason,
        /// The cause in words: the server and its error.
        cause: String,
    },
    /// Redis decides again.
    #[non_exhaustive]
    Recovered {
        /// The number of checks that failure modes decided.
        degraded: u64,
        /// The time from the first of them to the first reply of Redis after the last of them.
        duration: Duration,
    },
}

/// Receives the changes.
pub(crate) type OnStateChange = Box<dyn Fn(&StateChange) + Send + Sync>;

/// The degraded time of the limiters that share servers.
pub(crate) struct Outage {
    /// Without it, changes are logged.
    on_change: Option<OnStateChange>,
    /// Whether there is a current episode. It is read for every reply.
    is_degraded: AtomicBool,
    episodes: Mutex<Episodes>,
    /// Ends the current episode.
    task: BackgroundTask,
}

#[derive(Debug, Default)]
struct Episodes {
    current: Option<Episode>,
    /// When the last one ended, and the quiet time that it needed.
    last: Option<(Instant, Duration)>,
}

/// A time in which failure modes decide.
#[derive(Debug)]
struct Episode {
    since: Instant,
    /// The start, until it is reported.
    unreported: Option<StateChange>,
    degraded: u64,
    /// The time of the last degraded decision.
    latest: Instant,
    /// The time of the first reply after it.
    recovered: Option<Instant>,
    /// The time without a degraded decision that ends the episode.
    quiet: Duration,
}

/// The time without a degraded decision that ends an episode. It doubles for an episode that starts
/// less than [`QUIET_MAX`] after the last one, so servers that fail and return in turn cause at most
/// eight pairs of reports in the first ten minutes, and one pair per ten minutes after that.
const QUIET_MIN: Duration = Duration::from_secs(5);
const QUIET_MAX: Duration = Duration::from_secs(600);

/// The maximum time for which the first report waits for the result of connecting.
const CAUSE_MAX: Duration = Duration::from_secs(1);

impl RedisBuilder {
    /// Calls `on_change` when failure modes start to decide because Redis does not, with the cause, and
    /// when Redis decides again, with the number of checks that they decided. Without a callback, both
    /// are logged as warnings of `tracing` (feature `tracing`, on by default).
    ///
    /// All limiters of a [`Redis`] share one state. A wrong password or address counts from the first
    /// check. If that check came before the result of connecting, the call waits for the result, for
    /// at most one second, because it is the better cause.
    ///
    /// The end is reported once there was a reply and, for five seconds, no degraded decision. That
    /// time doubles, up to ten minutes, for each outage that starts less than ten minutes after the
    /// last one. Servers that fail and return in turn therefore cause at most eight pairs of calls in
    /// the first ten minutes, and one pair per ten minutes after that.
    ///
    /// The callback runs in the task of a check or in the background, and must not block.
    ///
    /// ```
    /// use slidegate_redis::{Redis, StateChange};
    ///
    /// # fn build() -> Result<(), slidegate::Error> {
    /// let redis = Redis::single("redis://127.0.0.1:6379")?
    ///     .on_state_change(|change| match change {
    ///         StateChange::Degraded { cause, .. } => eprintln!("Redis does not decide: {cause}"),
    ///         StateChange::Recovered { degraded, .. } => eprintln!("{degraded} checks without Redis"),
    ///         other => eprintln!("{other}"),
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_state_change(
        mut self,
        on_change: impl Fn(&StateChange) + Send + Sync + 'static,
    ) -> Self {
        self.on_state_change = Some(Box::new(on_change));
        self
    }
}

impl Redis {
    /// Records that a failure mode decides a check because of `failure`.
    pub(crate) fn note_degraded(&self, failure: &Failure) {
        let outage = &self.shared.outage;
        if !outage.begin_or_count(failure, Instant::now()) {
            return;
        }
        match Handle::try_current() {
            // The check did not wait for the connection, and whether that fails says more.
            Ok(runtime) if failure.kind == FailureKind::Connecting => {
                let redis = self.clone();
                runtime.spawn(async move {
                    let tried = timeout(CAUSE_MAX, redis.try_servers()).await;
                    let cause = tried.ok().and_then(Result::err);
                    redis.shared.outage.report_start(cause.as_ref());
                });
            }
            _ => outage.report_start(None),
        }
    }
}

impl Outage {
    pub(crate) fn new(on_change: Option<OnStateChange>) -> Arc<Self> {
        let (is_degraded, episodes) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { on_change, is_degraded, episodes, task: BackgroundTask::default() })
    }

    /// Counts a degraded decision. Returns `true` if it starts an episode.
    fn begin_or_count(&self, failure: &Failure, now: Instant) -> bool {
        let mut episodes = self.episodes.lock();
        if let Some(episode) = &mut episodes.current {
            episode.degraded += 1;
            (episode.latest, episode.recovered) = (now, None);
            return false;
        }
        let quiet = match episodes.last {
            Some((ended, quiet)) if now < ended + QUIET_MAX => (quiet * 2).min(QUIET_MAX),
            _ => QUIET_MIN,
        };
        let unreported = Some(StateChange::degraded(failure));
        let (since, latest, recovered) = (now, now, None);
        episodes.current =
            Some(Episode { since, unreported, degraded: 1, latest, recovered, quiet });
        self.is_degraded.store(true, Ordering::Relaxed);
        true
    }

    /// Reports the start of the current episode, unless that was done. `cause` is more precise than
    /// what the first check knew.
    fn report_start(&self, cause: Option<&Failure>) {
        let start = self.episodes.lock().current.as_mut().and_then(|it| it.unreported.take());
        if let Some(start) = start {
            self.report(&cause.map_or(start, StateChange::degraded));
        }
    }

    /// Records a reply of Redis.
    pub(crate) fn note_reply(self: &Arc<Self>) {
        if !self.is_degraded.load(Ordering::Relaxed) {
            return;
        }
        if let Some(episode) = &mut self.episodes.lock().current {
            episode.recovered.get_or_insert_with(Instant::now);
        }
        let this = Arc::downgrade(self);
        // Replies arrive in a runtime.
        let _ = self.task.ensure(|| end_when_quiet(this));
    }

    /// Ends the current episode if it was quiet for long enough. Returns its end, or the time to wait
    /// for it. There is neither while Redis does not reply.
    fn end(&self, now: Instant) -> (Option<StateChange>, Option<Duration>) {
        let mut episodes = self.episodes.lock();
        let Some(Episode { since, degraded, latest, recovered: Some(recovered), quiet, .. }) =
            episodes.current
        else {
            return (None, None);
        };
        let left = (latest + quiet).saturating_duration_since(now);
        if !left.is_zero() {
            return (None, Some(left));
        }
        episodes.last = Some((now, quiet));
        episodes.current = None;
        self.is_degraded.store(false, Ordering::Relaxed);
        (Some(StateChange::Recovered { degraded, duration: recovered - since }), None)
    }

    fn report(&self, change: &StateChange) {
        match &self.on_change {
            Some(on_change) => on_change(change),
            #[cfg(feature = "tracing")]
            None => tracing::warn!(target: "slidegate", "{change}"),
            #[cfg(not(feature = "tracing"))]
            None => {}
        }
    }
}

/// Waits for the end of the current episode, and reports it.
async fn end_when_quiet(outage: Weak<Outage>) {
    while let Some(outage) = outage.upgrade() {
        outage.report_start(None);
        let (mut ended, mut left) = (None, None);
        let is_done = outage.task.end_if(|| {
            (ended, left) = outage.end(Instant::now());
            left.is_none()
        });
        if let Some(ended) = ended {
            outage.report(&ended);
        }
        drop(outage);
        match left {
            Some(left) if !is_done => sleep(left).await,
            _ => return,
        }
    }
}

impl StateChange {
    fn degraded(failure: &Failure) -> Self {
        Self::Degraded { reason: failure.reason(), cause: failure.to_string() }
    }
}

impl fmt::Display for StateChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Degraded { cause, .. } => {
                write!(f, "degraded: failure modes decide, because Redis does not: {cause}")
            }
            Self::Recovered { degraded, duration } => {
                let seconds = duration.as_secs_f64();
                write!(
                    f,
                    "no longer degraded: Redis decides again; failure modes decided {degraded} checks \
                     in {seconds:.1} s"
                )
            }
        }
    }
}

/// Omits the callback.
impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").field("episodes", &self.episodes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
