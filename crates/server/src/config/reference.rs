//! The reference of the native format in `docs/configuration.md`, generated from the table.

use core::fmt::Write;

use super::table::{Absent, Kind, ROOT, Section, settings, variable};

/// Returns every key of the native format as Markdown: its type, its default, an example.
pub fn reference() -> String {
    let mut text = String::new();
    let mut open: Vec<(String, &'static Section)> = vec![("The file".to_owned(), &ROOT)];
    let mut seen: Vec<*const Section> = Vec::new();
    while !open.is_empty() {
        let (title, section) = open.remove(0);
        if seen.iter().any(|known| core::ptr::eq(*known, section)) {
            continue;
        }
        seen.push(core::ptr::from_ref(section));
        table(&mut text, &title, section);
        for field in section.fields() {
            let path = path_of(&title, field.name);
            inside(&field.kind, &path, &mut open);
        }
    }
    text.push_str("### Variables\n\nEach variable sets the setting of its name. Lists are separated by commas.\n\n");
    for (path, _) in settings() {
        // Writing to a string never fails.
        let _ = writeln!(text, "- `{}`: `{path}`", variable(&path));
    }
    text
}

fn table(text: &mut String, title: &str, section: &Section) {
    let heading = if title == "The file" { title.to_owned() } else { format!("`{title}`") };
    let _ = writeln!(text, "### {heading}\n");
    text.push_str("| key | meaning | type | default | example |\n|---|---|---|---|---|\n");
    for field in section.fields() {
        let absent = match field.absent {
            Absent::Refused => "**required**".to_owned(),
            Absent::Default(value) => format!("`{value}`"),
            Absent::Means(what) => what.to_owned(),
        };
        let (name, example) = (field.name, field.example);
        let (about, takes) = (cell(field.about), cell(&takes(&field.kind)));
        let _ = writeln!(text, "| `{name}` | {about} | {takes} | {absent} | `{example}` |");
    }
    text.push('\n');
}

/// Describes the type of a key. Sections have separate tables.
fn takes(kind: &Kind) -> String {
    match kind {
        Kind::Section(_) => "a map, see below".to_owned(),
        Kind::Named(..) => "a map of names, see below".to_owned(),
        Kind::List(Kind::Section(_), _) => "a list of maps, see below".to_owned(),
        other => other.what(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn path_of(title: &str, name: &str) -> String {
    if title == "The file" { name.to_owned() } else { format!("{title}.{name}") }
}

/// Returns the sections inside a kind, with their names.
fn inside(kind: &'static Kind, path: &str, open: &mut Vec<(String, &'static Section)>) {
    match kind {
        Kind::Section(section) | Kind::One(section) => open.push((path.to_owned(), section)),
        Kind::List(of, _) => inside(of, &format!("{path}[]"), open),
        Kind::Named(_, of, _) => inside(of, &format!("{path}.NAME"), open),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| inside(kind, path, open)),
        _ => {}
    }
}
