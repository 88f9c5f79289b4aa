//! Another configuration while the daemon runs.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::tls::Tls;
use crate::admin::Reloads;
use crate::config::Loaded;
use crate::engine::Engine;

/// Reads the configuration anew and puts it in force. A bad one changes nothing.
pub struct Reloader {
    engine: Arc<Engine>,
    load: Box<dyn Fn() -> Result<Loaded, String> + Send + Sync>,
    certificates: Vec<Tls>,
    reloads: Arc<Reloads>,
    /// One at a time, so that an older configuration never overtakes a newer one.
    turn: Mutex<()>,
}

impl core::fmt::Debug for Reloader {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Reloader").field("reloads", &self.reloads).finish_non_exhaustive()
    }
}

impl Reloader {
    /// Reloads `engine` with what `load` reads, and the certificates with it.
    pub fn new(
        engine: Arc<Engine>,
        certificates: Vec<Tls>,
        load: impl Fn() -> Result<Loaded, String> + Send + Sync + 'static,
    ) -> Self {
        let (reloads, turn) = (Arc::default(), Mutex::default());
        Self { engine, load: Box::new(load), certificates, reloads, turn }
    }

    /// Reads and puts in force; says what it did.
    ///
    /// # Errors
    ///
    /// When the configuration is bad; the old one stays in force.
    pub fn reload(&self) -> Result<String, String> {
        let _turn = self.turn.lock();
        let done = self.try_reload();
        self.reloads.note(done.is_ok());
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

    /// How often it went well, and how often not.
    pub fn reloads(&self) -> &Arc<Reloads> {
        &self.reloads
    }
}

/// Changes come in bursts: a reload waits until there was none for so long.
const QUIET: Duration = Duration::from_millis(200);

/// Tells when one of `files` may have changed, once for each burst of changes. It watches their
/// folders, as editors and Kubernetes replace files and links instead of writing into them.
///
/// # Errors
///
/// When the system has no way to watch.
pub fn watch(files: &[PathBuf]) -> Result<Changes, String> {
    let (sender, receiver) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let matters = event.map_or(true, |event| !event.kind.is_access());
        if matters {
            // When one is waiting, another would say nothing new.
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

/// The folder of a path, and of what it links to on the way.
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

/// Changes of files.
#[derive(Debug)]
pub struct Changes {
    _watcher: notify::RecommendedWatcher,
    receiver: mpsc::Receiver<()>,
}

impl Changes {
    /// The end of the next burst of changes.
    pub async fn next(&mut self) {
        if self.receiver.recv().await.is_none() {
            return core::future::pending().await;
        }
        while let Ok(Some(())) = tokio::time::timeout(QUIET, self.receiver.recv()).await {}
    }
}
