//! The reference pages of the guide, generated from the program. `UPDATE=1` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use serde_json::Value;
use slidegate_server::cli::Arguments;

use crate::process::{Daemon, Folder, exchange};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a page with its generated text, or writes it.
fn compare(page: &str, text: &str) {
    let path = root().join(page);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let written = fs::read_to_string(path).unwrap();
    assert!(written == text, "{page} is not up to date: run this test with UPDATE=1");
}

/// A cell of a table: in one line, without separators.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    // The command line drops the dot at the end.
    if text.ends_with(|last: char| last.is_alphanumeric() || "`)\"".contains(last)) {
        text + "."
    } else {
        text
    }
}

#[test]
fn the_page_of_the_command_line_is_generated_from_it() {
    let mut text = "# Command line\n\nAfter this page you know every command and argument of `slidegate`. The page is \
        generated from the program. `slidegate man` writes manual pages, `slidegate completions bash` a completion \
        script, and `--help` of a command shows the same text.\n"
        .to_owned();
    let mut command = Arguments::command();
    command.build();
    describe(&command, "slidegate", &mut text);
    compare("docs/reference/cli.md", &text);
}

fn describe(command: &Command, name: &str, text: &mut String) {
    if name != "slidegate" {
        let about = command.get_long_about().or(command.get_about()).unwrap().to_string();
        write!(text, "\n## {name}\n\n{}\n", cell(&about)).unwrap();
    }
    if let Some(examples) = command.get_before_long_help() {
        let examples = examples.to_string();
        let examples = examples.trim().trim_start_matches("Examples:\n").replace("\n  ", "\n");
        let examples = examples.trim();
        write!(text, "\n```text\n{examples}\n```\n").unwrap();
    }
    let is_listed = |argument: &&Arg| !["help", "version"].contains(&argument.get_id().as_str());
    let arguments: Vec<&Arg> = command.get_arguments().filter(is_listed).collect();
    if !arguments.is_empty() {
        text.push_str("\n| argument | meaning | default |\n|---|---|---|\n");
        for argument in arguments {
            let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
            let mut meaning = cell(&help);
            let values = argument.get_possible_values();
            if argument.get_action().takes_values() && !values.is_empty() {
                let names: Vec<String> =
                    values.iter().map(|it| format!("`{}`", it.get_name())).collect();
                write!(meaning, " One of {}.", names.join(", ")).unwrap();
            }
            if let Some(variable) = argument.get_env() {
                write!(meaning, " Variable: `{}`.", variable.display()).unwrap();
            }
            let takes_value = argument.get_action().takes_values();
            let defaults: Vec<String> = argument
                .get_default_values()
                .iter()
                .filter(|_| takes_value)
                .map(|value| format!("`{}`", value.display()))
                .collect();
            writeln!(text, "| `{}` | {meaning} | {} |", spelled(argument), defaults.join(" "))
                .unwrap();
        }
    }
    if name == "slidegate" {
        let codes = command.get_after_long_help().unwrap().to_string();
        write!(text, "\n```text\n{}\n```\n", codes.trim()).unwrap();
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        describe(inner, &format!("{name} {}", inner.get_name()), text);
    }
}

/// The argument as it is typed: `-c, --config PATH`, or `FILE...`.
fn spelled(argument: &Arg) -> String {
    let value = || {
        let names = argument.get_value_names().unwrap_or_default();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        names.join(" ").replace('|', "\\|")
    };
    let Some(long) = argument.get_long() else {
        let name = argument.get_value_names().map_or_else(String::new, |_| value());
        let is_repeated = argument.get_num_args().is_some_and(|count| count.max_values() > 1);
        return format!("{name}{}", if is_repeated { "..." } else { "" });
    };
    let short = argument.get_short().map_or_else(String::new, |short| format!("-{short}, "));
    let value =
        if argument.get_action().takes_values() { format!(" {}", value()) } else { String::new() };
    format!("{short}--{long}{value}")
}

