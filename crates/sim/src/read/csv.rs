//! Logs as comma-separated values, with a header line that names the columns.

use std::borrow::Cow;

use super::fields::{FieldNames, Meaning};
use super::record::{Extra, Record, present};
use super::time::{parse_time, parse_time_as};

/// The columns of a file.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
    separator: u8,
    time: usize,
    client: Option<usize>,
    user: Option<usize>,
    method: Option<usize>,
    target: Option<usize>,
    request: Option<usize>,
    host: Option<usize>,
    status: Option<usize>,
    cost: Option<usize>,
}

impl Columns {
    /// Reads the header line: columns are separated by commas, semicolons or tabs.
    pub(crate) fn read(header: &str, fields: &FieldNames) -> Result<Self, String> {
        let count = |separator: u8| header.bytes().filter(|byte| *byte == separator).count();
        let separator =
            [b',', b';', b'\t'].into_iter().max_by_key(|byte| count(*byte)).unwrap_or(b',');
        let header = header.trim_start_matches('\u{feff}');
        let names = split(header, separator).ok_or("the header line has an open quote")?;
        let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
        let find = |meaning: Meaning| {
            let mut wanted = fields.of(meaning);
            wanted
                .find_map(|name| names.iter().position(|column| column.eq_ignore_ascii_case(name)))
        };
        let time = find(Meaning::Time).ok_or_else(|| {
            let names = names.join(", ");
            format!("no column has a time: the header names {names}; use --field time=NAME")
        })?;
        Ok(Self {
            separator,
            time,
            client: find(Meaning::Client),
            user: find(Meaning::User),
            method: find(Meaning::Method),
            target: find(Meaning::Target),
            request: find(Meaning::Request),
            host: find(Meaning::Host),
            status: find(Meaning::Status),
            cost: find(Meaning::Cost),
            names,
        })
    }

    /// Parses one line.
    pub(crate) fn parse<'a>(
        &'a self,
        line: &'a str,
        time_format: Option<&str>,
    ) -> Result<Record<'a>, &'static str> {
        let values = split(line, self.separator).ok_or("a quote is not closed")?;
        if values.len() != self.names.len() {
            return Err("the number of columns differs from the header");
        }
        let find = |place: Option<usize>| present(values[place?].clone());
        let time = &values[self.time];
        let at_ms = match time_format {
            Some(format) => parse_time_as(format, time),
            None => parse_time(time),
        };
        let mut record = Record::at(at_ms.ok_or("the time cannot be read")?);
        record.set_client(find(self.client));
        record.user = find(self.user);
        if !find(self.request).is_some_and(|line| record.set_request_line(line)) {
            record.method = find(self.method);
            record.target = find(self.target);
        }
        record.host = find(self.host);
        record.status = find(self.status).and_then(|status| status.parse().ok());
        if let Some(cost) = find(self.cost) {
            record.cost = cost.parse().map_err(|_| "the cost is not a whole number")?;
        }
        record.extra = Extra::Columns(&self.names, values);
        Ok(record)
    }
}

/// Splits a line; a column may be in quotes, in which a quote is written twice. Returns `None` if a
/// quote is not closed.
fn split(line: &str, separator: u8) -> Option<Vec<Cow<'_, str>>> {
    let mut values = Vec::new();
    let mut rest = line;
    loop {
        let (value, end) = match rest.strip_prefix('"') {
            Some(inner) => {
                let (value, end) = quoted(inner)?;
                (value, end + 1)
            }
            None => {
                let end = memchr::memchr(separator, rest.as_bytes()).unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), end)
            }
        };
        values.push(value);
        match rest.as_bytes().get(end) {
            None => return Some(values),
            Some(byte) if *byte == separator => rest = &rest[end + 1..],
            Some(_) => return None,
        }
    }
}

/// The text up to the closing quote, and the place after it.
fn quoted(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let mut from = 0;
    let mut has_quotes = false;
    loop {
        let place = from + memchr::memchr(b'"', &text.as_bytes()[from..])?;
        if text.as_bytes().get(place + 1) == Some(&b'"') {
            has_quotes = true;
            from = place + 2;
            continue;
        }
        let value = &text[..place];
        let value =
            if has_quotes { Cow::Owned(value.replace("\"\"", "\"")) } else { Cow::Borrowed(value) };
        return Some((value, place + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let columns =
            Columns::read("\u{feff}Timestamp;IP;url;tenant", &FieldNames::default()).unwrap();
        let record =
            columns.parse("2026-01-31T22:59:59Z;203.0.113.9;\"/a;b\";\"x \"\"y\"\"\"", None);
        let record = record.unwrap();
        assert_eq!(record.at_ms, 1_769_900_399_000);
        assert_eq!(record.client.as_deref(), Some("203.0.113.9"));
        assert_eq!(record.path(), Some("/a;b"));
        assert_eq!(record.field("tenant").as_deref(), Some("x \"y\""));
    }

    #[test]
    fn damaged_lines_are_refused_with_a_reason() {
        let columns = Columns::read("time,client", &FieldNames::default()).unwrap();
        for line in ["", "1769900399", "1769900399,\"a", "x,a", "1769900399,a,b", "\"1\"x,a"] {
            assert!(columns.parse(line, None).is_err(), "{line}");
        }
        let error = Columns::read("when,client", &FieldNames::default()).unwrap_err();
        assert!(error.contains("when, client") && error.contains("--field"), "{error}");
    }
}
