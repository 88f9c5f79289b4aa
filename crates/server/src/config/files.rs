//! Files and variables that a configuration names: read within bounds, and remembered for the watch.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::environment::Environment;
use super::report::Report;
use super::source::{Origin, Span};
use super::yaml::Node;

/// The maximum size of a configuration file, far above that of any real one.
pub(super) const CONFIG_MAX: usize = 32 << 20;

/// The maximum size of a secret or certificate.
const SECRET_MAX: usize = 64 << 10;

/// The files of a configuration.
#[derive(Debug)]
pub(crate) struct Files {
    /// Whether files with secrets are read.
    pub(super) secrets: bool,
    environment: Environment,
    read: Vec<PathBuf>,
}

impl Files {
    pub(super) fn new(secrets: bool) -> Self {
        Self { secrets, environment: Environment::default(), read: Vec::new() }
    }

    /// Sets the variables that may hold secrets too.
    pub(super) fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The value of a variable that holds a secret.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name)
    }

    /// Returns all files that were read or could not be read, for the watcher.
    pub(super) fn into_paths(self) -> Vec<PathBuf> {
        self.read
    }

    pub(super) fn remember(&mut self, path: &Path) {
        if !self.read.iter().any(|known| known == path) {
            self.read.push(path.to_owned());
        }
    }

    /// Reads a configuration file.
    pub(super) fn config(&mut self, path: &Path) -> Result<String, String> {
        self.remember(path);
        let bytes = read_at_most(path, CONFIG_MAX).map_err(|problem| match problem {
            Problem::TooLarge(message) => {
                format!("{message}: use a separate file for each domain")
            }
            Problem::Unreadable(message) => message,
        })?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            format!("{}: byte {at} is not UTF-8", path.display())
        })
    }

    /// Returns the content of the file that a value names. Returns `None` if it could not be read,
    /// which is reported, or if secrets are not read.
    pub(crate) fn content(&mut self, node: &Node, report: &mut Report) -> Option<Vec<u8>> {
        let path = resolve(node, report)?;
        self.remember(&path);
        if !self.secrets {
            return None;
        }
        match read_at_most(&path, SECRET_MAX) {
            Ok(bytes) => Some(bytes),
            Err(Problem::TooLarge(message) | Problem::Unreadable(message)) => {
                report.error(node.span, "file", message).help("check the path and its permissions");
                None
            }
        }
    }

    /// Records the file that a value names and that is read elsewhere. Reports it if it cannot be
    /// opened.
    pub(super) fn watch(&mut self, node: &Node, report: &mut Report) {
        let Some(path) = resolve(node, report) else { return };
        self.remember(&path);
        if self.secrets
            && let Err(error) = open_file(&path)
        {
            let problem = format!("{}: {}", path.display(), in_words(&error));
            report.error(node.span, "file", problem).help("check the path and its permissions");
        }
    }
}

/// Returns the path in a value. In a file, it is relative to that file.
pub(super) fn resolve(node: &Node, report: &Report) -> Option<PathBuf> {
    let text = &node.as_scalar()?.text;
    Some(folder(node.span, report).join(text))
}

fn folder(span: Span, report: &Report) -> PathBuf {
    match report.sources.get(span).map(|source| &source.origin) {
        Some(Origin::File(path)) => path.parent().map(Path::to_owned).unwrap_or_default(),
        _ => PathBuf::new(),
    }
}

/// The reason why a file was not read, with its name.
enum Problem {
    TooLarge(String),
    Unreadable(String),
}

/// Returns the contents of a file that a configuration names.
///
/// # Errors
///
/// Returns why the file was not read, with its path. Only regular files of at most 32 MiB are read.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_at_most(path, CONFIG_MAX).map_err(|problem| match problem {
        Problem::TooLarge(message) | Problem::Unreadable(message) => message,
    })
}

fn read_at_most(path: &Path, most: usize) -> Result<Vec<u8>, Problem> {
    let name = path.display();
    let unreadable = |error| Problem::Unreadable(format!("{name}: {}", in_words(&error)));
    let mut bytes = Vec::new();
    // One byte more than allowed distinguishes a file that is too large from one that just fits.
    let mut bounded = open_file(path).map_err(unreadable)?.take(most as u64 + 1);
    bounded.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > most {
        return Err(Problem::TooLarge(format!("{name}: larger than {} KiB", most >> 10)));
    }
    Ok(bytes)
}

/// Opens a regular file for reading, also through links. It never waits, as opening a pipe may.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    // Without it, opening a named pipe waits until another process writes to it.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::other("a pipe or a device; use a regular file"));
    }
    Ok(file)
}

/// Describes an error of the operating system.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => format!("cannot be read ({error})"),
    }
}
