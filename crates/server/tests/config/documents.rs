//! What is written about configurations is true: examples load, the reference is the table's.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use slidegate_server::cli::config::{TestOptions, test};
use slidegate_server::config::{self, Request, load};

use crate::files::path;

fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md")
}

/// Blocks of YAML, each with the words behind its fence.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(words), None) => open = Some((words.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, block))) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks.retain(|(words, _)| words.starts_with("yaml"));
    blocks
}

#[test]
fn every_example_of_the_document_loads() {
    let text = fs::read_to_string(document()).unwrap();
    let folder = std::env::temp_dir().join(format!("slidegate-documents-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let blocks = blocks(&text);
    assert!(blocks.len() >= 6, "{} examples", blocks.len());
    for (words, block) in blocks {
        let is_test = words.contains("test");
        let file = folder.join(if is_test { "test.yaml" } else { "slidegate.yaml" });
        fs::write(&file, &block).unwrap();
        let mut request = Request::new([folder.join("slidegate.yaml")]);
        request.secrets = false;
        if is_test {
            // It is about the file that was shown before it.
            let options = TestOptions { files: vec![file], request, json: false, colors: false };
            let mut out = Vec::new();
            let code = test(&options, &mut out);
            assert_eq!(code, 0, "{block}\n{}", String::from_utf8(out).unwrap());
            continue;
        }
        let loaded = load(&request).unwrap_or_else(|refused| panic!("{block}\n{refused}"));
        assert_eq!(loaded.warnings.iter().find(|it| it.is_error()), None);
    }
    fs::remove_dir_all(&folder).unwrap();
}

// A key that is added to the table is documented by running the test with UPDATE=1.
#[test]
fn the_reference_of_the_document_is_the_table_s() {
    const BEGIN: &str = "<!-- reference: begin -->\n\n";
    const END: &str = "<!-- reference: end -->";
    let text = fs::read_to_string(document()).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let reference = config::reference() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        fs::write(document(), format!("{before}{BEGIN}{reference}{END}{after}")).unwrap();
        return;
    }
    assert!(
        written == reference,
        "docs/configuration.md is behind the table of keys: run the tests with UPDATE=1"
    );
}

/// A schema as far as ours goes, without its patterns.
fn fits(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let object = schema.as_object().unwrap();
    if let Some(target) = object.get("$ref") {
        let target = target.as_str().unwrap().trim_start_matches('#');
        return fits(value, root.pointer(target).unwrap(), root);
    }
    let wrong = |what: &str| Err(format!("{value} is not {what}"));
    for (word, rule) in object {
        let number = || rule.as_f64().unwrap();
        match word.as_str() {
            "anyOf" => {
                let any = rule.as_array().unwrap();
                if !any.iter().any(|schema| fits(value, schema, root).is_ok()) {
                    return wrong("any of them");
                }
            }
            "enum" if !rule.as_array().unwrap().contains(value) => return wrong("a choice"),
            "type" => {
                let holds = match rule.as_str().unwrap() {
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64(),
                    "number" => value.is_number(),
                    "string" => value.is_string(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("{other}"),
                };
                if !holds {
                    return wrong(&rule.to_string());
                }
            }
            "minimum" if value.as_f64().unwrap() < number() => return wrong("large enough"),
            "maximum" if value.as_f64().unwrap() > number() => return wrong("small enough"),
            "items" => {
                value.as_array().unwrap().iter().try_for_each(|item| fits(item, rule, root))?;
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    value.get(name.as_str().unwrap()).ok_or(format!("{value} lacks {name}"))?;
                }
            }
            "maxProperties" if value.as_object().unwrap().len() as u64 > rule.as_u64().unwrap() => {
                return wrong("of few keys");
            }
            _ => {}
        }
    }
    let Some(members) = value.as_object().filter(|_| object.contains_key("properties")) else {
        let more = object.get("additionalProperties");
        let members = value.as_object().into_iter().flatten();
        return members.map(|(_, member)| member).try_for_each(|member| match more {
            Some(schema) => fits(member, schema, root),
            None => Ok(()),
        });
    };
    for (name, member) in members {
        let schema = &object["properties"][name];
        if schema.is_null() {
            return Err(format!("{name} is not a key"));
        }
        fits(member, schema, root)?;
    }
    Ok(())
}

/// A file as JSON, as the printed configuration shows it.
fn as_json(file: &str) -> Value {
    let text = fs::read_to_string(path(file)).unwrap();
    config::yaml_to_json(&text)
}

#[test]
fn the_schema_takes_what_loads_and_refuses_what_does_not() {
    let schema = config::schema();
    for file in [
        "native/hurts.yaml",
        "native/listens.yaml",
        "native/tested.yaml",
        "../../../examples/slidegate.yaml",
    ] {
        fits(&as_json(file), &schema, &schema).unwrap_or_else(|wrong| panic!("{file}: {wrong}"));
    }
    for file in ["native/bad.yaml", "sliding/good.yaml", "envoy/basic_config.yaml"] {
        assert!(fits(&as_json(file), &schema, &schema).is_err(), "{file}");
    }
}

// Every example and every default in the schema is one that the schema itself takes.
#[test]
fn examples_and_defaults_of_the_schema_fit_it() {
    fn walk(schema: &Value, root: &Value, count: &mut usize) {
        if let Some(object) = schema.as_object() {
            let values = object.get("examples").and_then(Value::as_array).into_iter().flatten();
            for value in values.chain(object.get("default")) {
                *count += 1;
                fits(value, schema, root).unwrap_or_else(|wrong| panic!("{schema}: {wrong}"));
            }
            object.values().for_each(|inner| walk(inner, root, count));
        }
    }
    let schema = config::schema();
    let mut count = 0;
    walk(&schema, &schema, &mut count);
    assert!(count > 150, "{count}");
}
