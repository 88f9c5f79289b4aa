//! Reloading the configuration.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::tls::ReloadableTls;
use crate::admin::{ResultCounts, reloads};
use crate::config::Loaded;
use crate::engine::Engine;

/// Reloads the configuration. An invalid one changes nothing.
pub(super) struct Reloader {
    engine: Arc<Engine>,
    load: Box<dyn Fn() -> Result<Loaded, String> + Send + Sync>,
    certificates: Vec<ReloadableTls>,
    reloads: Arc<ResultCounts>,
    /// One at a time, so that an older configuration never overtakes a newer one.
    turn: Mutex<()>,
}

impl Reloader {
    /// Reloads `engine` and the certificates with what `load` returns.
    pub(super) fn new(
        engine: Arc<Engine>,
        certificates: Vec<ReloadableTls>,
        load: impl Fn() -> Result<Loaded, String> + Send + Sync + 'static,
    ) -> Self {
        let (reloads, turn) = (reloads(), Mutex::default());
        Self { engine, load: Box::new(load), certificates, reloads, turn }
    }

    /// Reloads once. Returns a message for the operator.
    pub(super) fn reload(&self) -> Result<String, String> {
        let _turn = self.turn.lock();
        let done = self.try_reload();
        self.reloads.note(&done);
        done
    }

    fn try_reload(&self) -> Result<String, String> {
        let loaded = (self.load)()?;
        for certificate in &self.certificates {
            certificate.reload()?;
        }
        self.engine.swap(&loaded.spec).map_err(|error| error.to_string())?;
        Ok(format!("in force: {}", loaded.spec.counts()))
    }

    /// Counts of reloads.
    pub(super) fn reloads(&self) -> &Arc<ResultCounts> {
        &self.reloads
    }
}

/// Changes come in bursts: a reload waits until there was none for this long.
const QUIET: Duration = Duration::from_millis(200);

/// Watches `files` for changes. It watches their directories, because editors and Kubernetes replace
/// files and links instead of writing to them.
pub(super) fn watch(files: &[PathBuf]) -> Result<Changes, String> {
    let (sender, receiver) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let matters = event.map_or(true, |event| !event.kind.is_access());
        if matters {
            // One pending event is enough.
            let _ = sender.try_send(());
        }
    })
    .map_err(|error| format!("cannot watch files: {error}"))?;
    let mut folders: Vec<PathBuf> = files.iter().flat_map(|file| folders_of(file)).collect();
    folders.sort();
    folders.dedup();
    for folder in &folders {
        watcher
            .watch(folder, RecursiveMode::NonRecursive)
            .map_err(|error| format!("cannot watch {}: {error}", folder.display()))?;
    }
    Ok(Changes { _watcher: watcher, receiver })
}

/// The directory of a path, and those of the links in it.
fn folders_of(file: &Path) -> Vec<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    };
    let mut folders = vec![if file.is_dir() { file.to_owned() } else { parent(file) }];
    // Kubernetes: `config.yaml -> ..data/config.yaml`, `..data -> ..2026_11_16`, and the latter is
    // what is replaced. Its folder is the first one's; but other set-ups link further away.
    for ancestor in file.ancestors() {
        if let Ok(target) = std::fs::read_link(ancestor) {
            folders.push(parent(ancestor));
            let target = parent(ancestor).join(target);
            folders.push(if target.is_dir() { target } else { parent(&target) });
        }
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Changes of the watched files.
#[derive(Debug)]
pub(super) struct Changes {
    _watcher: notify::RecommendedWatcher,
    receiver: mpsc::Receiver<()>,
}

impl Changes {
    /// Waits for the end of the next burst of changes.
    pub(super) async fn next(&mut self) {
        if self.receiver.recv().await.is_none() {
            return core::future::pending().await;
        }
        while let Ok(Some(())) = tokio::time::timeout(QUIET, self.receiver.recv()).await {}
    }
}
