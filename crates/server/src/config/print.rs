//! Prints the current configuration, with the origin of every value.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use super::headers::PartitionSecret;
use super::leaf::{flag, items};
use super::load::Loaded;
use super::report::{Place, Report, mask_address};
use super::settings::Settings;
use super::source::Origin;
use super::table::{Absent, Field, Kind, ROOT, Section};
use super::yaml::{MapEntry, Node, Scalar, Shape, Style, Value, parse};

/// Writes every setting as YAML of the native format, with its origin as a comment. Secrets are
/// shown as `***`.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn print_config(loaded: &Loaded, out: &mut dyn Write) -> Result<(), io::Error> {
    let mut printer = Printer { loaded, out };
    printer.section(&ROOT, &loaded.tree, 0)?;
    printer.domains()
}

/// Writes every setting as one JSON object: path, value and origin of each.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn print_config_json(loaded: &Loaded, out: &mut dyn Write) -> Result<(), io::Error> {
    let settings = super::table::settings().into_iter().map(|(path, field)| {
        let found = loaded.tree.find(&path);
        let (value, origin) = match found {
            Some(node) => (to_json(node, &field.kind), origin_of(node, loaded)),
            None => (absent_json(field), "default".to_owned()),
        };
        json!({"setting": path, "value": value, "origin": origin})
    });
    let parts = ["stores", "policies", "rules"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), to_json(loaded.tree.get(key)?, ROOT.kind(key)))));
    let mut whole: Map<String, Json> = parts.collect();
    whole.insert("settings".to_owned(), settings.collect());
    let domains: Vec<&str> =
        loaded.spec.domains.iter().map(|domain| domain.name.as_str()).collect();
    whole.insert("domains".to_owned(), json!(domains));
    writeln!(out, "{}", Json::Object(whole))
}

/// Returns the origin of every policy: `file slidegate.yaml:3:5`.
pub fn policy_origins(loaded: &Loaded) -> Vec<(String, String)> {
    let Some(Shape::List(items)) = loaded.tree.get("policies").map(|node| &node.kind) else {
        return Vec::new();
    };
    let named = items.iter().filter_map(|item| {
        Some((item.get("name")?.as_scalar()?.text.clone(), origin_of(item, loaded)))
    });
    named.collect()
}

impl Loaded {
    /// Returns the paths of settings that are read only at the start and whose values differ from those
    /// of another configuration. A file with a secret differs if its contents do.
    pub fn settings_changed_since(&self, other: &Self) -> Vec<String> {
        let needs_restart = |path: &str| match path {
            "allow_empty"
            | "allow_removed"
            | "access.anonymous"
            | "admin.token_file"
            | "envoy.failure_mode"
            | "envoy.merge_domains" => false,
            // A reload applies the rest of `memory`.
            path => !path.starts_with("memory.") || path == "memory.sweep_interval",
        };
        let value = |loaded: &Self, path: &str, field: &Field| match loaded.tree.find(path) {
            Some(node) => to_json(node, &field.kind),
            None => absent_json(field),
        };
        let differs = |path: &str, field: &Field| {
            value(self, path, field) != value(other, path, field)
                || secret(&self.settings, path) != secret(&other.settings, path)
        };
        let settings = super::table::settings().into_iter();
        let changed = settings.filter(|(path, field)| needs_restart(path) && differs(path, field));
        changed.map(|(path, _)| path).collect()
    }
}

/// Returns the contents of a secret that is read only at the start.
fn secret<'a>(settings: &'a Settings, path: &str) -> Option<&'a [u8]> {
    match path {
        "audit.key_secret_file" => settings.audit.as_ref()?.key_secret.as_deref(),
        "headers.partition_secret_file" => {
            settings.headers.partition_secret.as_ref().map(PartitionSecret::bytes)
        }
        _ => None,
    }
}

struct Printer<'a> {
    loaded: &'a Loaded,
    out: &'a mut dyn Write,
}

