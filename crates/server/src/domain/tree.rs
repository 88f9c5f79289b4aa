//! The descriptor tree of a domain, compiled for matching.
//!
//! Every entry of a request selects one node: the first entry at the root, each further entry below the
//! node that the previous one selected. At its level, an entry selects
//!
//! 1. the node with its key and value,
//! 2. otherwise the first node, in the order of the file, with a `*` that matches,
//! 3. otherwise the node with its key and without a value.
//!
//! Nodes are compared by name, which is `key_value`, or `key` for a node without a value.

use std::collections::HashMap;

use slidegate::Error;

use super::limit_request::{ENTRIES_MAX, Entry, TEXT_MAX};
use super::pattern::Pattern;
use super::rule::{Rule, wrong};
use super::statistics::DomainStatistics;
use crate::gates::{DomainStore, GateFactory};
use crate::spec::{DescriptorSpec, HitsUsage};

/// The nodes below one node, or at the root.
#[derive(Debug, Default)]
pub(super) struct TreeLevel {
    nodes: Vec<TreeNode>,
    names: LevelNames,
}

/// An index of the descriptors of one level, to find the one that an entry of a request selects.
#[derive(Debug, Default)]
pub(crate) struct LevelNames {
    /// The positions of all descriptors in the level, by name.
    by_name: HashMap<Box<str>, usize>,
    /// The patterns and positions of descriptors with a `*`, in the order of the file.
    wildcards: Vec<(Pattern, usize)>,
}

/// One descriptor of the configuration.
#[derive(Debug)]
pub(super) struct TreeNode {
    /// `key_value`, or `key` if it has no value.
    name: Box<str>,
    pub(super) rule: Option<Rule>,
    /// Whether all values that match its pattern share one count (`share_threshold`).
    shares: bool,
    /// Whether statistics show the request's value at this level.
    value_to_metric: bool,
    /// How the statistics of its rule are named, if no values on the path share a count.
    naming: Naming,
    below: TreeLevel,
}

/// How an entry of a request matched a descriptor of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchKind {
    /// By key and value.
    Value,
    /// By a value with `*`, the first match in the file.
    Wildcard,
    /// By the key, for any value.
    Key,
}

/// One step on the path through the tree: the node that an entry matched, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeStep<'d> {
    node: &'d TreeNode,
    kind: MatchKind,
}

/// How the statistics of a limit are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// By the keys and values of the configuration.
    Configured,
    /// Like `Configured`, but with the values of the request at levels with `value_to_metric`.
    Values,
    /// By all values of the request, including empty ones (`detailed_metric`).
    Detailed,
    /// Like `Detailed`, but with the pattern where values share a count, and without empty values.
    DetailedShared,
}

/// What a level inherits from the levels above.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inherited<'s> {
    /// Whether a node on the path has `value_to_metric`.
    pub(super) by_values: bool,
    pub(super) usage: Option<HitsUsage>,
    pub(super) store: DomainStore<'s>,
}

/// Compiles the tree of one domain.
pub(super) struct Builder<'a, 'p> {
    pub(super) statistics: &'a DomainStatistics,
    pub(super) factory: &'a mut GateFactory<'p>,
}

impl TreeLevel {
    /// Follows the entries of a request down the tree, and calls `visit` for each step. Returns the
    /// last node, or `None` if an entry selects no node. There is no backtracking: if an entry selects
    /// no node at its level, no other node is tried for the entries before it.
    pub(super) fn walk<'d>(
        &'d self,
        entries: &[Entry<'_>],
        mut visit: impl FnMut(&Entry<'_>, TreeStep<'d>),
    ) -> Option<&'d TreeNode> {
        let mut level = self;
        let mut last = None;
        let mut name = String::new();
        for entry in entries {
            let (index, kind) = level.names.find(entry, &mut name)?;
            let node = &level.nodes[index];
            visit(entry, TreeStep { node, kind });
            level = &node.below;
            last = Some(node);
        }
        last
    }

    /// Collects the rules of this level and of all levels below it, in the order of the file.
    pub(super) fn rules<'d>(&'d self, found: &mut Vec<&'d Rule>) {
        for node in &self.nodes {
            found.extend(&node.rule);
            node.below.rules(found);
        }
    }
}

impl LevelNames {
    /// Creates the index of a level.
    pub(crate) fn new(specs: &[DescriptorSpec]) -> Self {
        let mut names = Self::default();
        for (index, spec) in specs.iter().enumerate() {
            names.add(spec.composite(), index);
        }
        names
    }

    /// Adds the descriptor at `index`. Returns `false` if an earlier one has the same name.
    fn add(&mut self, name: String, index: usize) -> bool {
        self.wildcards.extend(Pattern::new(&name).map(|pattern| (pattern, index)));
        self.by_name.insert(name.into(), index).is_none()
    }

    /// Returns the position of the descriptor that an entry selects, and how it matched. `name` is a
    /// buffer that is overwritten, so that a walk allocates only once.
    pub(crate) fn find(&self, entry: &Entry<'_>, name: &mut String) -> Option<(usize, MatchKind)> {
        if self.by_name.is_empty() {
            return None;
        }
        name.clear();
        name.push_str(entry.key);
        name.push('_');
        name.push_str(entry.value);
        if let Some(index) = self.by_name.get(name.as_str()) {
            return Some((*index, MatchKind::Value));
        }
        let matching = self.wildcards.iter().find(|(pattern, _)| pattern.matches(name));
        if let Some((_, index)) = matching {
            return Some((*index, MatchKind::Wildcard));
        }
        self.by_name.get(entry.key).map(|index| (*index, MatchKind::Key))
    }
}

