//! Logs of any other text, by a regular expression.

use std::borrow::Cow;

use regex::Regex;

use super::record::{Extra, Record, present};
use super::time::{parse_time, parse_time_as};

/// A regular expression with the named group `time`, and others such as `key`, `client` or `path`.
#[derive(Debug, Clone)]
pub struct LinePattern {
    regex: Regex,
}

impl LinePattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it, or that the group `time` is missing.
    pub fn new(text: &str) -> Result<Self, String> {
        let regex = Regex::new(text).map_err(|error| format!("pattern is not usable: {error}"))?;
        let pattern = Self { regex };
        if !pattern.has("time") {
            return Err(format!(
                "pattern {text:?} has no group named `time`: write (?<time>...) around the time, and \
                 (?<key>...) around the key"
            ));
        }
        Ok(pattern)
    }

    /// Returns `true` if it has a group of this name.
    pub fn has(&self, name: &str) -> bool {
        self.regex.capture_names().flatten().any(|group| group == name)
    }

    /// Parses one line.
    pub(crate) fn parse<'a>(
        &self,
        line: &'a str,
        time_format: Option<&str>,
    ) -> Result<Record<'a>, &'static str> {
        let groups = self.regex.captures(line).ok_or("the pattern does not match")?;
        let find = |name: &str| present(Cow::Borrowed(groups.name(name)?.as_str()));
        let time = find("time").ok_or("the group `time` is empty")?;
        let at_ms = match time_format {
            Some(format) => parse_time_as(format, &time),
            None => parse_time(&time),
        };
        let mut record = Record::at(at_ms.ok_or("the time cannot be read")?);
        record.set_client(find("client"));
        record.user = find("user");
        record.method = find("method");
        record.target = find("path");
        record.host = find("host");
        record.status = find("status").and_then(|status| status.parse().ok());
        if let Some(cost) = find("cost") {
            record.cost = cost.parse().map_err(|_| "the cost is not a whole number")?;
        }
        if let Some(request) = find("request") {
            record.set_request_line(request);
        }
        record.extra = Extra::Groups(groups);
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_become_fields() {
        let pattern = LinePattern::new(r"^(?<time>\S+ \S+) key=(?<key>\S+) (?<path>/\S*)").unwrap();
        let record = pattern.parse("31.01.2026 22:59:59 key=alice /a?b", Some("%d.%m.%Y %H:%M:%S"));
        let record = record.unwrap();
        assert_eq!(record.at_ms, 1_769_900_399_000);
        assert_eq!(record.field("key").as_deref(), Some("alice"));
        assert_eq!(record.path(), Some("/a"));
        assert!(pattern.parse("something else", None).is_err());
    }

    #[test]
    fn a_pattern_without_a_time_is_refused() {
        assert!(LinePattern::new("(?<key>x)").unwrap_err().contains("(?<time>...)"));
        assert!(LinePattern::new("(").unwrap_err().contains("not usable"));
    }
}
