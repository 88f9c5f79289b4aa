//! Parses text to a tree, within bounds.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span as Mark, Tag};

use super::{MapEntry, Node, Scalar, Shape, Style};
use crate::config::report::Report;
use crate::config::secrets::is_secret;
use crate::config::source::Span;

/// The maximum nesting. A descriptor tree takes two levels for each of its own, at most 128.
const DEPTH_MAX: usize = 300;

/// The maximum number of values in one file: about as many as fit into the largest file.
const NODES_MAX: usize = 2_000_000;

/// The maximum number of values that aliases repeat: nested aliases can turn a small file into a
/// huge tree.
const REPEATED_MAX: usize = 200_000;

/// The content of a file.
pub(in crate::config) struct Document {
    /// Null for a file without a value.
    pub(in crate::config) root: Node,
    /// The start of a second document, which is not read.
    pub(in crate::config) second: Option<Span>,
}

/// Parses the first document of a text that `whole` spans. Returns `None` if it is invalid, which
/// is reported.
pub(in crate::config) fn parse(text: &str, whole: Span, report: &mut Report) -> Option<Document> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = DEPTH_MAX;
    options.block_nesting_limit = DEPTH_MAX;
    let mut tree = Tree {
        whole,
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        repeated: 0,
        root: None,
        read_to: whole.start,
    };
    match tree.read(Parser::new_from_str_with_options(text, options)) {
        Ok(document) => {
            report.sources.hide_in(&document.root, "");
            if let Some(second) = document.second {
                report.sources.hide_rest(second, false);
            }
            Some(document)
        }
        Err(Fault { span, message }) => {
            tree.hide_secrets(report);
            report.error(span, "yaml", message);
            None
        }
    }
}

/// The reason why a text is not a tree.
struct Fault {
    span: Span,
    message: String,
}

/// A tree under construction.
struct Tree {
    whole: Span,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    repeated: usize,
    root: Option<Node>,
    /// The end of what has been read.
    read_to: u32,
}

/// An incomplete map or list.
struct Open {
    kind: Shape,
    span: Span,
    anchor: usize,
    /// In a map: the key whose value comes next.
    key: Option<(Scalar, Span)>,
}

impl Tree {
    fn read<'a>(
        &mut self,
        parser: impl Iterator<Item = Result<(Event<'a>, Mark), ScanError>>,
    ) -> Result<Document, Fault> {
        let mut second = None;
        for event in parser {
            let (event, mark) = event.map_err(|error| self.scan_fault(&error))?;
            let span = self.span(&mark);
            if matches!(event, Event::DocumentStart(..)) && self.root.is_some() {
                second = Some(span);
                break;
            }
            self.take(event, span)?;
            self.read_to = span.end;
        }
        let nothing = Scalar { text: String::new(), style: Style::Plain };
        let root = self.root.take();
        let root = root.unwrap_or_else(|| Node::scalar(nothing, self.whole.at_start()));
        Ok(Document { root, second })
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let style = style_of(style, tag.as_deref(), span)?;
                let node = Node::scalar(Scalar { text: text.into_owned(), style }, span);
                self.close(node, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(Shape::List(Vec::new()), span, anchor, tag.as_deref())
            }
            Event::MappingStart(_, anchor, tag) => {
                self.begin(Shape::Map(Vec::new()), span, anchor, tag.as_deref())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { kind, span: start, anchor, .. }) => {
                    let span = Span { end: span.end.max(start.end), ..start };
                    self.close(Node { kind: merged(kind, span)?, span }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let message =
                    "an alias refers to an anchor that contains it: write the value instead";
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| Fault { span, message: message.to_owned() })?;
                self.repeat(nodes(&node), span)?;
                if self.open.len() + depth(&node) > DEPTH_MAX {
                    return Err(too_deep(span));
                }
                self.place(Node { span, ..node })
            }
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        kind: Shape,
        span: Span,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Fault> {
        check_tag(tag, span)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(span));
        }
        self.open.push(Open { kind, span, anchor, key: None });
        Ok(())
    }

    fn close(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let message =
                format!("more than {NODES_MAX} values: use a separate file for each domain");
            return Err(Fault { span: node.span, message });
        }
        if anchor > 0 {
            // Copies are counted too: the size of nested anchors would be quadratic.
            self.repeat(nodes(&node), node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    fn place(&mut self, node: Node) -> Result<(), Fault> {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut parent.kind, parent.key.take()) {
            (Shape::List(items), _) => items.push(node),
            (Shape::Map(entries), Some((key, key_span))) => {
                entries.push(MapEntry { key, key_span, value: node });
            }
            (Shape::Map(_), None) => match node.kind {
                Shape::Scalar(key) => parent.key = Some((key, node.span)),
                _ => {
                    let message = "a key must be a text, not a map or a list".to_owned();
                    return Err(Fault { span: node.span, message });
                }
            },
            (Shape::Scalar(_), _) => {}
        }
        Ok(())
    }

    /// Hides the secrets of an incomplete tree, and what may be secret in the rest of the text.
    fn hide_secrets(self, report: &mut Report) {
        let mut name = String::new();
        for Open { kind, span, key, .. } in self.open {
            report.sources.hide_in(&Node { kind, span }, &name);
            name = key.map_or(name, |(key, _)| key.text);
        }
        if let Some(root) = &self.root {
            report.sources.hide_in(root, "");
        }
        let rest = Span { start: self.read_to, ..self.whole };
        report.sources.hide_rest(rest, is_secret(&name));
    }

    fn repeat(&mut self, nodes: usize, span: Span) -> Result<(), Fault> {
        self.repeated += nodes;
        if self.repeated <= REPEATED_MAX {
            return Ok(());
        }
        let message =
            format!("aliases repeat more than {REPEATED_MAX} values: write the values instead");
        Err(Fault { span, message })
    }

    fn span(&self, mark: &Mark) -> Span {
        let place = |offset: Option<usize>| {
            offset.and_then(|at| u32::try_from(at).ok()).map_or(self.whole.end, |at| at)
        };
        let start = place(mark.start.byte_offset()).min(self.whole.end);
        let end = place(mark.end.byte_offset()).clamp(start, self.whole.end);
        Span { start, end, ..self.whole }
    }

    fn scan_fault(&self, error: &ScanError) -> Fault {
        let span = self.span(&Mark::new(*error.marker(), *error.marker()));
        Fault { span, message: format!("invalid YAML: {}", error.kind()) }
    }
}