#[test]
fn the_page_of_the_http_api_is_generated_from_its_openapi_document() {
    let daemon = Daemon::start(&[]);
    let stream = TcpStream::connect(daemon.http).unwrap();
    let (status, body) = exchange(stream, "GET", "/openapi.json");
    assert_eq!(status, 200);
    let document: Value = serde_json::from_str(&body).unwrap();
    let mut text = "# HTTP API: paths and replies\n\nAfter this page you know every path of the HTTP API. It is \
        generated from `/openapi.json` of a running daemon, which also\nhas the schemas of bodies and replies. \
        [The HTTP API](../http-api.md) explains how to use them.\n\n| request | purpose | parameters | replies |\n\
        |---|---|---|---|\n"
        .to_owned();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let names = parameters.filter(|it| it["in"] != "header").map(|parameter| {
                let target = parameter["$ref"].as_str().map(|path| path.trim_start_matches('#'));
                let parameter = target.map_or(parameter, |path| document.pointer(path).unwrap());
                format!("`{}`", parameter["name"].as_str().unwrap())
            });
            let names: Vec<String> = names.collect();
            let body =
                if operation["requestBody"].is_null() { vec![] } else { vec!["a body".to_owned()] };
            let takes = [body, names].concat().join(", ");
            let replies: Vec<&str> =
                operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            writeln!(
                text,
                "| `{} {path}` | {} | {takes} | {} |",
                method.to_ascii_uppercase(),
                cell(operation["summary"].as_str().unwrap()),
                replies.join(", ")
            )
            .unwrap();
        }
    }
    compare("docs/reference/http.md", &text);
}

#[test]
fn the_page_of_metrics_is_generated_from_metrics() {
    let folder = Folder::new("reference-metrics");
    let config = "slidegate: 1\nstores: {shared: {redis: \"redis://127.0.0.1:1\"}}\npolicies:\n  \
        - {name: near, quotas: 1/minute, candidate: {quotas: 2/minute}}\n  \
        - {name: far, quotas: 1/minute, store: shared}\nsnapshot: {path: counts}\naudit: {path: audit.log}\n\
        overload: {enabled: true}\n";
    let daemon = Daemon::with_config(&folder.write("slidegate.yaml", config));
    assert!(daemon.check("near", "alice") && daemon.check("far", "alice"));
    let (_, page) = daemon.admin("GET", "/metrics");
    let mut metrics: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, help)) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            metrics.entry(name).or_default().1 = help;
        }
        if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            metrics.entry(name).or_default().0 = kind;
        }
    }
    assert!(metrics.len() > 60, "{}", metrics.len());
    let mut text = "# Metrics: all names\n\nAfter this page you know every metric of the daemon. It is generated \
        from `/metrics` of a daemon with counts in memory and\nin Redis, snapshots, an audit log and the overload \
        guard. [The admin listener](../admin.md#metrics) explains labels and\noutcomes. Metrics of spans need a \
        program with the feature `otlp`.\n\n| metric | type | meaning |\n|---|---|---|\n"
        .to_owned();
    for (name, (kind, help)) in metrics {
        writeln!(text, "| `{name}` | {kind} | {} |", cell(help)).unwrap();
    }
    compare("docs/reference/metrics.md", &text);
}

/// Returns the variants of an enum in a source file, each with its documentation.
fn variants(file: &str, name: &str) -> Vec<(String, String)> {
    let source = fs::read_to_string(root().join(file)).unwrap();
    let (_, body) = source.split_once(&format!("pub enum {name} {{")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let mut variants = Vec::new();
    let mut help = Vec::new();
    for line in body.lines().map(str::trim) {
        match line.strip_prefix("/// ") {
            Some(line) => help.push(line),
            None if line.is_empty() => {}
            None => {
                let meaning = std::mem::take(&mut help).join(" ");
                variants.push((line.trim_end_matches(',').to_owned(), meaning));
            }
        }
    }
    variants
}

#[test]
fn the_page_of_errors_lists_every_kind_and_reason() {
    const BEGIN: &str = "<!-- generated: begin -->\n";
    const END: &str = "<!-- generated: end -->";
    let page = "docs/reference/errors.md";
    let text = fs::read_to_string(root().join(page)).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let mut tables = String::new();
    for (title, file, name) in [
        ("Kinds of `slidegate::Error`", "crates/core/src/error.rs", "ErrorKind"),
        ("Reasons of degraded decisions", "crates/core/src/degraded.rs", "DegradedReason"),
    ] {
        let variants = variants(file, name);
        assert!(variants.len() >= 10, "{variants:?}");
        write!(tables, "\n## {title}\n\n| `{name}` | meaning |\n|---|---|\n").unwrap();
        for (variant, meaning) in variants {
            writeln!(tables, "| `{variant}` | {} |", cell(&meaning)).unwrap();
        }
    }
    compare(page, &format!("{before}{BEGIN}{tables}\n{END}{after}"));
}
