//! A request in the JSON form of protocol buffers: names in either spelling, numbers as numbers or
//! strings, `null` for what is not said.

use core::fmt;
use core::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::domain::{Descriptor, Entry, Invalid, Override, Question, unit_of, unknown_unit};
use crate::spec::Unit;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct JsonRequest {
    domain: Option<String>,
    descriptors: Option<Vec<Object<RequestDescriptor>>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct RequestDescriptor {
    entries: Option<Vec<Object<RequestEntry>>>,
    limit: Option<Object<Limit>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RequestEntry {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct Limit {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Number>,
    unit: Option<UnitWord>,
}

/// Something written with names: a list of its values is not the same.
#[derive(Debug)]
struct Object<T>(T);

/// A whole number, also as a string.
#[derive(Debug, Clone, Copy)]
struct Number(u64);

/// A unit by its name or number.
#[derive(Debug)]
enum UnitWord {
    Name(String),
    Number(u64),
}

impl JsonRequest {
    pub(super) fn new(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body).map(|Object(request)| request)
    }

    pub(super) fn question(&self) -> Result<Question<'_>, Invalid> {
        let descriptors = self.descriptors.iter().flatten().map(|Object(one)| one.view());
        Ok(Question {
            domain: self.domain.as_deref().unwrap_or_default(),
            descriptors: descriptors.collect::<Result<_, _>>()?,
            hits_addend: small("hits_addend", self.hits_addend)?,
        })
    }
}

impl RequestDescriptor {
    fn view(&self) -> Result<Descriptor<'_>, Invalid> {
        Ok(Descriptor {
            entries: self.entries.iter().flatten().map(|Object(entry)| entry.view()).collect(),
            limit: self.limit.as_ref().map(|Object(limit)| limit.view()).transpose()?,
            hits_addend: self.hits_addend.map(|Number(hits)| hits),
            is_negative_hits: self.is_negative_hits.unwrap_or_default(),
        })
    }
}

impl RequestEntry {
    fn view(&self) -> Entry<'_> {
        Entry {
            key: self.key.as_deref().unwrap_or_default(),
            value: self.value.as_deref().unwrap_or_default(),
        }
    }
}

impl Limit {
    fn view(&self) -> Result<Override, Invalid> {
        let unit = match &self.unit {
            Some(UnitWord::Name(name)) => Unit::parse(name).ok_or_else(|| unknown_unit(name)),
            Some(UnitWord::Number(number)) => {
                let unit = i32::try_from(*number).ok().and_then(unit_of);
                unit.ok_or_else(|| unknown_unit(number))
            }
            None => Err(unknown_unit(0)),
        };
        Ok(Override { requests: small("requests_per_unit", self.requests_per_unit)?, unit: unit? })
    }
}

fn small(what: &str, number: Option<Number>) -> Result<u32, Invalid> {
    let Number(number) = number.unwrap_or(Number(0));
    u32::try_from(number).map_err(|_| {
        Invalid::new(format!("{what} {number} is out of range: use 0 to {}", u32::MAX))
    })
}

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

impl<'de> Deserialize<'de> for UnitWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(name) => Ok(Self::Name(name)),
            serde_json::Value::Number(number) => {
                let number = number.as_u64().ok_or_else(|| D::Error::custom(unknown_unit(number)));
                number.map(Self::Number)
            }
            other => Err(D::Error::custom(unknown_unit(other))),
        }
    }
}
