//! Loads a configuration from paths, variables and flags.

use core::fmt;
use std::path::{Path, PathBuf};

use super::check::check_section;
use super::environment::{self, Environment, Reference};
use super::envoy::{self, Domains};
use super::files::Files;
use super::format::Format;
use super::native;
use super::report::{Diagnostic, Report, Severity, write_text};
use super::settings::{self, Settings};
use super::sliding;
use super::source::{Origin, Sources};
use super::table::{ROOT, Reader};
use super::yaml::{self, Node};
use crate::spec::{MEMORY, Spec, StoreSpec};

/// The sources of a configuration.
#[derive(Debug, Clone)]
pub struct Request {
    /// Files and directories, of which at most one is not in the format of envoyproxy/ratelimit. If
    /// there is none: in an environment for that service, the directory that it would read,
    /// otherwise a small example.
    pub paths: Vec<PathBuf>,
    /// The format of all files, detected from their keys if `None`.
    pub format: Option<Format>,
    /// The variables.
    pub environment: Environment,
    /// Settings of the command line: `("listen.http", "0.0.0.0:80")`. The last one counts.
    pub flags: Vec<(String, String)>,
    /// Whether files of envoyproxy/ratelimit may use extension keys without the mark.
    pub envoy_extensions: bool,
    /// Whether files with secrets and certificates are read. A check on another machine may not
    /// have them.
    pub secrets: bool,
}

/// A configuration without errors.
#[derive(Clone)]
pub struct Loaded {
    /// Settings of the process.
    pub settings: Settings,
    /// The limits and their stores.
    pub spec: Spec,
    /// Warnings and notes.
    pub warnings: Vec<Diagnostic>,
    /// Every file that was read, including secrets, for the watcher. For a directory, the directory
    /// too.
    pub files: Vec<PathBuf>,
    /// Whether files whose names start with a dot are read from directories.
    pub dotfiles: bool,
    /// All values with their origins, for printing.
    pub(super) tree: Node,
    pub(super) sources: Sources,
}

/// A configuration with errors: nothing of it is used.
#[derive(Debug, Clone)]
pub struct InvalidConfig {
    /// All findings, errors first.
    pub findings: Vec<Diagnostic>,
    /// Every file that was read or could not be read, for the watcher.
    pub files: Vec<PathBuf>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The source texts may contain passwords.
        f.debug_struct("Loaded")
            .field("settings", &self.settings)
            .field("spec", &self.spec)
            .field("warnings", &self.warnings)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl InvalidConfig {
    pub(super) fn new(report: Report, files: Vec<PathBuf>) -> Self {
        Self { findings: report.into_findings(), files }
    }
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        write_text(&mut text, &self.findings, false).map_err(|_| fmt::Error)?;
        f.write_str(String::from_utf8_lossy(&text).trim_end())
    }
}

impl core::error::Error for InvalidConfig {}

/// The configuration without files.
const EXAMPLE: &str = include_str!("example.yaml");
const EXAMPLE_NAME: &str = "(built-in example)";

impl Default for Request {
    fn default() -> Self {
        Self::new(Vec::<PathBuf>::new())
    }
}

impl Request {
    /// Loads only these files: no variables, no flags.
    pub fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            paths: paths.into_iter().map(Into::into).collect(),
            format: None,
            environment: Environment::default(),
            flags: Vec::new(),
            envoy_extensions: false,
            secrets: true,
        }
    }

    /// Returns the directory that envoyproxy/ratelimit would read, if nothing else is loaded and
    /// the environment is meant for that service: one of its variables is set, or its default
    /// directory exists.
    fn reference_directory(&self) -> Option<PathBuf> {
        if !self.paths.is_empty() {
            return None;
        }
        let variable = |name: &str| self.environment.get(name).map(str::to_owned);
        let directory = envoy::reference_directory(&variable);
        let is_marked = !Reference::new(&self.environment).marks().is_empty();
        (is_marked || directory.is_dir()).then_some(directory)
    }

    /// Returns `true` if files whose names start with a dot are read from directories.
    fn reads_dotfiles(&self) -> bool {
        let name = "RUNTIME_IGNOREDOTFILES";
        let is_given = self.environment.get(name).is_some();
        is_given && !Reference::new(&self.environment).is_set(name)
    }
}