impl Printer<'_> {
    fn section(&mut self, section: &Section, node: &Node, depth: usize) -> Result<(), io::Error> {
        for field in section.fields() {
            let found = node.get(field.name);
            match (&field.kind, found) {
                // Domains are printed as combined from all files.
                (_, _) if depth == 0 && field.name == "domains" => {}
                (Kind::Section(section), found) if depth == 0 => {
                    self.group(field, section, found)?;
                }
                (_, Some(found)) => self.value(field, found, depth)?,
                (_, None) => self.absent(field, depth)?,
            }
        }
        Ok(())
    }

    /// Writes a section of settings: all its keys if it is present or has a meaning when absent.
    fn group(
        &mut self,
        field: &Field,
        section: &Section,
        found: Option<&Node>,
    ) -> Result<(), io::Error> {
        if found.is_none() && section.fields().any(Field::is_required) {
            return writeln!(self.out, "# {}: {}", field.name, absent_in_words(field));
        }
        let empty = Node::empty(self.loaded.tree.span);
        writeln!(self.out, "{}:", field.name)?;
        self.section(section, found.unwrap_or(&empty), 1)
    }

    fn value(&mut self, field: &Field, node: &Node, depth: usize) -> Result<(), io::Error> {
        let indent = "  ".repeat(depth);
        let origin = origin_of(node, self.loaded);
        match &node.kind {
            Shape::List(items) if items.iter().any(|item| item.as_scalar().is_none()) => {
                writeln!(self.out, "{indent}{}:", field.name)?;
                for item in items {
                    let origin = origin_of(item, self.loaded);
                    let item = to_json(item, field.kind.item());
                    writeln!(self.out, "{indent}  - {item}  # {origin}")?;
                }
                Ok(())
            }
            Shape::Map(entries) => {
                writeln!(self.out, "{indent}{}:", field.name)?;
                for entry in entries {
                    let origin = origin_of(&entry.value, self.loaded);
                    let value = to_json(&entry.value, field.kind.member(&entry.key.text));
                    writeln!(self.out, "{indent}  {}: {value}  # {origin}", plain(&entry.key))?;
                }
                Ok(())
            }
            _ => {
                let value = match node.as_scalar() {
                    Some(scalar) if !field.kind.is_list_or_secret() => plain(scalar),
                    _ => to_json(node, &field.kind).to_string(),
                };
                writeln!(self.out, "{indent}{}: {value}  # {origin}", field.name)
            }
        }
    }

    fn absent(&mut self, field: &Field, depth: usize) -> Result<(), io::Error> {
        let indent = "  ".repeat(depth);
        match field.absent {
            Absent::Default(value) => {
                writeln!(self.out, "{indent}{}: {value}  # default", field.name)
            }
            _ => writeln!(self.out, "{indent}# {}: {}", field.name, absent_in_words(field)),
        }
    }

    fn domains(&mut self) -> Result<(), io::Error> {
        let domains = &self.loaded.spec.domains;
        if domains.is_empty() {
            return writeln!(self.out, "domains: []  # default");
        }
        writeln!(self.out, "domains:")?;
        for domain in domains {
            writeln!(self.out, "  - {}", super::domain_json::domain(domain))?;
        }
        Ok(())
    }
}

fn absent_in_words(field: &Field) -> &'static str {
    match field.absent {
        Absent::Means(what) => what,
        Absent::Default(value) => value,
        Absent::Refused => "absent",
    }
}

/// Returns the origin of a value: `file slidegate.yaml:3:9`, `environment PORT`, `flag log.level`.
fn origin_of(node: &Node, loaded: &Loaded) -> String {
    let Some(place) = Place::new(&loaded.sources, node.span) else { return "default".to_owned() };
    match place.origin {
        Origin::File(path) => format!("file {}:{}:{}", path.display(), place.line, place.column),
        Origin::Environment(name) => format!("environment {name}"),
        Origin::Flag(name) => format!("flag {name}"),
    }
}

/// Formats a scalar as YAML, without quotes if possible.
fn plain(scalar: &Scalar) -> String {
    let shown = mask_address(&scalar.text);
    let safe = |letter: char| letter.is_ascii_alphanumeric() || "._/-".contains(letter);
    let bare =
        shown.chars().all(safe) && shown.starts_with(|first: char| first.is_ascii_alphanumeric());
    let typed = scalar.style != Style::Quoted
        || matches!(Scalar { text: shown.clone(), style: Style::Plain }.value(), Value::Text);
    let address = shown.parse::<core::net::SocketAddr>().is_ok() && !shown.starts_with('[');
    if (bare && typed) || address { shown } else { json!(shown).to_string() }
}

fn absent_json(field: &Field) -> Json {
    match field.absent {
        Absent::Default(value) => yaml_to_json(value),
        _ => Json::Null,
    }
}

/// Formats a value as JSON, which is valid YAML. Secrets are masked.
fn to_json(node: &Node, kind: &Kind) -> Json {
    match &node.kind {
        Shape::Scalar(scalar) => match kind {
            Kind::List(of, _) if scalar.style == Style::Given => {
                items(&scalar.text).map(|item| scalar_json(&Scalar::given(item), of)).collect()
            }
            kind => scalar_json(scalar, kind),
        },
        Shape::List(items) => items.iter().map(|item| to_json(item, kind.item())).collect(),
        Shape::Map(entries) => {
            let member = |MapEntry { key, value, .. }: &MapEntry| {
                (key.text.clone(), to_json(value, kind.member(&key.text)))
            };
            Json::Object(entries.iter().map(member).collect())
        }
    }
}

fn scalar_json(scalar: &Scalar, kind: &Kind) -> Json {
    match (kind, scalar.value()) {
        (Kind::Leaf(leaf), _) if leaf.secret => json!("***"),
        (Kind::Flag, _) => flag(scalar).map_or_else(|| json!(scalar.text), Json::from),
        (_, Value::Null) => Json::Null,
        (_, Value::Flag(flag)) => json!(flag),
        (_, Value::Whole(number)) => {
            i64::try_from(number).map_or_else(|_| json!(scalar.text), Json::from)
        }
        (_, Value::Decimal(number)) => json!(number),
        (_, Value::Text) => json!(mask_address(&scalar.text)),
    }
}

/// Converts YAML to JSON, without passwords in addresses. Returns null if it is not YAML.
pub fn yaml_to_json(text: &str) -> Json {
    let mut report = Report::default();
    let whole = report.sources.add(Origin::Flag(String::new()), text.to_owned());
    let document = parse(text, whole, &mut report);
    document.map_or(Json::Null, |document| to_json(&document.root, &Kind::Any))
}
