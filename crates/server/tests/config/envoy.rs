//! Files of envoyproxy/ratelimit: each rule of that service, in files with the names that its own
//! tests have.

use serde_json::json;
use slidegate::Algorithm;
use slidegate_server::config::{Environment, Format, Loaded, Request, load};
use slidegate_server::spec::{DescriptorSpec, DomainSpec, EnvoyFailureMode, RateSpec, Unit};

use crate::files::{bad, codes, good, path, shown};

/// The only domain of a file.
#[track_caller]
fn domain(name: &str) -> DomainSpec {
    let loaded = good(&format!("envoy/{name}.yaml"));
    assert_eq!(loaded.warnings, [], "{}", shown(&loaded.warnings));
    let [domain] = <[DomainSpec; 1]>::try_from(loaded.spec.domains).unwrap();
    domain
}

fn rate(descriptor: &DescriptorSpec) -> (u32, Unit) {
    let RateSpec { requests, unit, algorithm } = descriptor.limit.as_ref().unwrap().rate.unwrap();
    assert_eq!(algorithm, Algorithm::Log);
    (requests, unit)
}

fn find<'a>(domain: &'a DomainSpec, key: &str, value: Option<&str>) -> &'a DescriptorSpec {
    let found = domain.descriptors.iter().find(|it| it.key == key && it.value.as_deref() == value);
    found.unwrap()
}

#[test]
fn basic_config() {
    let domain = domain("basic_config");
    assert_eq!((domain.name.as_str(), domain.store.as_str()), ("shop", "memory"));
    let tenant = find(&domain, "tenant", Some("acme"));
    assert_eq!(tenant.limit, None);
    assert_eq!(rate(&tenant.descriptors[0]), (5, Unit::Second));
    // Units in any case of letters.
    assert_eq!(rate(&tenant.descriptors[1]), (10, Unit::Second));
    assert_eq!(tenant.descriptors[1].value.as_deref(), Some("/checkout"));
    assert_eq!(rate(find(&domain, "user", None)), (20, Unit::Minute));
    assert_eq!(rate(find(&domain, "user", Some("admin"))), (30, Unit::Minute));
    // Known, and not limited.
    assert_eq!(find(&domain, "user", Some("monitor")).limit, None);
    let export = find(&domain, "export", None).limit.clone().unwrap();
    assert_eq!(export.name.as_deref(), Some("export_hourly"));
    // A number is a value by its text, and a number of requests by YAML 1.1.
    assert_eq!(rate(find(&domain, "status", Some("404"))), (16, Unit::Hour));
    let internal = find(&domain, "internal", None).limit.clone().unwrap();
    assert_eq!(internal.rate, None);
    let search = find(&domain, "search", None);
    assert!(search.detailed_metric && search.value_to_metric);
}

#[test]
fn wildcard() {
    let values: Vec<_> =
        domain("wildcard").descriptors.into_iter().map(|it| it.value.unwrap()).collect();
    assert_eq!(values, ["/api/*", "/files/*/raw", "a*b*c"]);
}

#[test]
fn share_threshold() {
    let domain = domain("share_threshold");
    assert!(find(&domain, "file", Some("docs/*")).share_threshold);
    assert!(find(&domain, "group", Some("g-*")).share_threshold);
}

#[test]
fn metadata() {
    let domain = domain("metadata");
    let expected = json!({"upstream": {"name": "big", "weights": [1, 2.5, true, null, "3"]}});
    assert_eq!(find(&domain, "plan", Some("gold")).metadata, Some(expected));
    assert_eq!(find(&domain, "plan", None).metadata, None);
}

#[test]
fn shadowmode_config() {
    let domain = domain("shadowmode_config");
    assert!(find(&domain, "user", None).shadow_mode);
    assert!(find(&domain, "quota", None).quota_mode);
}

#[test]
fn replaces() {
    let domain = domain("replaces");
    let limit = |key| find(&domain, key, None).limit.clone().unwrap();
    assert_eq!(limit("premium").replaces, ["base", "trial"]);
    assert_eq!(limit("staff").replaces, ["base"]);
}

#[test]
fn anchors_and_merged_keys() {
    let domain = domain("merge_keys");
    assert_eq!(rate(find(&domain, "user", Some("admin"))), (20, Unit::Minute));
    assert_eq!(rate(find(&domain, "guest", None)), (5, Unit::Minute));
}

