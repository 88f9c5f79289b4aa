//! Checks a tree against the table of keys, and reports all errors.

use std::collections::HashMap;

use slidegate::parse_duration;

use super::leaf;
use super::report::Report;
use super::source::Span;
use super::table::{Kind, Section};
use super::yaml::{Node, Scalar, Shape, Style};
use crate::spec::DOMAIN;

const TIME_HELP: &str = "use a number with a unit, such as 500ms, 10s, 5m, 1h30m or 7d";

/// Checks the value of `key`.
pub(super) fn check(key: &str, node: &Node, kind: &Kind, report: &mut Report) {
    // A key without a value counts as absent.
    if node.is_null() {
        return;
    }
    match kind {
        Kind::Any => {}
        Kind::List(of, most) => check_list(key, node, of, *most, report),
        Kind::Named(name, of, most) => {
            if !expect_map(key, node, report) || too_many(key, node, *most, report) {
                return;
            }
            for entry in twice(node, report) {
                if let Err(help) = (name.check)(&entry.key.text) {
                    let message = format!("invalid name `{}` in `{key}`", entry.key.text);
                    report.error(entry.key_span, "value", message).help(help);
                }
                check(&entry.key.text, &entry.value, of, report);
            }
        }
        // Descriptor trees have separate rules and a separate reader.
        Kind::Section(section) if core::ptr::eq(*section, &raw const DOMAIN) => {}
        Kind::Section(section) => check_section(key, node, section, report),
        Kind::One(section) => check_one(key, node, section, report),
        Kind::Either(kinds) => {
            let fits = kinds.iter().find(|kind| has_shape(kind, node));
            match fits {
                Some(kind) => check(key, node, kind, report),
                None => wrong_type(key, node, kind, report),
            }
        }
        _ => match node.as_scalar() {
            Some(scalar) => check_scalar(key, scalar, node.span, kind, report),
            None => wrong_type(key, node, kind, report),
        },
    }
}

/// Checks the keys of a map, and their values.
pub(super) fn check_section(key: &str, node: &Node, section: &Section, report: &mut Report) {
    if !expect_map(key, node, report) {
        return;
    }
    for entry in twice(node, report) {
        match section.field(&entry.key.text) {
            Some(field) => check(field.name, &entry.value, &field.kind, report),
            None => {
                let message = format!("`{}` is not a key of {}", entry.key.text, section.what);
                let finding = report.error(entry.key_span, "unknown-key", message);
                finding.choices(&entry.key.text, section.names());
            }
        }
    }
    for field in section.fields().filter(|field| field.is_required()) {
        if node.get(field.name).is_none() {
            let message = format!("{} lacks `{}`", section.what, field.name);
            let help = format!("add for example `{}: {}`", field.name, field.example);
            report.error(node.span, "missing-key", message).help(help);
        }
    }
}

/// Checks a map that must have exactly one of the keys.
fn check_one(key: &str, node: &Node, section: &Section, report: &mut Report) {
    check_section(key, node, section, report);
    let given = section.names().filter(|name| node.get(name).is_some()).count();
    let names: Vec<&str> = section.names().collect();
    if given != 1 && node.entries().iter().all(|entry| names.contains(&entry.key.text.as_str())) {
        let message =
            format!("{} must have exactly one of its keys, but has {given}", section.what);
        report.error(node.span, "one-of", message).choices("", names);
    }
}

fn check_list(key: &str, node: &Node, of: &Kind, most: usize, report: &mut Report) {
    // A variable has no lists: its items are separated by commas.
    if let Some(scalar) = node.as_scalar().filter(|scalar| scalar.style == Style::Given) {
        for item in leaf::items(&scalar.text) {
            check_scalar(key, &Scalar::given(item), node.span, of, report);
        }
        return;
    }
    let Shape::List(items) = &node.kind else {
        let message = format!("`{key}` must be a list, but is {}", node.what());
        report.error(node.span, "type", message).help("write `- ` before each item, or [a, b]");
        return;
    };
    if too_many(key, node, most, report) {
        return;
    }
    for item in items {
        if item.is_null() {
            report.error(item.span, "type", format!("`{key}` has an item without a value"));
        }
        check(key, item, of, report);
    }
}

