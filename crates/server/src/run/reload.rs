//! Reloading the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ServerConfig;
use tracing::warn;

use super::tls::ReloadableTls;
use super::watch::{INTERVAL, QUIET_POLLS, Stamps, Watched};
use crate::access::SharedRules;
use crate::admin::{Access as AdminAccess, ResultCounts, reloads};
use crate::config::{InvalidConfig, Loaded, Settings};
use crate::dashboard::ConfigView;
use crate::engine::Engine;
use crate::spec::LimitNames;

/// The name of all tokens in `allow_removed`. Without tokens, clients on loopback may do everything.
const TOKENS: &str = "access tokens";

/// The maximum number of removed limits that an error lists.
const LISTED: usize = 10;

/// Loads the configuration again.
type LoadConfiguration = dyn Fn() -> Result<Loaded, Box<InvalidConfig>> + Send + Sync;

/// The secrets of the listeners.
pub(super) struct Secrets {
    pub(super) certificates: Vec<ReloadableTls>,
    /// Tokens of the data listeners.
    pub(super) rules: SharedRules,
    /// The token of the admin listener.
    pub(super) admin: Option<AdminAccess>,
}

/// A certificate that was read again, and what uses it.
type NewCertificate<'a> = (&'a ReloadableTls, ServerConfig);

impl Secrets {
    /// Reads the certificates again that `settings` still names. A listener with other TLS settings
    /// keeps its certificate until the restart, because its files may be gone.
    fn read_certificates(&self, settings: &Settings) -> Result<Vec<NewCertificate<'_>>, String> {
        let named = [&settings.tls, &settings.grpc_tls, &settings.admin.tls];
        let is_named =
            |tls: &&ReloadableTls| named.iter().any(|named| named.as_ref() == Some(tls.settings()));
        self.certificates.iter().filter(is_named).map(|tls| Ok((tls, tls.read_again()?))).collect()
    }

    /// Replaces certificates and all tokens. The old tokens are refused from now on, on open connections
    /// too.
    fn replace(&self, certificates: Vec<NewCertificate<'_>>, settings: &Settings) {
        for (tls, config) in certificates {
            tls.replace(config);
        }
        self.rules.store(Arc::new(settings.access.rules()));
        if let Some(admin) = &self.admin {
            admin.set(settings.admin.token.clone());
        }
    }
}

/// Reloads the configuration. An invalid one changes nothing.
pub(super) struct Reloader {
    engine: Arc<Engine>,
    load: Box<LoadConfiguration>,
    /// The configuration that the process was started with.
    started_with: Loaded,
    watched: Mutex<Watched>,
    secrets: Secrets,
    reloads: Arc<ResultCounts>,
    view: Arc<ConfigView>,
    /// One at a time, so that an older configuration never overtakes a newer one.
    turn: Mutex<()>,
}

impl Reloader {
    /// Reloads `engine` and `secrets` with what `load` returns. They were started with `loaded`, whose
    /// files are `watched`.
    pub(super) fn new(
        engine: Arc<Engine>,
        secrets: Secrets,
        loaded: &Loaded,
        watched: Watched,
        load: impl Fn() -> Result<Loaded, Box<InvalidConfig>> + Send + Sync + 'static,
    ) -> Self {
        let (watched, started_with) = (Mutex::new(watched), loaded.clone());
        let (reloads, turn) = (reloads(), Mutex::default());
        let view = Arc::new(ConfigView::new(loaded));
        Self { engine, load: Box::new(load), started_with, watched, secrets, reloads, view, turn }
    }

    /// Reloads once. Returns a message for the operator. Active limits may be removed if
    /// `may_remove` is set, or if the new configuration allows it.
    pub(super) fn reload(&self, may_remove: bool) -> Result<String, String> {
        let _turn = self.turn.lock();
        let done = self.try_reload(may_remove);
        self.reloads.note(&done);
        self.view.reloaded(&done);
        done
    }

    fn try_reload(&self, may_remove: bool) -> Result<String, String> {
        let loaded = self.load_again()?;
        if !may_remove {
            self.refuse_removed(&loaded)?;
        }
        let certificates = self.secrets.read_certificates(&loaded.settings)?;
        self.engine.swap(&loaded.spec).map_err(|error| error.to_string())?;
        self.secrets.replace(certificates, &loaded.settings);
        self.view.activated(&loaded);
        let waiting = loaded.settings_changed_since(&self.started_with);
        if waiting.is_empty() {
            return Ok(format!("active: {}", loaded.spec.counts()));
        }
        let waiting = waiting.join(", ");
        warn!("these settings have changed and take effect after a restart: {waiting}");
        Ok(format!("active: {}; after a restart: {waiting}", loaded.spec.counts()))
    }

