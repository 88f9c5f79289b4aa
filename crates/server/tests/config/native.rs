//! The native format.

use core::time::Duration;
use std::fs;

use slidegate::{Algorithm, Cost, FailureMode, OnFull, Quota};
use slidegate_http::Duplicates;
use slidegate_server::config::{
    AuditDecisions, InvalidConfig, Loaded, LogFormat, Request, Settings, load,
};
use slidegate_server::spec::{
    Commas, KeyPart, MissingKey, PathMatch, PolicySpec, RedisPlace, RedisSpec, Rollout, Spec,
    StoreSpec,
};

use crate::files::{bad, codes, good, path, shown};

/// What a text says, as a file in a new folder.
fn from_text(text: &str) -> Loaded {
    load_text(text).unwrap_or_else(|refused| panic!("{text}\n{refused}"))
}

fn load_text(text: &str) -> Result<Loaded, Box<InvalidConfig>> {
    let folder = std::env::temp_dir().join(format!(
        "slidegate-native-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("slidegate.yaml");
    fs::write(&file, text).unwrap();
    fs::write(folder.join("secret"), "0123456789abcdef\n").unwrap();
    let loaded = load(&Request::new([file]));
    fs::remove_dir_all(&folder).unwrap();
    loaded
}

fn policy(text: &str) -> PolicySpec {
    let text = format!(
        "stores: {{shared: {{redis: \"redis://localhost\", key_secret_file: secret}}}}\npolicies:\n  - {text}\n"
    );
    from_text(&text).spec.policies.remove(0)
}

#[test]
fn the_example_file() {
    let example = path("../../../examples/slidegate.yaml");
    let loaded = load(&Request::new([example])).unwrap_or_else(|refused| panic!("{refused}"));
    assert_eq!(loaded.warnings, [], "{}", shown(&loaded.warnings));
    let Spec { stores, policies, domains, rules } = &loaded.spec;
    assert_eq!((stores.len(), policies.len(), domains.len(), rules.len()), (2, 3, 1, 3));
    assert_eq!(loaded.settings.listen.resp, None);
    assert!(loaded.settings.envoy.response_headers);
    assert!(loaded.settings.address.is_trusted("10.1.2.3".parse().unwrap()));
    let snapshot = loaded.settings.snapshot.unwrap();
    assert!(snapshot.path.ends_with("examples/slidegate.snapshot"), "next to the file");
}

#[test]
fn nothing_at_all_is_an_example_on_loopback() {
    let loaded = load(&Request::default()).unwrap();
    assert_eq!((loaded.settings, loaded.warnings), (Settings::default(), Vec::new()));
    assert_eq!((loaded.spec.policies.len(), loaded.spec.rules.len()), (1, 1));
}

#[test]
fn an_empty_file_has_the_defaults() {
    for text in ["", "slidegate: 1\n", "listen:\npolicies:\n"] {
        let loaded = from_text(text);
        assert_eq!(loaded.settings, Settings::default(), "{text:?}");
        assert_eq!(loaded.spec.policies, []);
    }
}

#[test]
fn every_setting_of_a_policy() {
    let minute = Quota::per_minute;
    let mut expected = PolicySpec::new("api", vec![minute(100), Quota::per_hour(1000)]);
    let text = "{name: api, quotas: [100/minute, {limit: 1000, window: 1h}]}";
    assert_eq!(policy(text), expected);

    let banned = PolicySpec::new("api", vec![minute(0), Quota::per_hour(0)]);
    assert_eq!(policy("{name: api, quotas: [0/minute, {limit: 0, window: 1h}]}"), banned);

    expected.algorithm = Algorithm::LogCapped { bytes_max: 4096 };
    expected.rollout = Rollout::Shadow;
    expected.enforce_percent = 10;
    expected.tiers.insert("gold".to_owned(), vec![minute(1000)]);
    expected.store = "shared".to_owned();
    expected.failure_mode = FailureMode::Local;
    expected.secret_keys = true;
    expected.global = true;
    expected.shared.nodes = 4;
    expected.shared.guard_band = Some(0.95);
    expected.shared.deny_cache = 0;
    expected.shared.leases = Some(Duration::from_millis(5));
    expected.candidate = Some(slidegate_server::spec::CandidateSpec {
        quotas: vec![minute(50)],
        algorithm: Algorithm::Segments { count: 60 },
    });
    let text = "{name: api, quotas: [100/minute, 1000/hour], algorithm: {log_capped: 4096}, \
                mode: shadow, enforce_percent: 10, tiers: {gold: 1000/minute}, store: shared, \
                failure_mode: local, secret_keys: true, global: true, nodes: 4, guard_band: 0.95, \
                deny_cache: 0, leases: 5ms, \
                candidate: {quotas: 50/minute, algorithm: {segments: 60}}}";
    assert_eq!(policy(text), expected);
}

#[test]
fn every_algorithm() {
    for (word, algorithm) in [
        ("log", Algorithm::Log),
        ("counter", Algorithm::Counter),
        ("gcra", Algorithm::Gcra),
        ("fixed", Algorithm::Fixed),
        ("{segments: 6}", Algorithm::Segments { count: 6 }),
    ] {
        let text = format!("{{name: api, quotas: 5/s, algorithm: {word}}}");
        assert_eq!(policy(&text).algorithm, algorithm);
    }
}

// Such a rule would limit nothing.
#[test]
fn a_path_that_never_matches_is_an_error() {
    let rule = |matches: &str| {
        load_text(&format!(
            "policies: [{{name: api, quotas: 5/s}}]\n\
             rules: [{{name: a, key: [address], policy: api, match: {{{matches}}}}}]\n"
        ))
    };
    let first = |matches: &str| rule(matches).unwrap().spec.rules.remove(0).matches;
    assert_eq!(first("path: /a").path_match, PathMatch::Normalized);
    let exact = first("path: /a;b, path_match: exact, ignore_case: true");
    assert_eq!((exact.path_match, exact.ignore_case), (PathMatch::Exact, true));
    let refused = rule("path: [/a, /a;b]").unwrap_err();
    assert_eq!(codes(&refused.findings), ["value"]);
    assert!(refused.to_string().contains("no path matches `/a;b`"), "{refused}");
}

#[test]
fn every_setting_of_a_rule() {
    let loaded = from_text(
        "policies: [{name: api, quotas: 5/s, tiers: {gold: 9/s}, secret_keys: true}]\n\
         rules:\n  - name: api\n    match:\n      path: [/a, /b/*]\n      method: POST\n      \
         host: API.example.com\n      header: {X-Plan: gold, x-any: \"*\"}\n    \
         key: [address, {header: X-Api-Key}, host, method, path, {constant: all}]\n    \
         policy: api\n    tier_header: X-Plan\n    cost: 5\n    missing_key: deny\n    \
         duplicates: last\n    commas: keep\n",
    );
    assert_eq!(loaded.warnings, []);
    let rule = &loaded.spec.rules[0];
    assert_eq!((rule.duplicates, rule.commas), (Duplicates::Last, Commas::Keep));
    assert_eq!(rule.matches.paths, ["/a", "/b/*"]);
    assert_eq!(rule.matches.methods, ["POST"]);
    assert_eq!(rule.matches.hosts, ["api.example.com"]);
    let headers = [("x-plan".to_owned(), Some("gold".to_owned())), ("x-any".to_owned(), None)];
    assert_eq!(rule.matches.headers, headers);
    let key = [
        KeyPart::Address,
        KeyPart::Header("x-api-key".to_owned()),
        KeyPart::Host,
        KeyPart::Method,
        KeyPart::Path,
        KeyPart::Constant("all".to_owned()),
    ];
    assert_eq!(rule.key, key);
    assert_eq!(rule.tier_header.as_deref(), Some("x-plan"));
    assert_eq!((rule.cost, rule.missing), (Cost::new(5).unwrap(), MissingKey::Deny));
}

#[test]
fn every_setting_of_a_store() {
    let loaded = from_text(
        "stores:\n  one: {redis: \"redis://h:1\", username: me, password_file: secret, \
         database: 2, prefix: p, key_secret_file: secret, deadline: 5ms, connect_deadline: 1s, \
         in_flight_max: 9, checks_per_call_max: 7, sweep_interval: 6h, tls_authority: secret}\n  \
         two: {sentinel: {addresses: [\"redis://h:2\"], service: main}}\n  \
         three: {cluster: [\"redis://h:3\", \"redis://h:4\"]}\n\
         memory: {limit_mb: 1, on_full: deny, sweep_interval: 2s}\n",
    );
    let secret = "0123456789abcdef";
    let StoreSpec::Memory(memory) = &loaded.spec.stores[0] else { panic!("memory first") };
    assert_eq!((memory.limit, memory.on_full), (1 << 20, OnFull::Deny));
    assert_eq!(memory.sweep_every, Duration::from_secs(2));
    let one = RedisSpec {
        place: RedisPlace::Single("redis://h:1".to_owned()),
        username: Some("me".to_owned()),
        password: Some(secret.to_owned()),
        database: Some(2),
        prefix: "p".to_owned(),
        key_secret: Some(secret.into()),
        deadline: Duration::from_millis(5),
        connect_deadline: Duration::from_secs(1),
        in_flight_max: 9,
        checks_per_call_max: 7,
        sweep_every: Some(Duration::from_secs(6 * 3600)),
        tls_authority: Some(format!("{secret}\n").into()),
    };
    let two = RedisPlace::Sentinel {
        addresses: vec!["redis://h:2".to_owned()],
        service: "main".to_owned(),
    };
    let three = RedisPlace::Cluster(vec!["redis://h:3".to_owned(), "redis://h:4".to_owned()]);
    let expected = [
        StoreSpec::Redis("one".to_owned(), Box::new(one)),
        StoreSpec::Redis(
            "two".to_owned(),
            Box::new(RedisSpec { place: two, ..RedisSpec::default() }),
        ),
        StoreSpec::Redis(
            "three".to_owned(),
            Box::new(RedisSpec { place: three, ..RedisSpec::default() }),
        ),
    ];
    assert_eq!(loaded.spec.stores[1..], expected);
    assert_eq!(loaded.files.len(), 2, "the file and the secret are watched");
}

#[test]
fn every_setting_of_the_process() {
    let loaded = from_text(
        "listen: {http: localhost:1, grpc: \"[::1]:2\", resp: off, admin: 0.0.0.0:3}\n\
         tls: {certificate: secret, key: secret, client_authority: secret}\n\
         admin: {token_file: secret, tls: {certificate: secret, key: secret}}\n\
         snapshot: {path: /s, interval: 1m, start_empty_if_damaged: true}\n\
         trusted_proxies: [10.0.0.0/8]\naddress: {header: forwarded, ipv6_prefix: 56}\n\
         overload: {enabled: true, multiple_percent: 300, concurrency_max: 4, queue_max: 0, \
         delay_max: 1s}\n\
         audit: {path: /a, decisions: sampled, sample_percent: 7, size_max_mb: 2, files: 3}\n\
         limits: {connections: 1, header_timeout: 1s, body_max_kb: 2, batch_max: 3, key_max: 16, \
         descriptors_max: 5, streams_max: 6}\nlog: {level: trace, format: json}\n\
         tracing: {endpoint: \"http://[::1]:4317\", sample_ratio: 0.25, queue_max: 9}\n\
         envoy: {usage: report, near_limit_ratio: 0.855, limit_header: X-Limit}\n",
    );
    let settings = loaded.settings;
    assert_eq!(settings.listen.http, Some("127.0.0.1:1".parse().unwrap()));
    assert_eq!(settings.listen.grpc, Some("[::1]:2".parse().unwrap()));
    assert_eq!(settings.listen.resp, None);
    assert!(settings.tls.unwrap().client_authority.unwrap().ends_with("secret"));
    assert!(settings.admin.token_file.is_some() && settings.admin.tls.is_some());
    let snapshot = settings.snapshot.unwrap();
    assert!(snapshot.start_empty_if_damaged);
    assert_eq!(snapshot.interval, Duration::from_secs(60));
    let key = settings.address.key_of("2001:db8::1".parse().unwrap());
    assert_eq!(key.to_string(), "2001:db8::/56");
    assert_eq!(settings.overload.concurrency_max, Some(4));
    assert_eq!((settings.overload.queue_max, settings.overload.multiple_percent), (0, 300));
    let audit = settings.audit.unwrap();
    assert_eq!((audit.decisions, audit.sample_percent), (AuditDecisions::Sampled, 7));
    assert_eq!((audit.size_max, audit.files), (2 << 20, 3));
    let limits = settings.limits;
    assert_eq!((limits.connections, limits.body_max, limits.batch_max), (Some(1), 2048, 3));
    assert_eq!((limits.key_max, limits.descriptors_max, limits.streams_max), (16, 5, 6));
    assert_eq!(settings.log.format, LogFormat::Json);
    let tracing = settings.tracing.unwrap();
    assert_eq!((tracing.endpoint.as_str(), tracing.queue_max), ("http://[::1]:4317", 9));
    assert!((tracing.sample_ratio - 0.25).abs() < f64::EPSILON);
    assert_eq!(settings.envoy.near_limit_thousandths, 855);
    assert_eq!(settings.envoy.limit_header, "X-Limit");
}

// Each error is reported, none hides another, and no password is shown.
#[test]
fn all_mistakes_of_a_file_at_once() {
    let refused = bad("native/bad.yaml");
    let found: Vec<_> = refused
        .findings
        .iter()
        .filter(|it| it.is_error())
        .map(|it| (it.place.as_ref().unwrap().line, it.code))
        .collect();
    let mut sorted = found.clone();
    sorted.sort_unstable();
    let expected = [
        (2, "unknown-key"),
        (5, "value"),
        (7, "listeners"),
        (8, "admin-open"),
        (9, "range"),
        (9, "type"),
        (9, "value"),
        (11, "one-of"),
        (12, "one-of"),
        (12, "value"),
        (15, "missing-key"),
        (15, "value"),
        (16, "one-of"),
        (17, "duplicate-name"),
        (19, "unknown-store"),
        (20, "value"),
        (21, "duplicate-key"),
        (22, "missing-key"),
        (26, "value"),
        (27, "value"),
        (28, "value"),
        (31, "value"),
        (31, "value"),
        (32, "unknown-key"),
        (33, "unknown-policy"),
        (35, "key-path"),
        (39, "unknown-store"),
        (42, "unit"),
        (43, "value"),
        (43, "value"),
        (44, "value"),
    ];
    assert_eq!(sorted, expected, "{refused}");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
}

// Otherwise the clients of such a policy would take units of other limits.
#[test]
fn names_of_other_counts_are_reserved() {
    let refused = bad("native/reserved.yaml");
    let found = refused.findings.iter().map(|it| (it.place.as_ref().unwrap().line, it.code));
    assert_eq!(found.collect::<Vec<_>>(), [3, 4, 5].map(|line| (line, "reserved-name")));
}

#[test]
fn a_mistake_as_people_see_it() {
    let shown = shown(&bad("native/bad.yaml").findings);
    for expected in [
        "\
error[unknown-key]: `listn` is not a key of the configuration
  --> native/bad.yaml:2:1
   |
 2 | listn:
   | ^^^^^
   = did you mean `listen`?
   = allowed: slidegate, allow_empty, allow_removed, listen, tls, grpc_tls, access, admin, memory, snapshot, stores, trusted_proxies, \
address, policies, rules, domains, envoy, headers, overload, audit, limits, log, tracing, statsd
",
        "\
error[value]: invalid value `8080` for `http`
  --> native/bad.yaml:5:9
   |
 5 |   http: 8080
   |         ^^^^
   = add the address: 127.0.0.1:8080 for this machine, 0.0.0.0:8080 for all
",
        "\
error[range]: `limit_mb` 0 is out of range
  --> native/bad.yaml:9:20
   |
 9 | memory: {limit_mb: 0, on_full: lfu, sweep_interval: 10}
   |                    ^
   = use a number from 1 to 1048576
",
        "\
error[value]: invalid value `redis://me:*******@localhost:99999` for `redis`
  --> native/bad.yaml:12:17
   |
12 |   both: {redis: \"redis://me:*******@localhost:99999\", cluster: []}
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   = use redis://host:6379, rediss://host:6379 for TLS, or unix:///path/to/socket
",
        "\
error[unknown-store]: unknown store `shraed`
  --> native/bad.yaml:19:12
   |
19 |     store: shraed
   |            ^^^^^^
   = did you mean `shared`?
   = allowed: memory, shared, both
",
        "\
error[unknown-policy]: unknown policy `apy`
  --> native/bad.yaml:33:13
   |
33 |     policy: apy
   |             ^^^
   = did you mean `api`?
   = allowed: api, counted
",
    ] {
        assert!(shown.contains(expected), "{expected}\nis not in\n{shown}");
    }
}

#[test]
fn what_works_and_hurts() {
    let loaded = good("native/hurts.yaml");
    let found: Vec<_> =
        loaded.warnings.iter().map(|it| (it.place.as_ref().unwrap().line, it.code)).collect();
    let expected = [
        (2, "sweep-interval"),
        (4, "password"),
        (9, "no-effect"),
        (7, "short-window"),
        (8, "global-memory"),
        (11, "large-log"),
        (14, "fixed"),
        (18, "local-nodes"),
        (22, "lock-out"),
        (27, "no-effect"),
        (25, "secret-key"),
        (11, "daily"),
    ];
    assert_eq!(found, expected, "{}", shown(&loaded.warnings));
    assert!(!shown(&loaded.warnings).contains("swordfish"));
    assert!(!format!("{loaded:?}").contains("swordfish"));
}

#[test]
fn two_files_with_settings_are_one_too_many() {
    let files = [path("native/hurts.yaml"), path("sliding/good.yaml")];
    assert_eq!(codes(&load(&Request::new(files)).unwrap_err().findings)[0], "two-files");
    let files = [path("native/hurts.yaml"), path("envoy/wildcard.yaml")];
    let spec = load(&Request::new(files)).unwrap().spec;
    assert_eq!((spec.policies.len(), spec.domains.len()), (4, 1));
}

#[test]
fn files_that_cannot_be_read() {
    for (name, message) in [
        ("native/absent.yaml", "no such file"),
        ("native/latin1.yaml", "byte 6 is not UTF-8"),
        ("native/huge.yaml", "larger than 32768 KiB: use a separate file for each domain"),
    ] {
        let folder = std::env::temp_dir().join(format!("slidegate-unread-{}", std::process::id()));
        fs::create_dir_all(folder.join("native")).unwrap();
        fs::write(folder.join("native/latin1.yaml"), b"name: \xe4").unwrap();
        fs::write(folder.join("native/huge.yaml"), vec![b'#'; (32 << 20) + 1]).unwrap();
        let file = folder.join(name);
        let refused = load(&Request::new([file.clone()])).unwrap_err();
        assert_eq!(codes(&refused.findings), ["file"]);
        assert!(refused.to_string().contains(message), "{refused}");
        // It may be mended while the daemon runs.
        assert_eq!(refused.files, [file]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn files_of_no_known_format() {
    let folder = std::env::temp_dir().join(format!("slidegate-formats-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("file.yaml");
    for (text, code) in [
        ("limit: 5\n", "format"),
        ("- a\n", "format"),
        ("hello\n", "format"),
        ("slidegate: 2\n", "range"),
        ("slidegate: 1\n---\nslidegate: 1\n", "documents"),
        ("slidegate: 1\npolicies: {a: 1}\n", "type"),
        ("slidegate: 1\nlisten: [a]\n", "type"),
        ("slidegate: 1\n? [a]\n: b\n", "yaml"),
        ("slidegate: !x 1\n", "yaml"),
        ("slidegate: 1\nlisten: &a {http: *a}\n", "yaml"),
        ("slidegate: 1\nlisten:\n\thttp: off\n", "yaml"),
    ] {
        fs::write(&file, text).unwrap();
        let refused = load(&Request::new([file.clone()])).unwrap_err();
        assert_eq!(codes(&refused.findings), [code], "{text}\n{refused}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

// More rules than can be asked together would leave some of them unasked.
#[test]
fn rules_that_one_request_could_meet_are_counted() {
    let rules = |count: usize, path: &dyn Fn(usize) -> String| {
        let mut text = "policies: [{name: api, quotas: 5/s}]\nrules:\n".to_owned();
        for index in 0..count {
            text += "  - {name: r";
            text += &index.to_string();
            text += ", key: [address], policy: api, match: {path: ";
            text += &path(index);
            text += "}}\n";
        }
        let folder = std::env::temp_dir().join(format!("slidegate-rules-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("slidegate.yaml");
        fs::write(&file, text).unwrap();
        let found = match load(&Request::new([file])) {
            Ok(loaded) => codes(&loaded.warnings),
            Err(refused) => codes(&refused.findings),
        };
        fs::remove_dir_all(&folder).unwrap();
        found
    };
    assert_eq!(rules(500, &|index| format!("/{index}/*")), [""; 0]);
    assert_eq!(rules(64, &|_| "/a/*".to_owned()), [""; 0]);
    assert_eq!(rules(65, &|_| "/a/*".to_owned()), ["too-many-rules"]);
    // Nested ones meet too.
    assert_eq!(rules(65, &|index| format!("/{}*", "a".repeat(index))), ["too-many-rules"]);
    assert_eq!(rules(65, &|index| format!("/{}", "a".repeat(index))), [""; 0]);
}
