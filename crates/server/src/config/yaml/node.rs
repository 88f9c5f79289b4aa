//! A value with its place.

use super::scalar::Scalar;
use crate::config::source::Span;

/// A value with its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// What a value can be.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Map(Vec<Entry>),
    List(Vec<Node>),
    Scalar(Scalar),
}

/// A key with its value. The same key may come twice: what that means is the reader's to say.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Scalar,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn scalar(scalar: Scalar, span: Span) -> Self {
        Self { kind: Kind::Scalar(scalar), span }
    }

    /// A map without keys.
    pub(crate) fn empty(span: Span) -> Self {
        Self { kind: Kind::Map(Vec::new()), span }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(&self.kind, Kind::List(items) if items.is_empty())
    }

    pub(crate) fn as_scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The value of a key; the last one if it comes twice, and none if it is null.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let found = self.entries().iter().rfind(|entry| entry.key.text == key);
        found.map(|entry| &entry.value).filter(|value| !value.is_null())
    }

    /// The value at a path such as `listen.http`.
    pub(crate) fn find(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(Scalar::is_null)
    }

    /// What it is, with an article.
    pub(crate) fn what(&self) -> &'static str {
        match &self.kind {
            Kind::Map(_) => "a map",
            Kind::List(_) => "a list",
            Kind::Scalar(scalar) => scalar.value().what(),
        }
    }

    /// Puts a value at a path, in place of what is there; maps on the way are made.
    pub(crate) fn put(&mut self, path: &str, value: Self) {
        let (key, rest) =
            path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
        if !matches!(self.kind, Kind::Map(_)) {
            self.kind = Kind::Map(Vec::new());
        }
        let Kind::Map(entries) = &mut self.kind else { return };
        let span = value.span;
        let at = entries.iter().rposition(|entry| entry.key.text == key).unwrap_or_else(|| {
            let value = Self::empty(span);
            entries.push(Entry { key: Scalar::given(key), key_span: span, value });
            entries.len() - 1
        });
        match rest {
            Some(rest) => entries[at].value.put(rest, value),
            None => entries[at].value = value,
        }
    }
}