/// Reads a configuration.
///
/// # Errors
///
/// Returns all errors at once.
pub fn load(request: &Request) -> Result<Loaded, Box<InvalidConfig>> {
    let mut loading = Loading {
        request,
        report: Report::default(),
        files: Files::new(request.secrets).environment(request.environment.clone()),
        native: None,
        sliding: None,
        domains: Vec::new(),
    };
    loading.read_paths();
    loading.finish()
}

/// A configuration that is being read.
struct Loading<'a> {
    request: &'a Request,
    report: Report,
    files: Files,
    /// The tree of the native format.
    native: Option<Node>,
    /// The tree of a sliding window.
    sliding: Option<Node>,
    domains: Vec<DomainFile>,
}

/// A file of envoyproxy/ratelimit.
struct DomainFile {
    root: Node,
    extensions: bool,
}

impl Loading<'_> {
    fn read_paths(&mut self) {
        let environment = &self.request.environment;
        if !self.request.paths.is_empty() {
            for path in &self.request.paths {
                self.read_path(path);
            }
        } else if let Some(directory) = self.request.reference_directory() {
            if directory.is_dir() {
                return self.read_directory(&directory);
            }
            self.files.remember(&directory);
            let forced = Reference::new(environment).is_set("FORCE_START_WITHOUT_INITIAL_CONFIG");
            let severity = if forced { Severity::Warning } else { Severity::Error };
            let message = format!("{}: no such directory", directory.display());
            self.report.general(severity, "file", message).help(
                "set RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY to the directory of \
                 the limits, or name a file with --config",
            );
        } else {
            self.read_text(Path::new(EXAMPLE_NAME), EXAMPLE, Some(Format::Native));
        }
    }

    fn read_path(&mut self, path: &Path) {
        if path.is_dir() {
            self.read_directory(path);
            return;
        }
        self.read_file(path, self.request.format);
    }

    fn read_file(&mut self, path: &Path, format: Option<Format>) {
        match self.files.config(path) {
            Ok(text) => self.read_text(path, &text, format),
            Err(problem) => self.refuse_file(problem),
        }
    }

    fn read_directory(&mut self, directory: &Path) {
        self.files.remember(directory);
        if let Some(format) = self.request.format.filter(|format| *format != Format::Envoy) {
            let name = directory.display();
            let message = format!("{name}: a directory must contain files of the format envoy");
            let finding = self.report.general(Severity::Error, "format", message);
            finding.help(format!("name a file for the format {}", format.name()));
            return;
        }
        let ignored = self.request.environment.get("RUNTIME_IGNOREDOTFILES");
        let listing = match envoy::list(directory, self.request.reads_dotfiles()) {
            Ok(listing) => listing,
            Err(problem) => return self.refuse_file(problem),
        };
        let (name, hidden) = (directory.display(), listing.hidden);
        if hidden > 0 && ignored.is_none() {
            let message =
                format!("{name}: {hidden} files whose names start with a dot are not read");
            let finding = self.report.general(Severity::Warning, "dotfiles", message);
            finding.help(
                "RUNTIME_IGNOREDOTFILES=false reads them, =true confirms that they are ignored",
            );
        }
        if listing.files.is_empty() {
            let message = format!("{name}: the directory has no files, so nothing is limited");
            self.report.general(Severity::Warning, "empty", message);
        }
        for path in listing.files {
            self.read_file(&path, Some(Format::Envoy));
        }
    }

    fn refuse_file(&mut self, problem: String) {
        let finding = self.report.general(Severity::Error, "file", problem);
        finding.help("check the path and its permissions");
    }

    fn read_text(&mut self, path: &Path, text: &str, format: Option<Format>) {
        let whole = self.report.sources.add(Origin::File(path.to_owned()), text.to_owned());
        let Some(document) = yaml::parse(text, whole, &mut self.report) else { return };
        let root = document.root;
        let Some(format) = format.or_else(|| Format::detect(&root, &mut self.report)) else {
            return;
        };
        if let Some(span) = document.second {
            let message = "a file contains one document: the second is not read";
            let finding = match format {
                Format::Envoy => self.report.warning(span, "documents", message),
                _ => self.report.error(span, "documents", message),
            };
            finding.help("move it to a separate file");
        }
        match format {
            Format::Envoy => {
                let extensions = self.request.envoy_extensions || envoy::has_extensions(text);
                self.domains.push(DomainFile { root, extensions });
            }
            Format::Native | Format::Sliding => {
                if let Some(first) = self.native.as_ref().or(self.sliding.as_ref()) {
                    let message = "two files have settings: only one of them could be used";
                    let finding = self.report.error(whole.at_start(), "two-files", message);
                    finding.related(first.span, "the first is here").help(
                        "put all settings into one file; only files of envoyproxy/ratelimit may \
                         be several",
                    );
                    return;
                }
                let kept =
                    if format == Format::Native { &mut self.native } else { &mut self.sliding };
                *kept = Some(root);
            }
        }
    }

    fn finish(mut self) -> Result<Loaded, Box<InvalidConfig>> {
        let report = &mut self.report;
        let nowhere = report.sources.add(Origin::File(PathBuf::from("(defaults)")), String::new());
        let mut tree = self.native.take().filter(|root| !root.is_null());
        let tree = tree.get_or_insert_with(|| Node::empty(nowhere));
        if let Some(root) = &self.sliding {
            sliding::translate(root, tree, report);
        }

        let environment = &self.request.environment;
        let reference = Reference::new(environment);
        // Names such as PORT have other meanings for other programs: with a native file they are
        // ignored.
        let comes_from_it =
            !self.domains.is_empty() || self.request.reference_directory().is_some();
        let store = if comes_from_it {
            reference.apply(tree, report)
        } else {
            if self.request.paths.is_empty() {
                reference.apply_port(tree, report);
            }
            None
        };
        environment::standard(environment, tree, report);
        environment::variables(environment, tree, report);
        environment::flags(&self.request.flags, tree, report);

        check_section("the file", tree, &ROOT, report);
        let mut reader = Reader { files: &mut self.files, report };
        let settings = settings::settings(tree, &mut reader);
        let mut spec = spec(tree, &mut reader);
        let mut domains = Domains::new(settings.envoy.merge_domains, settings.envoy.failure_mode);
        for node in tree.get("domains").map(Node::items).unwrap_or_default() {
            domains.read(node, MEMORY, true, report);
        }
        for file in &self.domains {
            domains.read(&file.root, store.unwrap_or(MEMORY), file.extensions, report);
        }
        for (domain, span) in domains.finish() {
            if let Some(span) = span {
                native::unknown_store(&domain.store, span, &native::store_names(tree), report);
            }
            spec.domains.push(domain);
        }

        let files = self.files.into_paths();
        if report.has_errors() {
            return Err(Box::new(InvalidConfig::new(self.report, files)));
        }
        let sources = self.report.sources.clone();
        let warnings = self.report.into_findings();
        let (dotfiles, tree) = (self.request.reads_dotfiles(), tree.clone());
        Ok(Loaded { settings, spec, warnings, files, dotfiles, tree, sources })
    }
}

/// Reads the limits of a checked tree, without its domains.
fn spec(tree: &Node, reader: &mut Reader<'_>) -> Spec {
    let mut stores = vec![StoreSpec::Memory(native::memory(tree, reader))];
    stores.extend(native::stores(tree, reader));
    let policies = native::policies(tree, reader);
    let rules = native::rules(tree, &policies, reader);
    Spec { stores, policies, rules, domains: Vec::new() }
}