    /// Refuses a configuration that lacks active limits, or all tokens of the data listeners: a file that was truncated, is still being
    /// written or is not there yet would lift them.
    fn refuse_removed(&self, loaded: &Loaded) -> Result<(), String> {
        let Settings { allow_empty, allow_removed, .. } = &loaded.settings;
        if *allow_empty {
            return Ok(());
        }
        let before = LimitNames::of(self.engine.plan().spec());
        let after = LimitNames::of(&loaded.spec);
        let mut lost = before.lost_in(&after, allow_removed);
        let had_tokens = !self.secrets.rules.load().tokens.is_empty();
        let is_allowed = allow_removed.iter().any(|name| name == TOKENS);
        if had_tokens && loaded.settings.access.rules().tokens.is_empty() && !is_allowed {
            lost.push(TOKENS);
        }
        if lost.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> =
            lost.iter().take(LISTED).map(|name| format!("{name:?}")).collect();
        let (listed, count) = (listed.join(", "), lost.len());
        let more = count.saturating_sub(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let in_file = if count > LISTED {
            "set `allow_empty: true` in the file".to_owned()
        } else {
            format!("set `allow_removed: [{listed}]` in the file")
        };
        Err(format!(
            "the new configuration lacks active limits, or quotas of them: {listed}{more}. If that \
             is intended, {in_file}, send `POST /-/reload?allow_removed=true` to the admin listener, \
             or restart"
        ))
    }

    /// Loads, and remembers the files as they were before.
    fn load_again(&self) -> Result<Loaded, String> {
        let mut before = self.watched.lock().again();
        let mut loaded = (self.load)();
        if !before.is_of(files(&loaded)) {
            // Files that were not watched may have changed since they were loaded.
            before = before.of(files(&loaded));
            loaded = (self.load)();
        }
        *self.watched.lock() = before.or_new(files(&loaded));
        loaded.map_err(|refused| refused.to_string())
    }

    /// Waits until the files of the configuration have other contents than at the last load and are
    /// left alone for a second.
    pub(super) async fn changed(self: &Arc<Self>) {
        let mut seen: Option<(Stamps, u32)> = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let this = Arc::clone(self);
            let polled = tokio::task::spawn_blocking(move || this.poll(seen)).await;
            match polled {
                Ok(FilePoll::Changed) => return,
                Ok(FilePoll::Wait(then)) => seen = then,
                Err(_) => seen = None,
            }
        }
    }

    /// Reads the stamps of the files once. `seen` has the stamps of the last time, and how often they were the same.
    fn poll(&self, seen: Option<(Stamps, u32)>) -> FilePoll {
        let mut watched = self.watched.lock();
        let Some(stamps) = watched.poll() else { return FilePoll::Wait(None) };
        match seen {
            Some((last, polls)) if last == stamps && polls + 1 >= QUIET_POLLS => {
                if watched.has_new_contents(stamps) {
                    FilePoll::Changed
                } else {
                    FilePoll::Wait(None)
                }
            }
            Some((last, polls)) if last == stamps => FilePoll::Wait(Some((stamps, polls + 1))),
            _ => FilePoll::Wait(Some((stamps, 0))),
        }
    }

    /// Returns the configuration as the dashboard shows it.
    pub(super) fn view(&self) -> &Arc<ConfigView> {
        &self.view
    }

    /// Returns the number of reloads by result.
    pub(super) fn reloads(&self) -> &Arc<ResultCounts> {
        &self.reloads
    }
}

/// Returns the files that were read or could not be read.
fn files(loaded: &Result<Loaded, Box<InvalidConfig>>) -> &[PathBuf] {
    match loaded {
        Ok(loaded) => &loaded.files,
        Err(refused) => &refused.files,
    }
}

/// The result of reading the stamps of the files once.
enum FilePoll {
    /// They have new contents and are left alone.
    Changed,
    /// Read the stamps again later, and compare them with these.
    Wait(Option<(Stamps, u32)>),
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};
    use std::fs;
    use std::path::Path;

    use arc_swap::ArcSwap;

    use super::*;
    use crate::access::AccessRules;
    use crate::config::{Request, load};
    use crate::gates::NoRestore;

    #[test]
    fn a_new_file_that_changes_while_it_is_loaded_is_loaded_again() {
        let directory = std::env::temp_dir().join(format!("slidegate-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |directory: &Path, domain: &str| {
            let text = format!("domain: {domain}\ndescriptors: [{{key: user}}]\n");
            fs::write(directory.join(format!("{}.yaml", &domain[..1])), text).unwrap();
        };
        write(&directory, "a");
        let request = Request::new([&directory]);
        let loaded = load(&request).unwrap();
        let engine = Arc::new(Engine::new(&loaded.spec, &mut NoRestore).unwrap());
        let rules = Arc::new(ArcSwap::from_pointee(AccessRules::default()));
        let secrets = Secrets { certificates: Vec::new(), rules, admin: None };
        let (is_changed, at) = (AtomicBool::new(false), directory.clone());
        let again = move || {
            let loaded = load(&request);
            if !is_changed.swap(true, Ordering::Relaxed) {
                write(&at, "b2");
            }
            loaded
        };
        let watched = Watched::of_loaded(&loaded);
        let reloader = Reloader::new(Arc::clone(&engine), secrets, &loaded, watched, again);
        write(&directory, "b1");
        reloader.reload(false).unwrap();
        let plan = engine.plan();
        let domains: Vec<&str> = plan.spec().domains.iter().map(|it| it.name.as_str()).collect();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(domains, ["a", "b2"]);
    }
}
