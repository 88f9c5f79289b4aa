//! Runs the pages of the guide: each command is run, and its output compared with the one shown.
//!
//! | block | meaning |
//! |---|---|
//! | `yaml file=limits.yaml` | is written to a file in the page's directory |
//! | `yaml check` | is a configuration, or a part of one, without errors |
//! | `sh run` | must succeed |
//! | `console run` | each line behind `$ ` is run, and the lines below it are its output |
//! | `console serve` | starts the daemon with these arguments, until the next such block or the end of the page |
//!
//! A page that calls a daemon without starting one gets the daemon with the example policy. Each directory has an
//! `access.log`.
//!
//! In output, `...` matches any text, and a line of it any lines. Any number of spaces equals one. A
//! command without output below it may print anything. With `UPDATE=1`, the output of `slidegate plan`
//! and `slidegate simulate` is written to the page instead.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{Daemon, Folder};

/// The addresses of the pages, which are those that the daemon listens on by default.
const PORTS: [&str; 4] = ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:6380", "127.0.0.1:9090"];

#[test]
fn commands_of_the_guide_print_what_the_pages_show() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages = Vec::new();
    find_pages(&docs, &mut pages);
    pages.push(docs.join("../README.md"));
    let (mut commands, mut failures) = (0, Vec::new());
    for path in &pages {
        let text = fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(&docs).unwrap_or(path).display().to_string();
        let mut page = Page::new(&name);
        let updated = page.run(&text);
        if std::env::var_os("UPDATE").is_some() && updated != text {
            fs::write(path, updated).unwrap();
        }
        commands += page.commands;
        failures.append(&mut page.failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // A test that finds nothing to run would not fail.
    assert!(commands >= 20, "{commands} commands in {} pages", pages.len());
}

fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
}

/// A page that is being run.
struct Page {
    name: String,
    folder: Folder,
    daemon: Option<Daemon>,
    commands: usize,
    failures: Vec<String>,
}

impl Page {
    fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("guide-{}", name.replace(['/', '.'], "-")));
        let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/tests/simulate/files/access.log");
        fs::copy(log, folder.path("access.log")).unwrap();
        Self { name: name.to_owned(), folder, daemon: None, commands: 0, failures: Vec::new() }
    }

    /// Runs all blocks. Returns the text with the output of commands whose output can be updated.
    fn run(&mut self, text: &str) -> String {
        let mut updated = String::new();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            writeln!(updated, "{line}").unwrap();
            let Some(words) = line.strip_prefix("```").filter(|words| !words.is_empty()) else {
                continue;
            };
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let shown = self.block(number + 1, words, &block);
            writeln!(updated, "{}```", shown.unwrap_or_else(|| joined(&block))).unwrap();
        }
        updated
    }

    /// Runs a block. Returns its text if its output may have changed.
    fn block(&mut self, line: usize, words: &str, block: &[&str]) -> Option<String> {
        let (language, rest) = words.split_once(' ')?;
        if let Some(file) = rest.strip_prefix("file=") {
            self.folder.write(file, &joined(block));
            return None;
        }
        match (language, rest) {
            ("console", "serve") => {
                let command = block.first()?.strip_prefix("$ slidegate serve").unwrap();
                let arguments: Vec<String> =
                    command.split_whitespace().map(|word| self.path(word)).collect();
                self.daemon = None;
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                self.daemon = Some(Daemon::start(&arguments));
                None
            }
            ("yaml", "check") => {
                let part = joined(block);
                let is_whole = part.contains("slidegate: 1") || part.contains("domain: ");
                let head = if is_whole { "" } else { "slidegate: 1\n" };
                self.folder.write("part.yaml", &format!("{head}{part}"));
                self.shell(line, "slidegate config check --no-secrets part.yaml");
                None
            }
            ("sh", "run") => {
                self.shell(line, &joined(block));
                None
            }
            ("console", "run") => Some(self.console(line, block)),
            _ => None,
        }
    }

    /// Returns the path of a file that the page has written, and any other word unchanged.
    fn path(&self, word: &str) -> String {
        let path = self.folder.path(word);
        if path.exists() { path.to_str().unwrap().to_owned() } else { word.to_owned() }
    }

    fn console(&mut self, line: usize, block: &[&str]) -> String {
        let mut text = String::new();
        let mut rest = block;
        while let Some((first, mut behind)) = rest.split_first() {
            let mut command =
                first.strip_prefix("$ ").unwrap_or_else(|| panic!("{first:?}")).to_owned();
            writeln!(text, "{first}").unwrap();
            while command.ends_with('\\') {
                let (next, others) = behind.split_first().unwrap();
                writeln!(text, "{next}").unwrap();
                command = format!("{command}\n{next}");
                behind = others;
            }
            let end = behind.iter().position(|line| line.starts_with("$ ")).unwrap_or(behind.len());
            let (expected, others) = behind.split_at(end);
            let printed = self.shell(line, &command);
            let is_calculated = ["$ slidegate plan ", "$ slidegate simulate "]
                .iter()
                .any(|start| first.starts_with(start));
            if is_calculated && std::env::var_os("UPDATE").is_some() {
                text.push_str(&without_times(&command, &printed));
            } else {
                let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
                let is_shown = expected.is_empty() && !is_calculated || fits(&lines, expected);
                if !is_shown {
                    let (name, expected) = (&self.name, joined(expected));
                    self.failures.push(format!(
                        "{name}:{line}: `{command}` printed\n{printed}\ninstead of\n{expected}"
                    ));
                }
                text.push_str(&joined(expected));
            }
            rest = others;
        }
        text
    }

    /// Runs a command in the page's directory. Returns its output.
    fn shell(&mut self, line: usize, command: &str) -> String {
        self.commands += 1;
        let mut command = command.to_owned();
        let program = Path::new(env!("CARGO_BIN_EXE_slidegate")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        let is_call =
            PORTS.iter().any(|port| command.contains(port)) || command.contains("-p 6380");
        if is_call && self.daemon.is_none() {
            self.daemon = Some(Daemon::start(&[]));
        }
        // What a reader sees on a terminal.
        if !command.contains('|') {
            command = command.replace("redis-cli ", "redis-cli --no-raw ");
        }
        if let Some(daemon) = &self.daemon {
            let addresses = [daemon.http, daemon.grpc, daemon.resp, daemon.announced("admin")];
            for (port, address) in PORTS.iter().zip(addresses) {
                command = command.replace(port, &address.to_string());
            }
            command = command.replace("-p 6380", &format!("-p {}", daemon.resp.port()));
            shell.env("SLIDEGATE_ADDRESS", daemon.http.to_string());
        }
        let directory = self.folder.path("");
        shell.args(["-e", "-c", &command]).current_dir(directory).env("PATH", path);
        let output = shell.stdin(Stdio::null()).output().unwrap();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            self.failures.push(format!("{}:{line}: `{command}` failed: {errors}", self.name));
        }
        String::from_utf8(output.stdout).unwrap()
    }
}

