//! Values of a checked tree by their paths.

use core::time::Duration;

use crate::config::leaf;
use crate::config::yaml::{Kind, Node, Scalar, Style};

pub(super) fn scalar<'a>(node: &'a Node, path: &str) -> Option<&'a Scalar> {
    node.find(path).and_then(Node::as_scalar)
}

pub(super) fn text<'a>(node: &'a Node, path: &str) -> Option<&'a str> {
    scalar(node, path).map(|scalar| scalar.text.as_str())
}

pub(super) fn flag(node: &Node, path: &str, absent: bool) -> bool {
    scalar(node, path).and_then(leaf::flag).unwrap_or(absent)
}

pub(super) fn whole<T: TryFrom<i128>>(node: &Node, path: &str) -> Option<T> {
    scalar(node, path).and_then(leaf::whole).and_then(|number| T::try_from(number).ok())
}

pub(super) fn decimal(node: &Node, path: &str) -> Option<f64> {
    scalar(node, path).and_then(leaf::decimal)
}

pub(super) fn time(node: &Node, path: &str) -> Option<Duration> {
    text(node, path).and_then(|text| leaf::time(text).ok())
}

/// The texts of a list, of a variable with commas, or a single one.
pub(super) fn texts(node: &Node, path: &str) -> Vec<String> {
    let Some(found) = node.find(path) else { return Vec::new() };
    match &found.kind {
        Kind::Scalar(scalar) if scalar.style == Style::Given => {
            leaf::items(&scalar.text).map(str::to_owned).collect()
        }
        Kind::Scalar(scalar) => vec![scalar.text.clone()],
        Kind::List(items) => {
            items.iter().filter_map(Node::as_scalar).map(|scalar| scalar.text.clone()).collect()
        }
        Kind::Map(_) => Vec::new(),
    }
}