fn check_scalar(key: &str, scalar: &Scalar, span: Span, kind: &Kind, report: &mut Report) {
    let text = &scalar.text;
    let usable = || format!("use {}", kind.what());
    let outcome = match kind {
        Kind::Flag => leaf::flag(scalar).map(|_| ()).ok_or(("type", usable())),
        Kind::Whole(least, most) => match leaf::whole(scalar) {
            None => Err(("type", usable())),
            Some(number) if (i128::from(*least)..=i128::from(*most)).contains(&number) => Ok(()),
            Some(_) => Err(("range", usable())),
        },
        Kind::Decimal(least, most) => match leaf::decimal(scalar) {
            None => Err(("type", usable())),
            Some(number) if (*least..=*most).contains(&number) => Ok(()),
            Some(_) => Err(("range", usable())),
        },
        Kind::Time(least, most) => match parse_duration(text) {
            Err(_) => Err(("type", TIME_HELP.to_owned())),
            Ok(time) if (*least..=*most).contains(&time) => Ok(()),
            Ok(_) => Err(("range", usable())),
        },
        Kind::Choice(words) => {
            if !words.contains(&text.as_str()) {
                let message = format!("invalid value `{}` for `{key}`", shown(text));
                report.error(span, "value", message).choices(text, words.iter().copied());
            }
            return;
        }
        Kind::Leaf(leaf) if leaf.secret => return,
        Kind::Leaf(_) if text.len() > leaf::TEXT_MAX => {
            Err(("range", format!("use at most {} bytes", leaf::TEXT_MAX)))
        }
        Kind::Leaf(leaf) => (leaf.check)(text).map_err(|help| ("value", help)),
        _ => Err(("type", usable())),
    };
    if let Err((code, help)) = outcome {
        let message = match code {
            "range" => format!("`{key}` {} is out of range", shown(text)),
            _ => format!("invalid value `{}` for `{key}`", shown(text)),
        };
        report.error(span, code, message).help(help);
    }
}

/// Reports duplicate keys, and returns the entries.
fn twice<'a>(node: &'a Node, report: &mut Report) -> &'a [super::yaml::MapEntry] {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for entry in node.entries() {
        if let Some(first) = seen.insert(&entry.key.text, entry.key_span) {
            let message = format!("duplicate key `{}`", entry.key.text);
            let finding = report.error(entry.key_span, "duplicate-key", message);
            finding.related(first, "first defined here").help("keep one of them");
        }
    }
    node.entries()
}

fn expect_map(key: &str, node: &Node, report: &mut Report) -> bool {
    let is_map = matches!(node.kind, Shape::Map(_));
    if !is_map {
        let message = format!("`{key}` must be a map, but is {}", node.what());
        report.error(node.span, "type", message).help("write `key: value` lines below it");
    }
    is_map
}

fn too_many(key: &str, node: &Node, most: usize, report: &mut Report) -> bool {
    let count = node.items().len() + node.entries().len();
    if count > most {
        let message = format!("`{key}` has {count} items, but the maximum is {most}");
        report.error(node.span, "range", message).help(format!("use at most {most}"));
    }
    count > most
}

fn wrong_type(key: &str, node: &Node, kind: &Kind, report: &mut Report) {
    let message = format!("`{key}` is {}", node.what());
    report.error(node.span, "type", message).help(format!("use {}", kind.what()));
}

fn has_shape(kind: &Kind, node: &Node) -> bool {
    match (kind, &node.kind) {
        (Kind::Any, _)
        | (Kind::List(..), Shape::List(_))
        | (Kind::Named(..) | Kind::Section(_) | Kind::One(_), Shape::Map(_)) => true,
        (kind, Shape::Scalar(_)) => kind.is_scalar(),
        _ => false,
    }
}

/// Shortens a value for a message.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut shown: String =
        text.chars().filter(|letter| !letter.is_control()).take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