fn too_deep(span: Span) -> Fault {
    Fault { span, message: format!("nested deeper than {DEPTH_MAX} levels: use fewer levels") }
}

/// A map with the keys that its `<<` merge into it. Its own keys take precedence.
fn merged(kind: Shape, span: Span) -> Result<Shape, Fault> {
    let Shape::Map(entries) = kind else { return Ok(kind) };
    let is_merge = |entry: &MapEntry| entry.key.text == "<<" && entry.key.style == Style::Plain;
    if !entries.iter().any(is_merge) {
        return Ok(Shape::Map(entries));
    }
    let (merges, mut own): (Vec<MapEntry>, Vec<MapEntry>) = entries.into_iter().partition(is_merge);
    let mut known: HashSet<String> = own.iter().map(|entry| entry.key.text.clone()).collect();
    for merge in merges {
        let maps = match merge.value.kind {
            Shape::List(maps) => maps,
            _ => vec![merge.value],
        };
        for map in maps {
            let Shape::Map(brought) = map.kind else {
                let message = "`<<` needs a map or a list of maps".to_owned();
                return Err(Fault { span, message });
            };
            for entry in brought {
                if known.insert(entry.key.text.clone()) {
                    own.push(entry);
                }
            }
        }
    }
    Ok(Shape::Map(own))
}

fn style_of(style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Result<Style, Fault> {
    check_tag(tag, span)?;
    let text = tag.and_then(Tag::core_suffix) == Some("str");
    Ok(if style == ScalarStyle::Plain && !text { Style::Plain } else { Style::Quoted })
}

fn check_tag(tag: Option<&Tag>, span: Span) -> Result<(), Fault> {
    match tag {
        Some(tag) if tag.core_suffix().is_none() => {
            let message = format!("the tag {:?} is not supported: remove it", tag.original());
            Err(Fault { span, message })
        }
        _ => Ok(()),
    }
}

/// Returns the number of values in a tree, including itself. The depth is bounded.
fn nodes(node: &Node) -> usize {
    let items: usize = node.items().iter().map(nodes).sum();
    let values: usize = node.entries().iter().map(|entry| nodes(&entry.value)).sum();
    1 + items + values
}

fn depth(node: &Node) -> usize {
    let items = node.items().iter().map(depth);
    let values = node.entries().iter().map(|entry| depth(&entry.value));
    items.chain(values).max().map_or(0, |depth| depth + 1)
}
