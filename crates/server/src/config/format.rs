//! Which format a file is in.

use super::report::Report;
use super::table::{ROOT, Words, words};
use super::yaml::Node;

words! {
    /// The formats that are read.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Format {
        /// Ours: policies, rules, stores, listeners.
        Own = "own",
        /// `rate_limiting.sliding_window`.
        Sliding = "sliding",
        /// That of envoyproxy/ratelimit.
        Envoy = "envoy",
    }
}

impl Format {
    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Words::of(name)
    }

    /// The format by the top-level keys of a file; `None` if they do not tell, and said so.
    pub(super) fn detect(root: &Node, report: &mut Report) -> Option<Self> {
        let has = |key: &str| root.entries().iter().any(|entry| entry.key.text == key);
        if has("slidegate") {
            return Some(Self::Own);
        }
        if has("rate_limiting") {
            return Some(Self::Sliding);
        }
        if has("domain") || has("descriptors") {
            return Some(Self::Envoy);
        }
        if root.is_null() || ROOT.names().any(has) {
            return Some(Self::Own);
        }
        let message = "this is none of the formats that are read, by its keys";
        let finding = report.error(root.span.at_start(), "format", message);
        finding.help(
            "begin with `slidegate: 1` for the own format, `domain:` for that of \
             envoyproxy/ratelimit, `rate_limiting:` for a sliding window; or say which with \
             --format",
        );
        None
    }
}
