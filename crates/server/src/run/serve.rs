//! The daemon's life cycle: start, reload, shutdown.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use slidegate::{Error, ErrorKind};
use slidegate_gate::Observer;

use super::listeners::{Listeners, Services};
use super::process::{notify_systemd, start_log};
use super::reference_statistics::ReferenceStatistics;
use super::reload::Reloader;
use super::stalls::StallCounts;
use super::state_log::StateLog;
use super::statsd::StatsdSender;
use super::upkeep::{RedisSweeps, watch_stores};
use super::watch::Watched;
use super::{Audit, Snapshots, Spans};
use crate::admin::MetricsSource;
use crate::config::{InvalidConfig, Loaded};
use crate::engine::Engine;
use crate::gates::NoRestore;
use crate::net::{Stop, Stopper};

/// The time for requests in flight at shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// Why the daemon did not start, or did not end well.
#[derive(Debug)]
pub struct ServeError {
    /// Whether the configuration has to be changed.
    pub is_configuration: bool,
    message: String,
}

impl From<String> for ServeError {
    fn from(message: String) -> Self {
        Self { is_configuration: false, message }
    }
}

impl From<Error> for ServeError {
    fn from(error: Error) -> Self {
        let is_configuration = !matches!(error.kind(), ErrorKind::Snapshot | ErrorKind::Store);
        Self { is_configuration, message: error.to_string() }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ServeError {}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// When it cannot start: an address is taken, a snapshot is damaged, a certificate is missing.
pub async fn serve(
    loaded: Loaded,
    load: impl Fn() -> Result<Loaded, Box<InvalidConfig>> + Send + Sync + 'static,
) -> Result<(), ServeError> {
    let settings = &loaded.settings;
    start_log(settings.log);
    // Restoring a snapshot takes a while, and the files may change meanwhile.
    let (control, watched) = (Control::new()?, Watched::of_loaded(&loaded));
    let snapshots = settings.snapshot.as_ref();
    let snapshots = snapshots.map(|settings| Snapshots::new(&settings.path)).transpose()?;
    let spans = settings.tracing.as_ref().map(Spans::start).transpose()?.map(Arc::new);
    let audit = loaded.settings.audit.as_ref().map(Audit::start).transpose()?.map(Arc::new);
    let observer = observers(audit.as_ref(), spans.as_ref());
    let engine = make_engine(&loaded, snapshots.as_ref(), observer)?;
    let engine = Arc::new(engine.waiters_max(settings.limits.waiters_max));
    let listeners = Listeners::bind(settings)?;
    let secrets = listeners.secrets();
    let reloader = Reloader::new(Arc::clone(&engine), secrets, &loaded, watched, load);
    let reloader = Arc::new(reloader);
    let statistics = ReferenceStatistics {
        engine: Arc::clone(&engine),
        reloads: Arc::clone(reloader.reloads()),
    };
    let statsd = settings.statsd.as_ref();
    let statsd = statsd.map(|settings| Arc::new(StatsdSender::new(settings, statistics.clone())));
    let sweeps = RedisSweeps::new();
    let stalls = Arc::new(StallCounts::default());
    let stopper = Stopper::default();
    let mut tasks = JoinSet::new();
    listeners.announce(&loaded);
    let is_ending = Arc::new(AtomicBool::new(false));
    let stop = stopper.stop();
    let services = Services {
        engine: &engine,
        settings,
        reloader: &reloader,
        is_ending: &is_ending,
        sources: sources(
            &statistics,
            snapshots.as_ref(),
            spans.as_ref(),
            audit.as_ref(),
            statsd.as_ref(),
            &sweeps,
            &stalls,
        ),
        audit: audit.as_ref(),
        statistics: &statistics,
        stop,
    };
    listeners.serve(&mut tasks, services).await?;
    if let Some(statsd) = statsd {
        tasks.spawn(statsd.run(stopper.stop()));
    }
    start_background_tasks(&mut tasks, &engine, &loaded, snapshots.as_ref(), sweeps, &stopper);
    let counts = audit.as_ref().map(|audit| Arc::clone(audit.counts()));
    tasks.spawn(StateLog::new(counts).run(Arc::clone(&engine), stopper.stop()));
    tasks.spawn(stalls.measure(stopper.stop()));
    notify_systemd("READY=1");
    control.run(&reloader, audit.as_deref()).await;

    is_ending.store(true, Ordering::Relaxed);
    notify_systemd("STOPPING=1");
    info!("shutting down: no new connections, up to {DRAIN:?} for requests in flight");
    stopper.end();
    drain(tasks).await;
    let saved = match snapshots {
        Some(snapshots) => save(&engine, &snapshots).await,
        None => Ok(()),
    };
    if let Some(spans) = spans {
        let _ = tokio::task::spawn_blocking(move || spans.end()).await;
    }
    Ok(saved?)
}

/// Waits until all tasks have ended, and ends those that take too long.
async fn drain(mut tasks: JoinSet<()>) {
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, ended).await.is_err() {
        warn!("some requests were still in flight after {DRAIN:?}");
        tasks.shutdown().await;
    }
}

/// Metrics other than the engine's.
fn sources(
    statistics: &ReferenceStatistics,
    snapshots: Option<&Snapshots>,
    spans: Option<&Arc<Spans>>,
    audit: Option<&Arc<Audit>>,
    statsd: Option<&Arc<StatsdSender>>,
    sweeps: &RedisSweeps,
    stalls: &Arc<StallCounts>,
) -> Vec<MetricsSource> {
    let (statistics, stalls) = (statistics.clone(), Arc::clone(stalls));
    let mut sources: Vec<MetricsSource> = vec![
        Arc::new(move |page| statistics.write(page)),
        Arc::new(move |page| stalls.write(page)),
    ];
    if let Some(snapshots) = snapshots.cloned() {
        sources.push(Arc::new(move |page| snapshots.write_metrics(page)));
    }
    if let Some(statsd) = statsd.map(Arc::clone) {
        sources.push(Arc::new(move |page| statsd.results().write(page)));
    }
    let counts = [
        Some(sweeps.counts()),
        spans.map(|spans| spans.counts()),
        audit.map(|audit| audit.counts()),
    ];
    for counts in counts.into_iter().flatten() {
        let counts = Arc::clone(counts);
        sources.push(Arc::new(move |page| counts.write(page)));
    }
    sources
}

fn make_engine(
    loaded: &Loaded,
    snapshots: Option<&Snapshots>,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Engine, Error> {
    let (Some(snapshots), Some(settings)) = (snapshots, &loaded.settings.snapshot) else {
        return Engine::with_observer(&loaded.spec, observer, &mut NoRestore);
    };
    let mut restorer = snapshots.restorer(settings.start_empty_if_damaged);
    let engine = Engine::with_observer(&loaded.spec, observer, &mut restorer)?;
    for line in restorer.restored {
        info!("{line}");
    }
    for line in restorer.damaged {
        warn!("{line}");
    }
    Ok(engine)
}

/// The observers of decisions.
fn observers(audit: Option<&Arc<Audit>>, spans: Option<&Arc<Spans>>) -> Option<Arc<dyn Observer>> {
    let audit = audit.map(|audit| Arc::clone(audit) as Arc<dyn Observer>);
    let spans = spans.map(|spans| Arc::clone(spans) as Arc<dyn Observer>);
    match (audit, spans) {
        (Some(audit), Some(spans)) => Some(Arc::new(vec![audit, spans])),
        (audit, spans) => audit.or(spans),
    }
}

/// Starts the background tasks.
fn start_background_tasks(
    tasks: &mut JoinSet<()>,
    engine: &Arc<Engine>,
    loaded: &Loaded,
    snapshots: Option<&Snapshots>,
    sweeps: RedisSweeps,
    stopper: &Stopper,
) {
    let (swept, every, stop) =
        (Arc::clone(engine), loaded.spec.memory().sweep_every, stopper.stop());
    tasks.spawn(async move { sweep(&swept, every, stop).await });
    if let (Some(snapshots), Some(settings)) = (snapshots, &loaded.settings.snapshot) {
        let (engine, snapshots) = (Arc::clone(engine), snapshots.clone());
        let (every, stop) = (settings.interval, stopper.stop());
        tasks.spawn(async move { save_often(&engine, &snapshots, every, stop).await });
    }
    let (engine, stop) = (Arc::clone(engine), stopper.stop());
    tasks.spawn(async move {
        tokio::select! {
            _ = watch_stores(&engine) => {}
            _ = sweeps.run(&engine) => {}
            () = stop.wait() => {}
        }
    });
}

/// Slots swept before other tasks run.
const SWEEP_STEP: usize = 4096;

/// Sweeps every key in memory once per `every`, in steps. Checks sweep as well; this is for keys that
/// are no longer used.
async fn sweep(engine: &Arc<Engine>, every: Duration, stop: Stop) {
    while !stop.is_over() {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stop.clone().wait() => return,
        }
        let swept = Arc::clone(engine);
        // It waits while a plan is made.
        let _ = tokio::task::spawn_blocking(move || swept.drop_expired()).await;
        let plan = arc_swap::Guard::into_inner(engine.plan());
        for limiter in plan.stores().iter().filter_map(|(_, store)| store.in_process()) {
            let keys = usize::try_from(limiter.stats().keys).unwrap_or(usize::MAX);
            // A table that stays more than half empty shrinks.
            for _ in 0..=keys.saturating_mul(2) / SWEEP_STEP {
                limiter.sweep(SWEEP_STEP);
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn save_often(engine: &Arc<Engine>, snapshots: &Snapshots, every: Duration, stop: Stop) {
    while !stop.is_over() {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stop.clone().wait() => return,
        }
        if let Err(problem) = save(engine, snapshots).await {
            error!("{problem}; the last snapshot stays as it is");
        }
    }
}

async fn save(engine: &Arc<Engine>, snapshots: &Snapshots) -> Result<(), String> {
    let (plan, snapshots) = (Arc::clone(&engine.plan()), snapshots.clone());
    let saved = tokio::task::spawn_blocking(move || snapshots.save(&plan)).await;
    saved.map_err(|error| error.to_string())?.map(|_| ()).map_err(|error| error.to_string())
}

/// The signals that cause a reload or the shutdown. Subscribed before the first request is served, so
/// that none is missed.
struct Control {
    hang_up: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Control {
    fn new() -> Result<Self, String> {
        let listen =
            |kind| signal(kind).map_err(|error| format!("cannot wait for signals: {error}"));
        Ok(Self {
            hang_up: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Reloads on SIGHUP and when files change. Returns at shutdown.
    ///
    /// SIGHUP also opens the audit log again, for programs that rotate logs.
    async fn run(mut self, reloader: &Arc<Reloader>, audit: Option<&Audit>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => {
                    if let Some(audit) = audit {
                        audit.reopen();
                    }
                }
                () = reloader.changed() => {}
            }
            notify_systemd("RELOADING=1");
            // A file system that does not reply blocks a reload. It does not block the shutdown.
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                () = reload(Arc::clone(reloader)) => {}
            }
            notify_systemd("READY=1");
        }
    }
}

async fn reload(reloader: Arc<Reloader>) {
    let reloaded = tokio::task::spawn_blocking(move || reloader.reload(false)).await;
    match reloaded.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(done) => info!("configuration reloaded; {done}"),
        Err(error) => error!("configuration not reloaded, the previous one stays active:\n{error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use arc_swap::ArcSwap;
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::access::AccessRules;
    use crate::config::{Request, load};
    use crate::run::reload::Secrets;

    #[tokio::test(flavor = "multi_thread")]
    async fn blocked_reload_does_not_delay_the_shutdown() {
        let control = Control::new().unwrap();
        let loaded = load(&Request::default()).unwrap();
        let engine = Arc::new(Engine::new(&loaded.spec, &mut NoRestore).unwrap());
        let rules = Arc::new(ArcSwap::from_pointee(AccessRules::default()));
        let secrets = Secrets { certificates: Vec::new(), rules, admin: None };
        // The load starts when the test receives, and returns when the test drops its receiver.
        let (starts, started) = sync_channel(0);
        let again = move || {
            while starts.send(()).is_ok() {}
            load(&Request::default())
        };
        let reloader = Arc::new(Reloader::new(engine, secrets, &loaded, Watched::default(), again));
        let control = tokio::spawn(async move { control.run(&reloader, None).await });
        kill_process(getpid(), Signal::HUP).unwrap();
        let started = tokio::task::spawn_blocking(move || {
            started.recv().unwrap();
            started
        });
        let started = started.await.unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        let ended = tokio::time::timeout(DRAIN, control).await;
        drop(started);
        ended.unwrap().unwrap();
    }
}
