//! The common and the combined log format of Apache and nginx.

use std::borrow::Cow;

use super::record::{Extra, Record, present, quote_end};
use super::time::parse_time;

/// Parses `client - user [time] "request" status bytes`, with or without `"referer" "agent"`.
pub(crate) fn parse(line: &str) -> Result<Record<'_>, &'static str> {
    let (client, rest) = line.split_once(' ').ok_or("no space after the client's address")?;
    let open = rest.find('[').ok_or("no time in brackets")?;
    let (names, rest) = (&rest[..open], &rest[open + 1..]);
    let close = rest.find(']').ok_or("the time has no closing bracket")?;
    let at_ms =
        parse_time(&rest[..close]).ok_or("the time is not like 31/Jan/2026:23:59:59 +0000")?;
    let rest =
        rest[close + 1..].strip_prefix(" \"").ok_or("no request in quotes after the time")?;
    let end = quote_end(rest).ok_or("the request has no closing quote")?;
    let (request, rest) = (&rest[..end], &rest[end + 1..]);
    let rest = rest.strip_prefix(' ').ok_or("no status after the request")?;
    let (status, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let status = status.parse().map_err(|_| "the status is not a number")?;

    let mut record = Record::at(at_ms);
    record.set_client(present(Cow::Borrowed(client)));
    // The name before is that of the identity protocol, which has no spaces.
    let user = names.trim_end().split_once(' ').map_or("", |(_, user)| user);
    record.user = present(Cow::Borrowed(user));
    record.status = Some(status);
    record.set_request_line(Cow::Borrowed(request));
    record.extra = Extra::Combined(rest);
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_combined_line_is_read() {
        let line = r#"203.0.113.9 - alice [17/May/2015:10:05:03 +0000] "GET /a?b=\"c\" HTTP/1.1" 404 203 "http://x/" "Mo \"zilla"#.to_owned() + "\"";
        let record = parse(&line).unwrap();
        assert_eq!(record.at_ms, 1_431_857_103_000);
        assert_eq!(record.client.as_deref(), Some("203.0.113.9"));
        assert_eq!(record.user.as_deref(), Some("alice"));
        assert_eq!(record.method.as_deref(), Some("GET"));
        assert_eq!(record.path(), Some("/a"));
        assert_eq!(record.status, Some(404));
        assert_eq!(record.field("referer").as_deref(), Some("http://x/"));
        assert_eq!(record.field("agent").as_deref(), Some(r#"Mo \"zilla"#));
    }

    #[test]
    fn a_common_line_without_a_request_line_is_read() {
        let record = parse(r#"::1 - - [17/May/2015:10:05:03 +0000] "-" 408 -"#).unwrap();
        assert_eq!((record.user, record.target), (None, None));
        assert_eq!(record.status, Some(408));
    }

    #[test]
    fn damaged_lines_are_refused_with_a_reason() {
        for line in [
            "",
            "203.0.113.9",
            r#"203.0.113.9 - - 17/May/2015:10:05:03 +0000 "GET / HTTP/1.1" 200 1"#,
            r#"203.0.113.9 - - [17/May/2015:10:05:03 +0000 "GET / HTTP/1.1" 200 1"#,
            r#"203.0.113.9 - - [17/Mai/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#,
            r"203.0.113.9 - - [17/May/2015:10:05:03 +0000] GET / HTTP/1.1 200 1",
            r#"203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1 200 1"#,
            r#"203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" ok 1"#,
            r#"203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1\"#,
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
