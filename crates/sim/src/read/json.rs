//! Logs with one JSON object per line.

use std::borrow::Cow;

use serde_json::Value;

use super::fields::{FieldNames, Meaning};
use super::record::{Extra, Record, json_field, json_text, present};
use super::time::{parse_time, parse_time_as};

/// Parses one object.
pub(crate) fn parse(
    line: &str,
    names: &FieldNames,
    time_format: Option<&str>,
) -> Result<Record<'static>, &'static str> {
    let value: Value = serde_json::from_str(line).map_err(|_| "not a JSON object")?;
    if !value.is_object() {
        return Err("not a JSON object");
    }
    let find = |meaning: Meaning| {
        let mut texts = names.of(meaning).filter_map(|name| json_text(json_field(&value, name)?));
        let text = texts.find_map(present)?;
        Some(Cow::<'static, str>::Owned(text.into_owned()))
    };
    let time = find(Meaning::Time).ok_or("no field with a time")?;
    let at_ms = match time_format {
        Some(format) => parse_time_as(format, &time),
        None => parse_time(&time),
    };
    let mut record = Record::at(at_ms.ok_or("the time cannot be read")?);
    record.set_client(find(Meaning::Client));
    record.user = find(Meaning::User);
    if !find(Meaning::Request).is_some_and(|line| record.set_request_line(line)) {
        record.method = find(Meaning::Method);
        record.target = find(Meaning::Target);
    }
    record.host = find(Meaning::Host);
    record.status = find(Meaning::Status).and_then(|status| status.parse().ok());
    if let Some(cost) = find(Meaning::Cost) {
        record.cost = cost.parse().map_err(|_| "the cost is not a whole number")?;
    }
    record.extra = Extra::Json(value);
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_several_servers_are_understood() {
        let names = FieldNames::default();
        let caddy = r#"{"ts":1769900399.5,"request":{"remote_ip":"203.0.113.9","method":"GET","host":"x.org","uri":"/a?b"},"status":200}"#;
        let nginx = r#"{"time_iso8601":"2026-01-31T22:59:59.5Z","remote_addr":"203.0.113.9","request":"GET /a?b HTTP/1.1","host":"x.org","status":"200","remote_user":"-"}"#;
        let traefik = r#"{"StartUTC":"2026-01-31T22:59:59.5Z","ClientHost":"203.0.113.9","RequestMethod":"GET","RequestPath":"/a?b","RequestHost":"x.org","DownstreamStatus":200}"#;
        for line in [caddy, nginx, traefik] {
            let record = parse(line, &names, None).unwrap();
            assert_eq!(record.at_ms, 1_769_900_399_500, "{line}");
            assert_eq!(record.client.as_deref(), Some("203.0.113.9"), "{line}");
            assert_eq!(record.method.as_deref(), Some("GET"), "{line}");
            assert_eq!(record.path(), Some("/a"), "{line}");
            assert_eq!(record.host.as_deref(), Some("x.org"), "{line}");
            assert_eq!((record.status, record.user), (Some(200), None), "{line}");
        }
    }

    #[test]
    fn named_fields_replace_the_usual_ones() {
        let mut names = FieldNames::default();
        names.add("client=headers.x-real-ip").unwrap();
        let line = r#"{"time":1769900399,"client":"10.0.0.1","headers":{"x-real-ip":"203.0.113.9"},"cost":3}"#;
        let record = parse(line, &names, None).unwrap();
        assert_eq!(record.client.as_deref(), Some("203.0.113.9"));
        assert_eq!(record.field("client").as_deref(), Some("10.0.0.1"));
        assert_eq!(record.cost, 3);
        assert!(names.add("color=x").unwrap_err().contains("time, client, user"));
    }

    #[test]
    fn damaged_lines_are_refused_with_a_reason() {
        let names = FieldNames::default();
        for line in
            ["", "{", "[]", "{}", r#"{"time":"x"}"#, r#"{"time":{}}"#, r#"{"time":1,"cost":"-1"}"#]
        {
            assert!(parse(line, &names, None).is_err(), "{line}");
        }
    }
}
