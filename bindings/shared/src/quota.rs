//! Quotas in options: one or several, as text or as a map.

use core::fmt;
use core::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use slidegate::{Quota, parse_duration};

/// One or several quotas: `"100/minute"`, `{"limit": 100, "window": "1m"}`,
/// `{"limit": 100, "windowMs": 60000}`, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaList(pub Vec<Quota>);

/// One item of a list.
struct Item(Quota);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotaMap {
    limit: u64,
    window: Option<String>,
    #[serde(alias = "windowMs")]
    window_ms: Option<u64>,
}

impl QuotaMap {
    fn quota<E: serde::de::Error>(self) -> Result<Quota, E> {
        let window = match (self.window, self.window_ms) {
            (Some(text), None) => parse_duration(&text).map_err(E::custom)?,
            (None, Some(millis)) => Duration::from_millis(millis),
            _ => {
                let message = "a quota has one of window, such as \"1m\", and windowMs";
                return Err(E::custom(message));
            }
        };
        Quota::new(self.limit, window).map_err(E::custom)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Quota;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quota, such as \"100/minute\" or {\"limit\": 100, \"window\": \"1m\"}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quota, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Quota, A::Error> {
        QuotaMap::deserialize(MapAccessDeserializer::new(map))?.quota()
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor).map(Self)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = QuotaList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quota, such as \"100/minute\", or a list of quotas")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<QuotaList, E> {
        ItemVisitor.visit_str(text).map(|quota| QuotaList(vec![quota]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QuotaList, A::Error> {
        ItemVisitor.visit_map(map).map(|quota| QuotaList(vec![quota]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<QuotaList, A::Error> {
        let mut quotas = Vec::new();
        while let Some(Item(quota)) = items.next_element()? {
            if quotas.len() == slidegate::Policy::QUOTAS_MAX {
                return Err(A::Error::custom("too many quotas: use 1 to 8"));
            }
            quotas.push(quota);
        }
        Ok(QuotaList(quotas))
    }
}

impl<'de> Deserialize<'de> for QuotaList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor)
    }
}

/// A duration as text, such as `20ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(json: &str) -> Result<Vec<String>, String> {
        let list: QuotaList = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Ok(list.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn text_map_and_list_are_the_same_quota() {
        for json in [
            r#""100/minute""#,
            r#"{"limit": 100, "window": "1m"}"#,
            r#"{"limit": 100, "windowMs": 60000}"#,
            r#"[{"limit": 100, "window_ms": 60000}]"#,
        ] {
            assert_eq!(quotas(json).unwrap(), ["100/minute"], "{json}");
        }
        assert_eq!(quotas(r#"["10/s", "1000/h"]"#).unwrap(), ["10/second", "1000/hour"]);
    }

    #[test]
    fn invalid_quotas_are_rejected_with_the_allowed_form() {
        for (json, expected) in [
            (r#""many""#, "invalid quota"),
            ("7", "a quota, such as"),
            (r#"{"limit": 1}"#, "one of window"),
            (r#"{"limit": 1, "window": "1s", "windowMs": 5}"#, "one of window"),
            (r#"{"limit": 1, "window": "1s", "burst": 5}"#, "unknown field `burst`"),
            (r#"{"limit": -1, "window": "1s"}"#, "invalid value"),
        ] {
            let error = quotas(json).unwrap_err();
            assert!(error.contains(expected), "{json}: {error}");
        }
        let nine = format!("[{}]", [r#""1/s""#; 9].join(","));
        assert!(quotas(&nine).unwrap_err().contains("too many quotas"));
    }
}