// Files that the service rejects are rejected, each with a distinct code and a place.
#[test]
fn files_that_it_refuses() {
    for (name, code, line, column) in [
        ("bad_yaml", "yaml", 1, 1),
        ("bad_limit_unit", "unit", 5, 13),
        ("duplicate_key", "duplicate-descriptor", 5, 10),
        ("empty_domain", "empty-domain", 1, 1),
        ("empty_key", "empty-key", 3, 5),
        ("misspelled_key", "unknown-key", 4, 5),
        ("misspelled_key2", "unknown-key", 6, 7),
        ("non_map_list", "non-map-list", 3, 5),
        ("non_string_key", "non-string-key", 2, 1),
        ("replaces_empty", "replaces-empty", 7, 11),
        ("replaces_self", "replaces-self", 7, 11),
        ("unlimited_with_unit", "unlimited-unit", 6, 13),
        ("share_threshold_without_wildcard", "share-threshold", 5, 22),
        ("extensions_without_mark", "unknown-key", 4, 54),
    ] {
        let refused = bad(&format!("envoy/{name}.yaml"));
        let first = &refused.findings[0];
        let place = first.place.as_ref().unwrap();
        assert_eq!((first.code, place.line, place.column), (code, line, column), "{name}");
    }
}

#[test]
fn misspelled_keys_are_reported_with_a_suggestion() {
    assert_eq!(
        shown(&bad("envoy/misspelled_key.yaml").findings),
        "\
error[unknown-key]: `ratelimit` is not a key of a descriptor
  --> envoy/misspelled_key.yaml:4:5
   |
 4 |     ratelimit:
   |     ^^^^^^^^^
   = did you mean `rate_limit`?
   = allowed: key, value, rate_limit, shadow_mode, quota_mode, detailed_metric, value_to_metric, \
share_threshold, metadata, descriptors

"
    );
}

#[test]
fn duplicate_keys_are_reported_with_both_places() {
    assert_eq!(
        shown(&bad("envoy/duplicate_key.yaml").findings),
        "\
error[duplicate-descriptor]: two descriptors of this level are `a_b_c`
  --> envoy/duplicate_key.yaml:5:10
   |
 5 |   - key: a_b
   |          ^^^
   :: the first is here
  --> envoy/duplicate_key.yaml:3:10
   |
 3 |   - key: a
   |          ^
   = key and value are joined by `_`: key `a_b` value `c` is key `a` value `b_c`

"
    );
}

#[test]
fn all_wrong_types_of_a_file_are_reported_at_once() {
    let refused = bad("envoy/wrong_types.yaml");
    let lines: Vec<_> = refused.findings.iter().map(|it| it.place.as_ref().unwrap().line).collect();
    assert_eq!(lines, [4, 9, 5, 6, 10, 11, 13], "{refused}");
    let expected = ["type", "type", "type", "type", "type", "range", "type"];
    assert_eq!(codes(&refused.findings), expected);
}

// That service ignores it silently, although the author had an intention.
#[test]
fn a_known_key_in_the_wrong_place_is_a_warning() {
    let loaded = good("envoy/misplaced_key.yaml");
    assert_eq!(codes(&loaded.warnings), ["misplaced-key"]);
    assert!(!loaded.spec.domains[0].descriptors[0].shadow_mode);
}

#[test]
fn our_algorithms_by_a_mark_or_a_flag() {
    let loaded = good("envoy/extensions.yaml");
    let algorithm = |loaded: &Loaded, index: usize| {
        let descriptor = &loaded.spec.domains[0].descriptors[index];
        descriptor.limit.as_ref().unwrap().rate.unwrap().algorithm
    };
    assert_eq!(algorithm(&loaded, 0), Algorithm::LogCapped { bytes_max: 4096 });
    assert_eq!(algorithm(&loaded, 1), Algorithm::Gcra);
    let mut request = Request::new([path("envoy/extensions_without_mark.yaml")]);
    request.envoy_extensions = true;
    assert_eq!(algorithm(&load(&request).unwrap(), 0), Algorithm::Gcra);
}

#[test]
fn failure_modes_of_domains_and_descriptors() {
    let loaded = good("envoy/failure_mode.yaml");
    let domain = &loaded.spec.domains[0];
    assert_eq!(domain.failure_mode, EnvoyFailureMode::Local);
    assert_eq!(domain.descriptors[0].failure_mode, Some(EnvoyFailureMode::Deny));
    assert_eq!(domain.descriptors[1].failure_mode, None);

    let request = Request::new([path("envoy/basic_config.yaml")]);
    let mode = |request: &Request| load(request).unwrap().spec.domains[0].failure_mode;
    assert_eq!(mode(&request), EnvoyFailureMode::Error, "as that service");
    let environment = variables(&[("SLIDEGATE_ENVOY_FAILURE_MODE", "allow")]);
    assert_eq!(mode(&Request { environment, ..request }), EnvoyFailureMode::Allow);
}

