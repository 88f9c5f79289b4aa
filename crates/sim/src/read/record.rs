//! One request as a log describes it.

use core::net::SocketAddr;
use std::borrow::Cow;

use regex::Captures;
use serde_json::Value;

/// One request of a log, as far as the log describes it.
#[derive(Debug)]
pub struct Record<'a> {
    /// When the request was made, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The address or name of the client.
    pub client: Option<Cow<'a, str>>,
    /// The authenticated user.
    pub user: Option<Cow<'a, str>>,
    /// The HTTP method.
    pub method: Option<Cow<'a, str>>,
    /// The path with its query, as logged.
    pub target: Option<Cow<'a, str>>,
    /// The requested host.
    pub host: Option<Cow<'a, str>>,
    /// The status of the response.
    pub status: Option<u16>,
    /// Units that the request costs.
    pub cost: u64,
    /// Everything else that the line contains.
    pub(crate) extra: Extra<'a>,
}

/// Fields beyond those that every format has.
#[derive(Debug)]
pub(crate) enum Extra<'a> {
    None,
    /// What follows the status in the combined format.
    Combined(&'a str),
    Json(Value),
    Columns(&'a [String], Vec<Cow<'a, str>>),
    Groups(Captures<'a>),
    /// The key of a trace.
    Key(&'a str),
}

impl<'a> Record<'a> {
    /// A request of which only the time is known.
    pub(crate) fn at(at_ms: u64) -> Self {
        Self {
            at_ms,
            client: None,
            user: None,
            method: None,
            target: None,
            host: None,
            status: None,
            cost: 1,
            extra: Extra::None,
        }
    }

    /// Sets the client. The port of an address is left out: it differs for every connection (Envoy, AWS).
    pub(crate) fn set_client(&mut self, client: Option<Cow<'a, str>>) {
        self.client = client.map(|client| match client.parse::<SocketAddr>() {
            Ok(address) => address.ip().to_string().into(),
            Err(_) => client,
        });
    }

    /// Sets method and path from a request line, `GET /path HTTP/1.1`. Returns `false` if it is not one.
    pub(crate) fn set_request_line(&mut self, line: Cow<'a, str>) -> bool {
        let Some(method_end) = line.find(' ') else { return false };
        let rest = &line[method_end + 1..];
        let target_end = method_end + 1 + rest.rfind(" HTTP/").unwrap_or(rest.len());
        let (method, target) = match line {
            Cow::Borrowed(line) => (
                Cow::Borrowed(&line[..method_end]),
                Cow::Borrowed(&line[method_end + 1..target_end]),
            ),
            Cow::Owned(mut line) => {
                line.truncate(target_end);
                let target = line.split_off(method_end + 1);
                line.truncate(method_end);
                (Cow::Owned(line), Cow::Owned(target))
            }
        };
        (self.method, self.target) = (Some(method), Some(target));
        true
    }

    /// Returns the path without its query.
    pub fn path(&self) -> Option<&str> {
        let target = self.target.as_deref()?;
        Some(target.split(['?', '#']).next().unwrap_or(target))
    }

    /// Returns a field by the name that the log gives it, or a column, or a named group.
    pub fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let text = match &self.extra {
            Extra::None => return None,
            Extra::Combined(rest) => {
                let place = ["referer", "agent"].iter().position(|known| *known == name)?;
                Cow::Borrowed(quoted(rest, place)?)
            }
            Extra::Json(value) => json_text(json_field(value, name)?)?,
            Extra::Columns(names, values) => {
                let place = names.iter().position(|column| column == name)?;
                Cow::Borrowed(values.get(place)?.as_ref())
            }
            Extra::Groups(groups) => Cow::Borrowed(groups.name(name)?.as_str()),
            Extra::Key(key) => Cow::Borrowed(*key),
        };
        present(text)
    }
}

/// Returns `None` for what logs write if there is no value.
pub(crate) fn present(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    if matches!(&*text, "" | "-") { None } else { Some(text) }
}

/// The text within a pair of quotes, counted from zero.
fn quoted(text: &str, index: usize) -> Option<&str> {
    let mut rest = text;
    for _ in 0..index {
        rest = &rest[rest.find('"')? + 1..];
        rest = &rest[quote_end(rest)? + 1..];
    }
    rest = &rest[rest.find('"')? + 1..];
    Some(&rest[..quote_end(rest)?])
}

/// The place of the quote that ends a text in which `\` escapes.
pub(crate) fn quote_end(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let place = from + memchr::memchr2(b'"', b'\\', &text.as_bytes()[from..])?;
        if text.as_bytes()[place] == b'"' {
            return Some(place);
        }
        from = place + 2;
        if from > text.len() {
            return None;
        }
    }
}

/// A value by its name, or by names with dots between them.
pub(crate) fn json_field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    if let Some(found) = value.get(name) {
        return Some(found);
    }
    let (outer, inner) = name.split_once('.')?;
    json_field(value.get(outer)?, inner)
}

/// A text or a number as text.
pub(crate) fn json_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
