//! Fields of a request in the JSON form of protocol buffers: names in either spelling, numbers as
//! numbers or strings, `null` for absent fields.

use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use serde_json::Value;

use crate::domain::{number_of, unknown_unit};
use crate::json_object::Object;
use crate::spec::Unit;

/// A whole number, also as a string.
#[derive(Debug, Clone, Copy)]
struct Number(u64);

pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(|Object(object)| object))
}

pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    Ok(list.into_iter().flatten().map(|Object(object)| object).collect())
}

pub(crate) fn number<'de, D: Deserializer<'de>, T: TryFrom<u64> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let Some(Number(number)) = Option::deserialize(deserializer)? else { return Ok(T::default()) };
    let refused = || format!("{number} is out of range: use 0 to {}", u32::MAX);
    T::try_from(number).map_err(|_| D::Error::custom(refused()))
}

/// A unit by its name or number. Whether there is such a number is checked later, as for gRPC.
pub(crate) fn unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let given = Value::deserialize(deserializer)?;
    let number = match &given {
        Value::Null => Some(0),
        Value::String(name) => Unit::parse(name).map(number_of),
        other => other.as_u64().and_then(|number| i32::try_from(number).ok()),
    };
    let shown = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    number.ok_or_else(|| D::Error::custom(unknown_unit(shown)))
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number that is not negative")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
        let number = text.parse().map(Number);
        number.map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}
