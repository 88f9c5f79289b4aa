//! Domains, combined from files.

use std::collections::HashMap;

use super::descriptor::{Level, choice, descriptors};
use super::keys::check_map;
use super::scalar::text;
use crate::config::report::Report;
use crate::config::source::Span;
use crate::config::yaml::Node;
use crate::spec::{DOMAIN, DomainSpec, EnvoyFailureMode};

/// Domains in the order of their files.
pub(in crate::config) struct Domains {
    /// Whether a second file may add to a domain.
    merge: bool,
    /// The default failure mode of domains.
    failure_mode: EnvoyFailureMode,
    list: Vec<Draft>,
    by_name: HashMap<String, usize>,
}

struct Draft {
    spec: DomainSpec,
    span: Span,
    level: Level,
    /// The place of `store`.
    store_span: Option<Span>,
}

impl Domains {
    pub(in crate::config) fn new(merge: bool, failure_mode: EnvoyFailureMode) -> Self {
        Self { merge, failure_mode, list: Vec::new(), by_name: HashMap::new() }
    }

    /// Reads a file, or an item of `domains`.
    pub(in crate::config) fn read(
        &mut self,
        node: &Node,
        store: &str,
        extensions: bool,
        report: &mut Report,
    ) {
        if !node.is_null() && !check_map("the file", node, &DOMAIN, extensions, report) {
            return;
        }
        let Some(name) = text(node, "domain", report) else {
            if node
                .get("domain")
                .is_none_or(|domain| domain.as_scalar().is_some_and(|name| name.text.is_empty()))
            {
                let message = "missing `domain`";
                report
                    .error(node.span, "empty-domain", message)
                    .help("add for example `domain: shop`");
            }
            // All errors at once, including those of its descriptors.
            descriptors(node, &mut Level::default(), extensions, report);
            return;
        };
        let span = node.get("domain").map_or(node.span, |domain| domain.span);
        let Some(at) = self.place(&name, span, report) else {
            descriptors(node, &mut Level::default(), extensions, report);
            return;
        };
        let draft = &mut self.list[at];
        let found = node.get("store").filter(|_| extensions);
        let named = found.and_then(Node::as_scalar).map_or(store, |scalar| &scalar.text);
        named.clone_into(&mut draft.spec.store);
        draft.store_span = found.map(|found| found.span).or(draft.store_span);
        if let Some(mode) = choice("failure_mode", node, &DOMAIN, extensions, report) {
            draft.spec.failure_mode = mode;
        }
        let read = descriptors(node, &mut draft.level, extensions, report);
        draft.spec.descriptors.extend(read);
    }

    /// Returns all domains, each with the place of its `store`.
    pub(in crate::config) fn finish(self) -> Vec<(DomainSpec, Option<Span>)> {
        self.list.into_iter().map(|draft| (draft.spec, draft.store_span)).collect()
    }

    /// Returns the index of a domain, and adds it if necessary. Returns `None` if it must not be
    /// repeated.
    fn place(&mut self, name: &str, span: Span, report: &mut Report) -> Option<usize> {
        if let Some(at) = self.by_name.get(name) {
            if self.merge {
                return Some(*at);
            }
            let message = format!("duplicate domain `{name}`");
            let finding = report.error(span, "duplicate-domain", message);
            let finding = finding.related(self.list[*at].span, "the first is here");
            finding
                .help("put both into one file, or set `envoy.merge_domains` (MERGE_DOMAIN_CONFIG)");
            return None;
        }
        let at = self.list.len();
        let spec = DomainSpec {
            name: name.to_owned(),
            descriptors: Vec::new(),
            store: String::new(),
            failure_mode: self.failure_mode,
        };
        self.list.push(Draft { spec, span, level: Level::default(), store_span: None });
        self.by_name.insert(name.to_owned(), at);
        Some(at)
    }
}
