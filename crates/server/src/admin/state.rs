//! What the admin listener answers from.

use core::fmt;
use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use super::{Access, Page, Reloads, StoreMemory};
use crate::engine::Engine;
use crate::http::Connections;

/// Reads the configuration again and puts it in force; says what it did, or what is wrong.
pub type Reload = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Adds families of its own to the metrics.
pub type Source = Box<dyn Fn(&mut Page) + Send + Sync>;

/// A page of text, such as Envoy's `/rlconfig`.
pub type TextPage = Box<dyn Fn() -> String + Send + Sync>;

/// All that can be told about the process, and who is told.
pub struct AdminState {
    /// What is in force.
    pub engine: Arc<Engine>,
    /// Who may ask.
    pub access: Access,
    /// The listeners by name, with their connections.
    pub listeners: Vec<(&'static str, Arc<Connections>)>,
    /// How often the configuration was read again.
    pub reloads: Arc<Reloads>,
    /// `None` where there is nothing to read.
    pub reload: Option<Reload>,
    /// What stores behind a network tell of themselves.
    pub stores: Arc<StoreMemory>,
    /// Metrics of others.
    pub sources: Vec<Source>,
    /// Pages of others, by path.
    pub pages: Vec<(&'static str, TextPage)>,
    /// Set when the process is about to end: it is not ready any more, and still serves.
    pub is_ending: Arc<AtomicBool>,
}

impl AdminState {
    /// For an engine, with nothing else to tell of.
    pub fn new(engine: Arc<Engine>, access: Access) -> Self {
        Self {
            engine,
            access,
            listeners: Vec::new(),
            reloads: Arc::default(),
            reload: None,
            stores: Arc::default(),
            sources: Vec::new(),
            pages: Vec::new(),
            is_ending: Arc::default(),
        }
    }
}

impl fmt::Debug for AdminState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AdminState").field("access", &self.access).finish_non_exhaustive()
    }
}
