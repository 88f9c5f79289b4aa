//! Files below variables below flags, and where each value came from.

use serde_json::Value;
use slidegate_server::config::{
    Environment, Loaded, LogLevel, Origin, Request, load, print_config, print_config_json,
};
use slidegate_server::spec::StoreSpec;

use crate::files::{path, shown};

pub(crate) fn variables(list: &[(&str, &str)]) -> Environment {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn request(file: &str, variables_: &[(&str, &str)], flags: &[(&str, &str)]) -> Request {
    let mut request = Request::new([path(file)]);
    request.environment = variables(variables_);
    request.flags =
        flags.iter().map(|(it, value)| ((*it).to_owned(), (*value).to_owned())).collect();
    request
}

fn printed(loaded: &Loaded) -> String {
    let mut out = Vec::new();
    print_config(loaded, &mut out).unwrap();
    String::from_utf8(out).unwrap().replace(path("").to_str().unwrap(), "")
}

#[test]
fn flags_are_above_variables_and_variables_above_files() {
    let http = |variables, flags| {
        let loaded = load(&request("native/listens.yaml", variables, flags)).unwrap();
        let printed = printed(&loaded);
        let line = printed.lines().find(|line| line.trim_start().starts_with("http:")).unwrap();
        line.trim().to_owned()
    };
    let variable = [("SLIDEGATE_LISTEN_HTTP", "127.0.0.1:2")];
    assert_eq!(http(&[], &[]), "http: 127.0.0.1:1  # file native/listens.yaml:3:9");
    assert_eq!(http(&variable, &[]), "http: 127.0.0.1:2  # environment SLIDEGATE_LISTEN_HTTP");
    let flags = [("listen.http", "127.0.0.1:3")];
    assert_eq!(http(&variable, &flags), "http: 127.0.0.1:3  # flag listen.http");
    let flags = [("listen.http", "127.0.0.1:3"), ("listen.http", "off")];
    assert_eq!(http(&variable, &flags), "http: off  # flag listen.http");
}

#[test]
fn variables_of_every_type() {
    let loaded = load(&request(
        "native/listens.yaml",
        &[
            ("SLIDEGATE_TRUSTED_PROXIES", "10.0.0.0/8, 192.168.0.0/16"),
            ("SLIDEGATE_ENVOY_SHADOW_MODE", "1"),
            ("SLIDEGATE_ENVOY_NEAR_LIMIT_RATIO", "0.5"),
            ("SLIDEGATE_LIMITS_BODY_MAX_KB", "7"),
            ("SLIDEGATE_LIMITS_HEADER_TIMEOUT", "3s"),
            ("SLIDEGATE_LOG_LEVEL", "debug"),
            ("SLIDEGATE_MEMORY_LIMIT_MB", "8"),
            ("SLIDEGATE_LISTEN_GRPC", ""),
            ("SLIDEGATE_CONFIG", "elsewhere"),
            ("PORT", "1234"),
        ],
        &[],
    ))
    .unwrap();
    assert_eq!(loaded.warnings, [], "{}", shown(&loaded.warnings));
    let settings = &loaded.settings;
    assert!(settings.address.is_trusted("192.168.1.1".parse().unwrap()));
    assert!(settings.envoy.shadow_mode);
    assert_eq!(settings.envoy.near_limit_thousandths, 500);
    assert_eq!(settings.limits.body_max, 7 << 10);
    assert_eq!(settings.log.level, LogLevel::Debug);
    // PORT is a generic name: it is read only with files of envoyproxy/ratelimit.
    assert_eq!(settings.listen.http, Some("127.0.0.1:1".parse().unwrap()));
    assert!(matches!(&loaded.spec.stores[0], StoreSpec::Memory(memory) if memory.limit == 8 << 20));
}

#[test]
fn errors_in_variables_and_flags_include_their_names() {
    let refused = load(&request(
        "native/listens.yaml",
        &[("SLIDEGATE_LOG_LEVEL", "loud"), ("SLIDEGATE_LISTEN_HTP", "off")],
        &[("listen.grcp", "off"), ("memory.limit_mb", "many")],
    ))
    .unwrap_err();
    assert_eq!(
        shown(&refused.findings),
        "\
error[unknown-setting]: unknown setting `listen.grcp`
  --> flag listen.grcp
   |
 1 | listen.grcp=off
   |             ^
   = did you mean `listen.grpc`?
   = allowed: "
            .to_owned()
            + &settings_list()
            + "

error[value]: invalid value `loud` for `level`
  --> environment variable SLIDEGATE_LOG_LEVEL
   |
 1 | SLIDEGATE_LOG_LEVEL=loud
   |                     ^^^^
   = allowed: error, warn, info, debug, trace

error[type]: invalid value `many` for `limit_mb`
  --> flag memory.limit_mb
   |
 1 | memory.limit_mb=many
   |                 ^^^^
   = use a number from 1 to 1048576

warning[unknown-variable]: unknown variable SLIDEGATE_LISTEN_HTP
  --> environment variable SLIDEGATE_LISTEN_HTP
   |
 1 | SLIDEGATE_LISTEN_HTP=off
   |                      ^^^
   = did you mean `SLIDEGATE_LISTEN_HTTP`?
   = variables are named after settings: SLIDEGATE_LISTEN_HTTP is `listen.http`

"
    );
    let origins: Vec<_> =
        refused.findings.iter().map(|it| it.place.as_ref().unwrap().origin.clone()).collect();
    assert_eq!(origins[1], Origin::Environment("SLIDEGATE_LOG_LEVEL".to_owned()));
}

fn settings_list() -> String {
    let mut out = Vec::new();
    print_config_json(&load(&Request::default()).unwrap(), &mut out).unwrap();
    let all: Value = serde_json::from_slice(&out).unwrap();
    let names: Vec<_> = all["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["setting"].as_str().unwrap().to_owned())
        .collect();
    names.join(", ")
}

#[test]
fn printed_configuration_can_be_loaded_again_and_contains_no_secret() {
    for file in
        ["native/hurts.yaml", "native/listens.yaml", "sliding/good.yaml", "envoy/metadata.yaml"]
    {
        let loaded = load(&request(file, &[("SLIDEGATE_LOG_FORMAT", "json")], &[])).unwrap();
        let text = printed(&loaded);
        assert!(!text.contains("swordfish") && !text.contains("hunter2"), "{text}");
        let folder = std::env::temp_dir().join(format!("slidegate-print-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let again = folder.join("again.yaml");
        std::fs::write(&again, &text).unwrap();
        let again = load(&Request::new([again])).unwrap_or_else(|it| panic!("{text}\n{it}"));
        assert_eq!(again.settings, loaded.settings, "{text}");
        assert_eq!(again.spec.policies, loaded.spec.policies, "{text}");
        assert_eq!(again.spec.rules, loaded.spec.rules, "{text}");
        assert_eq!(again.spec.domains, loaded.spec.domains, "{text}");
        assert_eq!(again.spec.stores[0], loaded.spec.stores[0], "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn passwords_of_addresses_and_variables_are_stars() {
    let loaded = load(&request(
        "envoy/wildcard.yaml",
        &[("REDIS_URL", "redis://me:hunter2@localhost"), ("REDIS_AUTH", "you:swordfish")],
        &[],
    ))
    .unwrap();
    let mut json = Vec::new();
    print_config_json(&loaded, &mut json).unwrap();
    let text = printed(&loaded) + &String::from_utf8(json).unwrap() + &format!("{loaded:?}");
    assert!(text.contains("redis://me:*******@localhost"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains("swordfish"), "{text}");
}
