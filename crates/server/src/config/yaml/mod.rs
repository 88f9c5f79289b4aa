//! YAML with places: a custom tree, so that every finding can point to its line.
//!
//! This is the only module that uses the YAML library. A typed reader would stop at the first
//! error, but all errors of a configuration are reported at once.

mod parse;

pub(super) use parse::parse;

use super::source::Span;

/// A value with its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Shape,
    pub(crate) span: Span,
}

/// The shape of a value.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Map(Vec<MapEntry>),
    List(Vec<Node>),
    Scalar(Scalar),
}

/// A key with its value. A key may be repeated; the reader decides what that means.
#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub(crate) key: Scalar,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn scalar(scalar: Scalar, span: Span) -> Self {
        Self { kind: Shape::Scalar(scalar), span }
    }

    /// Returns a map without keys.
    pub(crate) fn empty(span: Span) -> Self {
        Self { kind: Shape::Map(Vec::new()), span }
    }

    pub(crate) fn entries(&self) -> &[MapEntry] {
        match &self.kind {
            Shape::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Shape::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(&self.kind, Shape::List(items) if items.is_empty())
    }

    pub(crate) fn as_scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            Shape::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Returns the value of a key. Returns the last one if it is repeated, and `None` if it is
    /// null.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let found = self.entries().iter().rfind(|entry| entry.key.text == key);
        found.map(|entry| &entry.value).filter(|value| !value.is_null())
    }

    /// Returns the value at a path such as `listen.http`.
    pub(crate) fn find(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(Scalar::is_null)
    }

    /// Returns a description with an article.
    pub(crate) fn what(&self) -> &'static str {
        match &self.kind {
            Shape::Map(_) => "a map",
            Shape::List(_) => "a list",
            Shape::Scalar(scalar) => scalar.value().what(),
        }
    }

    /// Sets a value at a path, and creates maps on the way.
    pub(crate) fn put(&mut self, path: &str, value: Self) {
        let (key, rest) =
            path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
        if !matches!(self.kind, Shape::Map(_)) {
            self.kind = Shape::Map(Vec::new());
        }
        let Shape::Map(entries) = &mut self.kind else { return };
        let span = value.span;
        let at = entries.iter().rposition(|entry| entry.key.text == key).unwrap_or_else(|| {
            let value = Self::empty(span);
            entries.push(MapEntry { key: Scalar::given(key), key_span: span, value });
            entries.len() - 1
        });
        match rest {
            Some(rest) => entries[at].value.put(rest, value),
            None => entries[at].value = value,
        }
    }
}

/// A scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// The notation of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes: may be a number, a flag or null.
    Plain,
    /// In quotes or as a block: a text.
    Quoted,
    /// From a variable or a flag, which have no types: converted to the expected type.
    Given,
}

/// The value of a scalar in the core schema of YAML 1.2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Null,
    Flag(bool),
    Whole(i128),
    Decimal(f64),
    Text,
}

impl Value {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Flag(_) => "true or false",
            Self::Whole(_) => "a whole number",
            Self::Decimal(_) => "a decimal number",
            Self::Text => "a text",
        }
    }
}

impl Scalar {
    pub(crate) fn given(text: &str) -> Self {
        Self { text: text.to_owned(), style: Style::Given }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.style == Style::Plain
            && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    pub(crate) fn value(&self) -> Value {
        if self.style == Style::Quoted {
            return Value::Text;
        }
        if self.is_null() {
            return Value::Null;
        }
        let text = self.text.as_str();
        match text {
            "true" | "True" | "TRUE" => Value::Flag(true),
            "false" | "False" | "FALSE" => Value::Flag(false),
            _ => whole(text).map(Value::Whole).or_else(|| decimal(text)).unwrap_or(Value::Text),
        }
    }
}

fn whole(text: &str) -> Option<i128> {
    let radix = |digits: &str, radix: u32| {
        let plain = !digits.is_empty() && !digits.starts_with(['+', '-']);
        plain.then(|| i128::from_str_radix(digits, radix).ok()).flatten()
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    text.parse().ok()
}

fn decimal(text: &str) -> Option<Value> {
    let starts = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let letters = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let special = matches!(
        text.trim_start_matches(['+', '-']),
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    );
    if special {
        return Some(Value::Decimal(f64::NAN));
    }
    let number = || text.parse().ok().map(Value::Decimal);
    (starts && digits && letters).then(number).flatten()
}
