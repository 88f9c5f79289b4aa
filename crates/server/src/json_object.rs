//! JSON objects that are not arrays, and errors without the values of clients.

use core::fmt;
use core::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

/// A value that is written with names. Structs of serde also accept an array of their members, in an
/// order that no client should have to know.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Removes the value that a message of serde quotes, which may be a key: `invalid type: string "alice",
/// expected a map` becomes `invalid type: string, expected a map`.
pub(crate) fn without_values(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    match found.split_once(": ") {
        Some((kind @ ("invalid type" | "invalid value"), value)) => {
            let what = value.split(['"', '`']).next().unwrap_or_default().trim_end();
            format!("{kind}: {what}, expected {expected}")
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Check {
        key: String,
        cost: Option<u8>,
    }

    #[test]
    fn an_array_is_not_an_object() {
        let Object(check) = serde_json::from_str::<Object<Check>>(r#"{"key": "alice"}"#).unwrap();
        assert_eq!((check.key.as_str(), check.cost), ("alice", None));
        for text in [r#"["alice", 1]"#, r#""alice""#, "null", "1"] {
            let error = serde_json::from_str::<Object<Check>>(text).unwrap_err().to_string();
            assert!(error.contains("expected an object"), "{error}");
        }
    }

    #[test]
    fn errors_do_not_quote_values() {
        for (text, expected) in [
            (r#""alice""#, "invalid type: string, expected an object"),
            (r#"{"key": 1234567}"#, "invalid type: integer, expected a string"),
            (r#"{"key": "k", "cost": "alice, expected x"}"#, "invalid type: string, expected u8"),
            (r#"{"key": "k", "cost": 77777}"#, "invalid value: integer, expected u8"),
            (r#"{"kye": "alice"}"#, "unknown field `kye`, expected `key` or `cost`"),
        ] {
            let error = serde_json::from_str::<Object<Check>>(text).unwrap_err().to_string();
            let shown = without_values(&error);
            assert!(shown.starts_with(expected), "{shown}");
            for value in ["alice", "1234567", "77777"] {
                assert!(!shown.contains(value), "{shown}");
            }
        }
    }
}
