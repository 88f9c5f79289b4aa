//! The format of a configuration file.

use super::report::Report;
use super::table::{Keyword, ROOT, keywords};
use super::yaml::Node;

keywords! {
    /// The formats of configuration files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Format {
        /// The native format: policies, rules, stores, listeners.
        Native = "native",
        /// `rate_limiting.sliding_window`.
        Sliding = "sliding",
        /// The format of envoyproxy/ratelimit.
        Envoy = "envoy",
    }
}

impl Format {
    /// Returns the format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Keyword::from_keyword(name)
    }

    /// Detects the format from the top-level keys of a file. Returns `None` if they are ambiguous,
    /// which is reported.
    pub(super) fn detect(root: &Node, report: &mut Report) -> Option<Self> {
        let has = |key: &str| root.entries().iter().any(|entry| entry.key.text == key);
        if has("slidegate") {
            return Some(Self::Native);
        }
        if has("rate_limiting") {
            return Some(Self::Sliding);
        }
        if has("domain") || has("descriptors") {
            return Some(Self::Envoy);
        }
        if root.is_null() || ROOT.names().any(has) {
            return Some(Self::Native);
        }
        let message = "cannot detect the file format from its top-level keys";
        let finding = report.error(root.span.at_start(), "format", message);
        finding.help(
            "start with `slidegate: 1`, `domain:` (envoyproxy/ratelimit) or `rate_limiting:` (sliding window), or pass --format",
        );
        None
    }
}