#[test]
fn directory_may_add_to_a_domain_only_if_merging_is_enabled() {
    let mut request = Request::new([path("envoy/merge_domain")]);
    let refused = load(&request).unwrap_err();
    assert_eq!(codes(&refused.findings), ["duplicate-domain"]);
    request.environment = variables(&[("MERGE_DOMAIN_CONFIG", "true")]);
    let loaded = load(&request).unwrap();
    let [domain] = loaded.spec.domains.as_slice() else { panic!("{:?}", loaded.spec.domains) };
    let keys: Vec<_> = domain.descriptors.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["user", "tenant"]);
    // A new file in it must be noticed, so the directory is watched too.
    assert_eq!(loaded.files.len(), 3);
    assert_eq!(loaded.files[0], path("envoy/merge_domain"));
}

#[test]
fn the_directory_is_named_by_three_variables() {
    let root = path("");
    let runtime =
        |list: &[(&str, &str)]| Request { environment: variables(list), ..Request::default() };
    let request = runtime(&[
        ("RUNTIME_ROOT", root.to_str().unwrap()),
        ("RUNTIME_SUBDIRECTORY", "envoy"),
        ("RUNTIME_APPDIRECTORY", "merge_domain"),
        ("MERGE_DOMAIN_CONFIG", "1"),
    ]);
    assert_eq!(load(&request).unwrap().spec.domains.len(), 1);
    let request =
        runtime(&[("RUNTIME_ROOT", "/nowhere"), ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")]);
    let loaded = load(&request).unwrap();
    assert_eq!(
        (loaded.spec.domains.len(), codes(&loaded.warnings)),
        (0, vec!["file", "backend-type", "reference", "data-closed"])
    );
    let request = runtime(&[("RUNTIME_ROOT", "/nowhere")]);
    assert_eq!(codes(&load(&request).unwrap_err().findings)[0], "file");
}

#[test]
fn files_whose_names_begin_with_a_dot() {
    let folder = std::env::temp_dir().join(format!("slidegate-dots-{}", std::process::id()));
    let inner = folder.join("..2026_01_01");
    std::fs::create_dir_all(&inner).unwrap();
    for (name, domain) in [("a.yaml", "a"), (".b.yaml", "b"), ("..2026_01_01/a.yaml", "a")] {
        std::fs::write(folder.join(name), format!("domain: {domain}\n")).unwrap();
    }
    let names = |variables_: &[(&str, &str)]| {
        let mut request = Request::new([folder.clone()]);
        request.environment = variables(variables_);
        let loaded = load(&request).unwrap();
        let names: Vec<_> = loaded.spec.domains.iter().map(|it| it.name.clone()).collect();
        let said = loaded.warnings.iter().any(|finding| finding.code == "dotfiles");
        (names.join(","), said)
    };
    assert_eq!(names(&[]), ("a".to_owned(), true));
    assert_eq!(names(&[("RUNTIME_IGNOREDOTFILES", "false")]), ("b,a".to_owned(), false));
    assert_eq!(names(&[("RUNTIME_IGNOREDOTFILES", "true")]), ("a".to_owned(), false));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_format_can_be_forced() {
    let mut request = Request::new([path("envoy/basic_config.yaml")]);
    request.format = Some(Format::Native);
    assert!(codes(&load(&request).unwrap_err().findings).contains(&"unknown-key"));
    let mut request = Request::new([path("envoy/merge_domain")]);
    request.format = Some(Format::Sliding);
    assert_eq!(codes(&load(&request).unwrap_err().findings), ["format"]);
}

fn variables(list: &[(&str, &str)]) -> Environment {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn large_files_long_names_and_deep_trees_are_read() {
    let folder = std::env::temp_dir().join(format!("slidegate-large-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let limit = "rate_limit: {unit: minute, requests_per_unit: 5}";
    let mut large = "domain: large\ndescriptors:\n".to_owned();
    for number in 0..30_000 {
        large.extend([
            "  - key: user\n    value: \"",
            &number.to_string(),
            "\"\n    ",
            limit,
            "\n",
        ]);
    }
    assert!(large.len() > 2 << 20);
    std::fs::write(folder.join("large.yaml"), large).unwrap();
    let long = "x".repeat(4000);
    let text = format!("domain: long\ndescriptors:\n  - key: {long}\n    {limit}\n");
    std::fs::write(folder.join("long.yaml"), text).unwrap();
    let tree =
        (0..100).fold(limit.to_owned(), |below, _| format!("descriptors: [{{key: k, {below}}}]"));
    std::fs::write(folder.join("deep.yaml"), format!("{{domain: deep, {tree}}}")).unwrap();
    let spec = load(&Request::new([folder.clone()])).unwrap().spec;
    let domain = |name: &str| spec.domains.iter().find(|domain| domain.name == name).unwrap();
    assert_eq!(domain("large").descriptors.len(), 30_000);
    assert_eq!(domain("long").descriptors[0].key, long);
    let mut levels = 0;
    let mut below = &domain("deep").descriptors;
    while let [one] = &**below {
        (levels, below) = (levels + 1, &one.descriptors);
    }
    assert_eq!(levels, 100);
    std::fs::remove_dir_all(&folder).unwrap();
}
