//! Header fields that become keys.

use http::{HeaderMap, HeaderName, HeaderValue};
use slidegate::{Error, ErrorKind};
use slidegate_http::{Duplicates, NoValue};

/// A header field by whose value requests are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHeader {
    name: HeaderName,
    duplicates: Duplicates,
}

impl KeyHeader {
    /// Creates the field from its name and from `deny`, `first` or `last`, the treatment of several
    /// values.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is not valid or the word is unknown.
    pub fn new(name: &str, duplicates: &str) -> Result<Self, Error> {
        let setting = |message| Error::new(ErrorKind::Setting, message);
        let name = HeaderName::try_from(name).map_err(|_| {
            setting(format!(
                "{name:?} is no name of a header field: use letters, digits and hyphens"
            ))
        })?;
        let duplicates = match duplicates {
            "deny" => Duplicates::Deny,
            "first" => Duplicates::First,
            "last" => Duplicates::Last,
            other => {
                let message = format!("unknown duplicates {other:?}: use deny, first or last");
                return Err(setting(message));
            }
        };
        Ok(Self { name, duplicates })
    }

    /// Returns the value of the field in a request, of which `lines` are the lines. Returns an empty
    /// text if it is missing.
    ///
    /// Returns `None` if the request has to be denied, because the field has several values or is
    /// not valid.
    pub fn value<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&self.name, HeaderValue::from_bytes(line.as_bytes()).ok()?);
        }
        match self.duplicates.value(&headers, self.name.as_str()) {
            Ok(value) => String::from_utf8(value.into_owned()).ok(),
            Err(NoValue::Missing) => Some(String::new()),
            Err(NoValue::Several) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, duplicates: &str, lines: &[&str]) -> Option<String> {
        KeyHeader::new(name, duplicates).unwrap().value(lines.iter().copied())
    }

    #[test]
    fn several_values_are_denied_or_one_counts() {
        for lines in [&["valid", "junk"][..], &["valid, junk"], &["valid,junk"]] {
            assert_eq!(value("x-api-key", "deny", lines), None);
            assert_eq!(value("x-api-key", "first", lines).unwrap(), "valid");
            assert_eq!(value("x-api-key", "last", lines).unwrap(), "junk");
        }
    }

    #[test]
    fn a_field_is_missing_or_invalid() {
        assert_eq!(value("x-api-key", "deny", &[]).unwrap(), "");
        assert_eq!(value("x-api-key", "deny", &[" "]).unwrap(), "");
        assert_eq!(value("x-api-key", "deny", &["a\0b"]), None);
        // The text of another language has characters, not the bytes of the request.
        assert_eq!(value("x-api-key", "deny", &["zoë"]).unwrap(), "zoë");
    }

    #[test]
    fn wrong_options_are_errors() {
        let error = KeyHeader::new("x api key", "deny").unwrap_err();
        assert!(error.to_string().contains("\"x api key\" is no name of a header field"));
        let error = KeyHeader::new("x-api-key", "join").unwrap_err();
        assert!(error.to_string().contains("\"join\": use deny, first or last"));
    }
}
