//! The JSON Schema of the native format, generated from the table.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::print::yaml_to_json;
use super::table::{Absent, Field, Kind, ROOT, Section};

/// A time: numbers with units.
const TIME_PATTERN: &str = "^([0-9]+(w|d|h|m|s|ms|us|ns))+$";

/// Returns the JSON Schema of the native format, for editors and other tools.
///
/// Loading rejects everything that the schema rejects, and checks more.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let mut root = section(&ROOT, &mut definitions);
    if let Value::Object(members) = &mut root {
        let draft = "https://json-schema.org/draft/2020-12/schema";
        members.insert("$schema".to_owned(), json!(draft));
        members.insert("title".to_owned(), json!("Slidegate"));
        members.insert("$defs".to_owned(), json!(definitions));
    }
    root
}

type Definitions = BTreeMap<String, Value>;

fn section(section: &'static Section, definitions: &mut Definitions) -> Value {
    let mut properties = Map::new();
    for field in section.fields() {
        properties.insert(field.name.to_owned(), property(field, definitions));
    }
    let required: Vec<&str> =
        section.fields().filter(|field| field.is_required()).map(|field| field.name).collect();
    let mut object = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if let (Value::Object(members), false) = (&mut object, required.is_empty()) {
        members.insert("required".to_owned(), json!(required));
    }
    object
}

fn property(field: &'static Field, definitions: &mut Definitions) -> Value {
    let mut schema = kind(&field.kind, definitions);
    let Value::Object(members) = &mut schema else { return schema };
    let mut description = field.about.to_owned();
    match field.absent {
        Absent::Refused => {}
        Absent::Default(value) => drop(members.insert("default".to_owned(), yaml_to_json(value))),
        Absent::Means(what) => {
            description.push_str(" Absent: ");
            description.push_str(what);
            description.push('.');
        }
    }
    members.insert("description".to_owned(), json!(description));
    members.insert("examples".to_owned(), json!([yaml_to_json(field.example)]));
    schema
}

fn kind(of: &'static Kind, definitions: &mut Definitions) -> Value {
    match of {
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Whole(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        Kind::Decimal(least, most) => {
            json!({"type": "number", "minimum": least, "maximum": most})
        }
        Kind::Time(..) => json!({"type": "string", "pattern": TIME_PATTERN}),
        Kind::Choice(words) => json!({"enum": words}),
        Kind::Leaf(leaf) => json!({"type": "string", "pattern": leaf.pattern}),
        Kind::List(item, most) => {
            json!({"type": "array", "items": kind(item, definitions), "maxItems": most})
        }
        Kind::Named(name, value, most) => json!({
            "type": "object",
            "propertyNames": {"pattern": name.pattern},
            "additionalProperties": kind(value, definitions),
            "maxProperties": most,
        }),
        Kind::Section(section) => reference(section, false, definitions),
        Kind::One(section) => reference(section, true, definitions),
        Kind::Either(kinds) => {
            let any: Vec<Value> = kinds.iter().map(|of| kind(of, definitions)).collect();
            json!({"anyOf": any})
        }
        Kind::Any => json!({}),
    }
}

/// Returns a reference to a section by name, because descriptors contain descriptors.
fn reference(of: &'static Section, one: bool, definitions: &mut Definitions) -> Value {
    let name = of.title();
    let pointer = json!({"$ref": format!("#/$defs/{name}")});
    if definitions.contains_key(&name) {
        return pointer;
    }
    // Inserted before its parts are visited, because sections can be recursive.
    definitions.insert(name.clone(), Value::Null);
    let mut schema = section(of, definitions);
    if let (Value::Object(members), true) = (&mut schema, one) {
        members.insert("minProperties".to_owned(), json!(1));
        members.insert("maxProperties".to_owned(), json!(1));
    }
    definitions.insert(name, schema);
    pointer
}
