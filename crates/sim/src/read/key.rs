//! What requests of a log are counted by.

use core::fmt;
use core::fmt::Write;

use super::record::Record;

/// What requests are counted by: one field, or a text with fields such as `{client} {route}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTemplate {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Client,
    User,
    Method,
    Path,
    Route,
    Host,
    Status,
    Field(String),
}

impl KeyTemplate {
    /// Parses a field (`client`, `user`, `route`, `path`, `method`, `host`, `status`) or a text with
    /// fields in braces. In braces, any other field, column or named group of the log can be used too.
    ///
    /// # Errors
    ///
    /// Returns what is allowed if a name is unknown or a brace is not closed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!(
                "key {text:?} is not usable: {why}; use client, user, route, path, method, host, status, \
                 or a text with fields in braces, such as \"{{client}} {{route}}\""
            ))
        };
        let mut parts = Vec::new();
        if !text.contains('{') {
            match Part::known(text) {
                Some(part) => parts.push(part),
                None => return wrong("there is no such field"),
            }
            return Ok(Self { text: text.to_owned(), parts });
        }
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                parts.push(Part::Literal(rest[..open].to_owned()));
            }
            let Some(close) = rest[open..].find('}') else { return wrong("a brace is not closed") };
            let name = &rest[open + 1..open + close];
            if name.is_empty() {
                return wrong("a pair of braces is empty");
            }
            parts.push(Part::known(name).unwrap_or_else(|| Part::Field(name.to_owned())));
            rest = &rest[open + close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// Returns the names of its fields.
    pub fn fields(&self) -> Vec<&str> {
        self.parts.iter().filter_map(Part::name).collect()
    }

    /// Replaces `key` by the key of a request. Returns `false` if the request lacks a field.
    pub fn write(&self, record: &Record<'_>, key: &mut String) -> bool {
        key.clear();
        self.parts.iter().all(|part| part.write(record, key))
    }
}

impl fmt::Display for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Part {
    fn known(name: &str) -> Option<Self> {
        Some(match name {
            "client" => Self::Client,
            "user" => Self::User,
            "method" => Self::Method,
            "path" => Self::Path,
            "route" => Self::Route,
            "host" => Self::Host,
            "status" => Self::Status,
            _ => return None,
        })
    }

    fn name(&self) -> Option<&str> {
        Some(match self {
            Self::Literal(_) => return None,
            Self::Client => "client",
            Self::User => "user",
            Self::Method => "method",
            Self::Path => "path",
            Self::Route => "route",
            Self::Host => "host",
            Self::Status => "status",
            Self::Field(name) => name,
        })
    }

    fn write(&self, record: &Record<'_>, key: &mut String) -> bool {
        let mut push = |text: Option<&str>| match text {
            Some(text) => {
                key.push_str(text);
                true
            }
            None => false,
        };
        match self {
            Self::Literal(text) => push(Some(text)),
            Self::Client => push(record.client.as_deref()),
            Self::User => push(record.user.as_deref()),
            Self::Method => push(record.method.as_deref()),
            Self::Path => push(record.path()),
            Self::Host => push(record.host.as_deref()),
            Self::Field(name) => push(record.field(name).as_deref()),
            Self::Status => record.status.is_some_and(|status| write!(key, "{status}").is_ok()),
            Self::Route => record.path().is_some_and(|path| {
                write_route(path, key);
                true
            }),
        }
    }
}

/// A path whose parts that look like identifiers are written as `:id`.
fn write_route(path: &str, route: &mut String) {
    for (place, part) in path.split('/').enumerate() {
        if place > 0 {
            route.push('/');
        }
        route.push_str(if is_identifier(part) { ":id" } else { part });
    }
}

/// Numbers, UUIDs, and runs of 16 or more hexadecimal digits.
fn is_identifier(part: &str) -> bool {
    let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    is_number || (part.len() >= 16 && part.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::common;

    #[test]
    fn fields_and_templates_make_keys() {
        let line = r#"203.0.113.9 - alice [17/May/2015:10:05:03 +0000] "GET /users/42/0f8fad5b-d9cb-469f-a165-70867728950e?x HTTP/1.1" 404 1 "-" "curl""#;
        let record = common::parse(line).unwrap();
        let mut key = String::new();
        for (template, expected) in [
            ("client", "203.0.113.9"),
            ("user", "alice"),
            ("route", "/users/:id/:id"),
            ("{method} {route} {status}", "GET /users/:id/:id 404"),
            ("{agent}", "curl"),
        ] {
            assert!(KeyTemplate::parse(template).unwrap().write(&record, &mut key));
            assert_eq!(key, expected);
        }
        assert!(!KeyTemplate::parse("{host}").unwrap().write(&record, &mut key));
    }

    #[test]
    fn unusable_keys_are_refused_with_what_is_allowed() {
        for text in ["", "ip", "{client", "a{}b"] {
            let error = KeyTemplate::parse(text).unwrap_err();
            assert!(error.contains("client, user, route"), "{error}");
        }
    }
}