fn joined(lines: &[&str]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// Replaces what differs between runs: the last two columns of `simulate` are bytes and a time.
fn without_times(command: &str, printed: &str) -> String {
    let mut text = String::new();
    let mut is_table = false;
    for line in printed.lines() {
        let is_header = line.starts_with("algorithm") && line.ends_with("  ns");
        is_table = (is_table || is_header) && !line.is_empty() && command.contains("simulate");
        let mut shown = line.to_owned();
        if is_table && !is_header {
            for _ in ["ns", "bytes/key"] {
                let rest = shown.trim_end_matches(|last: char| last.is_ascii_digit()).trim_end();
                shown.truncate(rest.len());
            }
            shown.push_str("  ...");
        }
        writeln!(text, "{}", shown.trim_end()).unwrap();
    }
    text
}

/// Returns `true` if the lines are those expected. `...` matches any text, a line of it any lines.
fn fits(lines: &[&str], expected: &[&str]) -> bool {
    match (expected.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((&"...", rest)), _) => (0..=lines.len()).any(|skipped| fits(&lines[skipped..], rest)),
        (None, Some(_)) | (Some(_), None) => false,
        (Some((pattern, patterns)), Some((line, lines))) => {
            line_fits(line, pattern) && fits(lines, patterns)
        }
    }
}

fn line_fits(line: &str, pattern: &str) -> bool {
    // The width of a column depends on its longest value, which may be a time.
    let [line, pattern] =
        [line, pattern].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut parts = pattern.split("...");
    let Some(mut rest) = parts.next().and_then(|start| line.strip_prefix(start)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn shown_output_is_compared_with_placeholders() {
    assert!(line_fits("a 12 b", "a ... b") && line_fits("a", "a") && line_fits("ab", "a..."));
    assert!(!line_fits("a 12 c", "a ... b") && !line_fits("ab", "a") && !line_fits("b", "a..."));
    assert!(fits(&["a", "b", "c"], &["a", "...", "c"]) && fits(&["a"], &["a", "..."]));
    assert!(!fits(&["a", "b"], &["a"]) && !fits(&["a"], &["a", "b"]));
    let table = "algorithm  allowed  bytes/key  ns\nlog  10  64  45\n\nnext 12\n";
    let shown = "algorithm  allowed  bytes/key  ns\nlog  10  ...\n\nnext 12\n";
    assert_eq!(without_times("slidegate simulate", table), shown);
}
