//! Quotas and algorithms.

use slidegate::{Algorithm, Quota};

use super::read::{time, whole};
use crate::config::leaf;
use crate::config::yaml::{Kind, Node};

/// A list of quotas, or a single one.
pub(super) fn quotas(node: &Node) -> Vec<Quota> {
    match &node.kind {
        Kind::List(items) => items.iter().filter_map(quota).collect(),
        _ => quota(node).into_iter().collect(),
    }
}

fn quota(node: &Node) -> Option<Quota> {
    match &node.kind {
        Kind::Scalar(scalar) => leaf::quota(&scalar.text).ok(),
        _ => Quota::new(whole(node, "limit")?, time(node, "window")?).ok(),
    }
}

/// How units are counted, as a tree says it.
pub(in crate::config) fn algorithm(node: &Node) -> Option<Algorithm> {
    if let Some(scalar) = node.as_scalar() {
        return match scalar.text.as_str() {
            "log" => Some(Algorithm::Log),
            "counter" => Some(Algorithm::Counter),
            "gcra" => Some(Algorithm::Gcra),
            "fixed" => Some(Algorithm::Fixed),
            _ => None,
        };
    }
    let segments = whole(node, "segments").map(|count| Algorithm::Segments { count });
    segments.or_else(|| Some(Algorithm::LogCapped { bytes_max: whole(node, "log_capped")? }))
}
