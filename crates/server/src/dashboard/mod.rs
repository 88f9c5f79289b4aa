//! The dashboard: a page of the admin listener, its state as JSON and as server-sent events.
//!
//! A background task samples the counters of `/metrics` once per second. The hottest keys are counted
//! only while a client looks: see `hot_keys`.

mod charts;
mod config_view;
mod document;
mod events;
mod history;
mod hot_keys;
mod key;
mod routes;
mod sketch;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate_gate::Observer;
use tokio::time::Instant;
use tracing::warn;

pub use self::config_view::ConfigView;
use self::document::{Document, View, millis};
pub use self::events::DashboardBody;
use self::history::History;
use self::hot_keys::HotKeys;
pub(crate) use self::routes::{handle, is_public};
use crate::admin::ResultCounts;
use crate::engine::Engine;
use crate::http::Connections;
use crate::net::Stop;
use crate::wall_clock::wall_clock;

/// The time between two samples of the counters.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Keys are counted for this time after the last client has read the state.
const WATCHED_FOR: Duration = Duration::from_secs(15);
/// The maximum number of clients that receive events.
const SUBSCRIBERS_MAX: usize = 16;

/// The state behind the dashboard.
#[derive(Debug)]
pub struct Dashboard {
    engine: Arc<Engine>,
    history: Mutex<History>,
    hot_keys: Arc<HotKeys>,
    config: Option<Arc<ConfigView>>,
    reloads: Arc<ResultCounts>,
    started: Instant,
    /// When a client last read the state.
    looked: Mutex<Option<Instant>>,
    /// Whether gates report to `hot_keys`.
    is_watching: AtomicBool,
    subscribers: AtomicUsize,
    /// Held while a state document is written.
    writing: Arc<tokio::sync::Mutex<()>>,
    is_ending: Arc<AtomicBool>,
}

impl Dashboard {
    /// Creates the state. Nothing is sampled before [`run`](Dashboard::run).
    pub fn new(
        engine: Arc<Engine>,
        config: Option<Arc<ConfigView>>,
        reloads: Arc<ResultCounts>,
        is_ending: Arc<AtomicBool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            history: Mutex::default(),
            hot_keys: HotKeys::new(),
            config,
            reloads,
            started: Instant::now(),
            looked: Mutex::default(),
            is_watching: AtomicBool::new(false),
            subscribers: AtomicUsize::new(0),
            writing: Arc::default(),
            is_ending,
        })
    }

    /// Samples the counters until shutdown.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let mut last = Instant::now();
        let mut interval = tokio::time::interval(SAMPLE_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.is_over() {
            tokio::select! {
                _ = interval.tick() => {}
                () = stop.clone().wait() => return,
            }
            let now = Instant::now();
            let this = Arc::clone(&self);
            // With thousands of policies it takes so long that requests would wait for it.
            let sampled =
                tokio::task::spawn_blocking(move || this.sample(now.duration_since(last)));
            if sampled.await.is_err() {
                return;
            }
            last = now;
            self.watch_or_not().await;
        }
    }

    fn sample(&self, elapsed: Duration) {
        let plan = arc_swap::Guard::into_inner(self.engine.plan());
        let shared = plan.gates().iter().filter(|gate| !gate.is_in_process());
        let shared: std::collections::HashSet<&str> = shared.map(|gate| gate.name()).collect();
        let requests = {
            let mut history = self.history.lock();
            let is_shared = |policy: &str| shared.contains(policy);
            let (at, seconds) = (millis(wall_clock()), elapsed.as_secs_f64());
            history.sample(self.engine.metrics(), is_shared, at, seconds);
            history.all().current().iter().sum()
        };
        if self.is_watching.load(Ordering::Relaxed) {
            self.hot_keys.tick(requests);
        }
    }

    /// Starts or stops counting keys, as needed.
    async fn watch_or_not(self: &Arc<Self>) {
        let looked = *self.looked.lock();
        let wanted = looked.is_some_and(|looked| looked.elapsed() < WATCHED_FOR);
        if wanted == self.is_watching.load(Ordering::Relaxed) {
            return;
        }
        let this = Arc::clone(self);
        let changed = tokio::task::spawn_blocking(move || this.set_watching(wanted)).await;
        if let Ok(Err(error)) = changed {
            warn!("the dashboard cannot show keys: {error}");
        }
    }

    fn set_watching(&self, wanted: bool) -> Result<(), slidegate::Error> {
        // Set first: if it fails, it is not tried again every second.
        self.is_watching.store(wanted, Ordering::Relaxed);
        let hot_keys = Arc::clone(&self.hot_keys) as Arc<dyn Observer>;
        self.engine.set_watcher(wanted.then_some(hot_keys))?;
        if !wanted {
            self.hot_keys.clear();
        }
        Ok(())
    }

    /// Writes a state document on a thread for blocking work, one at a time. With thousands of
    /// policies it takes so long that requests would wait for it. Returns `None` if writing panicked.
    async fn document(
        self: Arc<Self>,
        listeners: Vec<Arc<Connections>>,
        view: View,
    ) -> Option<Document> {
        let turn = Arc::clone(&self.writing).lock_owned().await;
        let written = tokio::task::spawn_blocking(move || {
            // Kept until the document is written, also if the client does not wait for it.
            let _turn = turn;
            document::write(&self, &listeners, &view)
        });
        written.await.ok()
    }

    /// Notes that a client reads the state.
    fn look(&self) {
        *self.looked.lock() = Some(Instant::now());
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}