impl TreeStep<'_> {
    /// Returns the value by which the entry is counted: its own, or the pattern if values share a count.
    pub(super) fn counted<'a>(&'a self, entry: &Entry<'a>) -> &'a str {
        if self.shares() { self.node.value_of(entry) } else { entry.value }
    }

    /// Appends this level to `label`, the name of the statistics: `.key_value`, or `.key` without a value.
    pub(super) fn name_series(&self, entry: &Entry<'_>, naming: Naming, label: &mut String) {
        let is_detailed = matches!(naming, Naming::Detailed | Naming::DetailedShared);
        let shows_values = is_detailed || self.node.value_to_metric;
        // A value that the configuration contains is always shown.
        let value = match self.kind {
            MatchKind::Wildcard if self.node.shares || !shows_values => self.node.value_of(entry),
            MatchKind::Key if !shows_values => "",
            MatchKind::Value | MatchKind::Wildcard | MatchKind::Key => entry.value,
        };
        label.push('.');
        label.push_str(entry.key);
        // As in the reference service: with `detailed_metric`, an empty value keeps its `_`, unless
        // values share a count anywhere on the path.
        if naming == Naming::Detailed || !value.is_empty() {
            label.push('_');
            label.push_str(value);
        }
    }

    /// Returns `true` if all values that match the pattern share one count.
    pub(super) fn shares(&self) -> bool {
        self.kind == MatchKind::Wildcard && self.node.shares
    }
}

impl TreeNode {
    /// Returns how the statistics of its rule are named. `shares` is set if values share a count
    /// anywhere on the path.
    pub(super) fn naming(&self, shares: bool) -> Naming {
        match self.naming {
            Naming::Detailed if shares => Naming::DetailedShared,
            naming => naming,
        }
    }

    /// Returns the node's value in the configuration, such as `a*`.
    ///
    /// The pattern covers the whole name, so it may match an entry with another key: `a_*` also matches
    /// key `a_b` with value `c`. In that case, the whole name is returned.
    fn value_of(&self, entry: &Entry<'_>) -> &str {
        let rest = self.name.strip_prefix(entry.key);
        rest.and_then(|rest| rest.strip_prefix('_')).unwrap_or(&self.name)
    }
}

impl Builder<'_, '_> {
    /// Compiles one level and all levels below it. `label` is the name of the node above: the domain,
    /// and the name of every node on the path. `depth` is the number of levels above.
    pub(super) fn level(
        &mut self,
        specs: &[DescriptorSpec],
        label: &str,
        depth: usize,
        inherited: Inherited<'_>,
    ) -> Result<TreeLevel, Error> {
        let mut level = TreeLevel::default();
        if !specs.is_empty() && depth >= ENTRIES_MAX {
            return Err(wrong(format!("{label}: more than {ENTRIES_MAX} levels: use fewer")));
        }
        for spec in specs {
            let name = name(spec, label)?;
            let label = format!("{label}.{name}");
            if spec.share_threshold && !name.contains('*') {
                let message = "`share_threshold` needs a value with `*`: add one, or remove it";
                return Err(wrong(format!("{label}: {message}")));
            }
            // Also applies to the levels below, unless they set their own.
            let failure_mode = spec.failure_mode.unwrap_or(inherited.store.failure_mode);
            let inherited = Inherited {
                by_values: inherited.by_values || spec.value_to_metric,
                usage: spec.usage.or(inherited.usage),
                store: DomainStore { failure_mode, ..inherited.store },
            };
            let rule = match &spec.limit {
                Some(limit) => Some(Rule::new(spec, limit, &label, inherited, self)?),
                None => None,
            };
            let below = self.level(&spec.descriptors, &label, depth + 1, inherited)?;
            if !level.names.add(name.clone(), level.nodes.len()) {
                return Err(wrong(format!("duplicate descriptor {label}: remove one")));
            }
            level.nodes.push(TreeNode {
                name: name.into(),
                rule,
                shares: spec.share_threshold,
                value_to_metric: spec.value_to_metric,
                naming: match (spec.detailed_metric, inherited.by_values) {
                    (true, _) => Naming::Detailed,
                    (false, true) => Naming::Values,
                    (false, false) => Naming::Configured,
                },
                below,
            });
        }
        Ok(level)
    }
}

/// Returns the name of a descriptor: `key_value`, or `key` if there is no value. As in the reference
/// service, two descriptors can have the same name: key `a` with value `b_c`, and key `a_b` with value
/// `c`. `label` is used in errors.
fn name(spec: &DescriptorSpec, label: &str) -> Result<String, Error> {
    let DescriptorSpec { key, value, .. } = spec;
    if key.is_empty() {
        return Err(wrong(format!("{label}: a descriptor has an empty key: set one")));
    }
    let value = value.as_deref().unwrap_or_default();
    if let Some(long) = [key.as_str(), value].into_iter().find(|text| text.len() > TEXT_MAX) {
        let len = long.len();
        let message = format!("a key or value of {len} bytes is too long");
        return Err(wrong(format!("{label}: {message}: use {TEXT_MAX} or fewer")));
    }
    Ok(spec.composite())
}
