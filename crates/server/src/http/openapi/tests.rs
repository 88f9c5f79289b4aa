//! Tests of `openapi`.

use super::*;

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get("$ref") {
                found.push(target);
            }
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_resolves_and_every_schema_is_used() {
    let document = describe(&HttpSettings::default(), &["api"]);
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(!document.to_string().contains("\"@"), "a bound is not filled in");
    for target in &found {
        assert!(document.pointer(&target[1..]).is_some(), "{target}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        let target = format!("#/components/schemas/{name}");
        assert!(found.contains(&target.as_str()), "{name} is not used");
    }
}

#[test]
fn every_route_is_described_once() {
    let document = describe(&HttpSettings::default(), &["api"]);
    let mut ids = Vec::new();
    for route in ROUTES {
        let method = route.method.to_ascii_lowercase();
        let operation = &document["paths"][route.path][&method];
        ids.push(operation["operationId"].as_str().unwrap());
        assert!(operation["responses"]["500"].is_object(), "{}", route.path);
    }
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn bounds_are_the_current_ones() {
    let settings = HttpSettings { key_max: 77, batch_max: 88, ..HttpSettings::default() };
    let document = describe(&settings, &["api"]);
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Ask"]["properties"]["key"], reference("Key"));
    assert_eq!(schemas["Key"]["maxLength"], 77);
    assert_eq!(schemas["Units"]["maximum"], Quota::LIMIT_MAX);
    assert_eq!(schemas["Asks"]["properties"]["asks"]["maxItems"], 88);
    assert_eq!(schemas["PolicyName"]["examples"], json!(["api"]));
}
