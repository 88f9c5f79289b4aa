//! The configuration that is in use, and the last reload.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::config::{Loaded, policy_origins, print_config};
use crate::wall_clock::wall_clock;

/// The configuration that is in use, and the last reload.
#[derive(Debug)]
pub struct ConfigView {
    /// Shared, so that a reader does not copy the text.
    state: Mutex<Arc<ConfigState>>,
}

#[derive(Debug, Clone)]
pub(super) struct ConfigState {
    /// As `--print-config` writes it.
    pub(super) text: String,
    /// Where each policy comes from.
    pub(super) origins: HashMap<String, String>,
    pub(super) files: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) loaded_at: SystemTime,
    pub(super) last: Option<LastReload>,
}

/// The result of the last reload.
#[derive(Debug, Clone)]
pub(super) struct LastReload {
    pub(super) at: SystemTime,
    pub(super) result: Result<String, String>,
}

impl ConfigView {
    /// Shows the configuration that the process was started with.
    pub fn new(loaded: &Loaded) -> Self {
        Self { state: Mutex::new(Arc::new(ConfigState::new(loaded))) }
    }

    /// Shows a configuration that has taken effect.
    pub fn activated(&self, loaded: &Loaded) {
        let new = ConfigState::new(loaded);
        let mut state = self.state.lock();
        *state = Arc::new(ConfigState { last: state.last.clone(), ..new });
    }

    /// Shows the result of a reload.
    pub fn reloaded(&self, result: &Result<String, String>) {
        let last = LastReload { at: wall_clock(), result: result.clone() };
        Arc::make_mut(&mut *self.state.lock()).last = Some(last);
    }

    pub(super) fn state(&self) -> Arc<ConfigState> {
        Arc::clone(&self.state.lock())
    }
}

impl ConfigState {
    fn new(loaded: &Loaded) -> Self {
        let mut text = Vec::new();
        // Writing to a vector cannot fail.
        let _ = print_config(loaded, &mut text);
        Self {
            text: String::from_utf8_lossy(&text).into_owned(),
            origins: policy_origins(loaded).into_iter().collect(),
            files: loaded.files.iter().map(|path| path.display().to_string()).collect(),
            warnings: loaded.warnings.iter().map(|warning| warning.message.clone()).collect(),
            loaded_at: wall_clock(),
            last: None,
        }
    }
}
