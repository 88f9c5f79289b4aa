//! The state behind the admin listener.

use core::fmt;
use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::{Access, Page, ResultCounts};
use crate::dashboard::Dashboard;
use crate::engine::Engine;
use crate::http::Connections;
use crate::http::error::{ApiError, ApiErrorKind};

/// Reloads the configuration. Returns a description of the result, or the errors.
pub type Reload = Arc<dyn Fn(bool) -> Result<String, String> + Send + Sync>;

/// Adds metrics to a page.
pub type MetricsSource = Arc<dyn Fn(&mut Page) + Send + Sync>;

/// Returns a reason why the process should not receive requests, if there is one.
pub type Unready = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A page of text, such as Envoy's `/rlconfig`.
pub type TextPage = Arc<dyn Fn() -> String + Send + Sync>;

/// The state of the admin listener.
pub struct AdminState {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Access control of the listener.
    pub access: Access,
    /// The connections of each listener.
    pub listeners: Vec<Arc<Connections>>,
    /// Reloads by result, caused by a signal, a changed file or an admin request.
    pub reloads: Arc<ResultCounts>,
    /// `None` without a configuration file.
    pub reload: Option<Reload>,
    /// The dashboard, if the listener has one.
    pub dashboard: Option<Arc<Dashboard>>,
    /// Further metrics.
    pub sources: Vec<MetricsSource>,
    /// Further text pages, by path.
    pub pages: Vec<(&'static str, TextPage)>,
    /// Reasons against readiness, besides the stores.
    pub unready: Vec<Unready>,
    /// Held while a page is written: one at a time.
    pub writing: Arc<Mutex<()>>,
    /// Set before the process exits: it still serves, but is not ready.
    pub is_ending: Arc<AtomicBool>,
}

impl AdminState {
    /// Creates the state for an engine, without listeners.
    pub fn new(engine: Arc<Engine>, access: Access) -> Self {
        Self {
            engine,
            access,
            listeners: Vec::new(),
            reloads: reloads(),
            reload: None,
            dashboard: None,
            sources: Vec::new(),
            pages: Vec::new(),
            unready: Vec::new(),
            writing: Arc::default(),
            is_ending: Arc::default(),
        }
    }

    /// Writes a page on a thread for blocking work. With thousands of policies that takes so long that
    /// requests would wait for it.
    pub(super) async fn write_page(
        &self,
        write: impl FnOnce() -> String + Send + 'static,
    ) -> Result<String, ApiError> {
        let turn = Arc::clone(&self.writing).lock_owned().await;
        let written = tokio::task::spawn_blocking(move || {
            // Kept until the page is written, also if the client does not wait for it.
            let _turn = turn;
            write()
        });
        written.await.map_err(|_| ApiError::new(ApiErrorKind::Failed, "writing the page panicked"))
    }
}

/// Creates the counters of reloads.
pub(crate) fn reloads() -> Arc<ResultCounts> {
    let (name, help) = ("slidegate_config_reloads_total", "Reloads of the configuration.");
    Arc::new(ResultCounts::new(name, help, &["ok", "failed"]))
}

impl fmt::Debug for AdminState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AdminState").field("access", &self.access).finish_non_exhaustive()
    }
}
