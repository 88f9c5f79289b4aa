//! The state behind the admin listener.

use core::fmt;
use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use super::{Access, Page, ResultCounts};
use crate::engine::Engine;
use crate::http::Connections;

/// Reloads the configuration. Returns what it did, or what is wrong.
pub type Reload = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Adds metrics to a page.
pub type MetricsSource = Box<dyn Fn(&mut Page) + Send + Sync>;

/// A page of text, such as Envoy's `/rlconfig`.
pub type TextPage = Box<dyn Fn() -> String + Send + Sync>;

/// What the admin listener shows, and who may see it.
pub struct AdminState {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Who may use the listener.
    pub access: Access,
    /// The connections of each listener.
    pub listeners: Vec<Arc<Connections>>,
    /// Reloads by result, whether a signal, a changed file or an admin request caused them.
    pub reloads: Arc<ResultCounts>,
    /// `None` without a configuration file.
    pub reload: Option<Reload>,
    /// Further metrics.
    pub sources: Vec<MetricsSource>,
    /// Further text pages, by path.
    pub pages: Vec<(&'static str, TextPage)>,
    /// Set before the process exits: it still serves, but is no longer ready.
    pub is_ending: Arc<AtomicBool>,
}

impl AdminState {
    /// The state of an engine alone.
    pub fn new(engine: Arc<Engine>, access: Access) -> Self {
        Self {
            engine,
            access,
            listeners: Vec::new(),
            reloads: reloads(),
            reload: None,
            sources: Vec::new(),
            pages: Vec::new(),
            is_ending: Arc::default(),
        }
    }
}

/// Counts reloads, none so far.
pub(crate) fn reloads() -> Arc<ResultCounts> {
    let (name, help) = ("slidegate_config_reloads_total", "Configurations read again.");
    Arc::new(ResultCounts::new(name, help, &["ok", "failed"]))
}

impl fmt::Debug for AdminState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AdminState").field("access", &self.access).finish_non_exhaustive()
    }
}
