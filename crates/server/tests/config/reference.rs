//! The environment of envoyproxy/ratelimit: recognized, honored, and nothing of it ignored
//! silently.

use slidegate_server::config::{
    Environment, InvalidConfig, Loaded, LogLevel, Request, Settings, StatsdDialect, StatsdProtocol,
    load,
};
use slidegate_server::spec::{HitsUsage, RedisPlace, Spec, StoreSpec};

use crate::files::{codes, path, shown};
use crate::layers::{request, variables};

/// Loads what an environment alone asks for.
fn load_environment(list: &[(&str, &str)]) -> Result<Loaded, Box<InvalidConfig>> {
    let environment: Environment = variables(list);
    load(&Request { environment, ..Request::default() })
}

fn runtime_root() -> String {
    path("reference").to_str().unwrap().to_owned()
}

fn redis(spec: &Spec) -> &slidegate_server::spec::RedisSpec {
    match &spec.stores[1] {
        StoreSpec::Redis(_, redis) => redis,
        StoreSpec::Memory(_) => panic!("a Redis store"),
    }
}

/// What the compose file of the reference service sets.
#[test]
fn the_compose_environment_needs_nothing_else() {
    let root = runtime_root();
    let loaded = load_environment(&[
        ("USE_STATSD", "false"),
        ("LOG_LEVEL", "debug"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "redis:6379"),
        ("RUNTIME_ROOT", &root),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("MEMCACHE_HOST_PORT", "memcached:11211"),
    ])
    .unwrap();
    let Settings { listen, log, statsd, .. } = &loaded.settings;
    assert_eq!(listen.http, Some("0.0.0.0:8080".parse().unwrap()));
    assert_eq!(listen.grpc, Some("0.0.0.0:8081".parse().unwrap()));
    assert_eq!(listen.admin, Some("127.0.0.1:6070".parse().unwrap()));
    assert_eq!((log.level, statsd), (LogLevel::Debug, &None));
    assert_eq!(redis(&loaded.spec).place, RedisPlace::Single("redis://redis:6379".to_owned()));
    let [domain] = &*loaded.spec.domains else { panic!("one domain") };
    assert_eq!((domain.name.as_str(), domain.store.as_str()), ("rl", "redis"));
    assert_eq!(loaded.spec.policies, [], "the example is not served as well");
    let said = shown(&loaded.warnings);
    assert!(said.contains("environment of envoyproxy/ratelimit detected"), "{said}");
    assert!(
        said.contains("MEMCACHE_HOST_PORT is not supported: memcached is not a store"),
        "{said}"
    );
}

#[test]
fn the_example_is_never_served_in_the_place_of_missing_limits() {
    for set in [("REDIS_URL", "redis:6379"), ("USE_STATSD", "false"), ("BACKEND_TYPE", "redis")] {
        let refused = load_environment(&[set]).unwrap_err().to_string();
        assert!(refused.contains("/srv/runtime_data/current/config"), "{refused}");
        assert!(refused.contains("RUNTIME_ROOT") && refused.contains("--config"), "{refused}");
    }
    let forced = [("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")];
    let loaded = load_environment(&forced).unwrap();
    assert_eq!((loaded.spec.policies.len(), loaded.spec.domains.len()), (0, 0));
}

#[test]
fn port_alone_is_honored_and_the_example_announced() {
    let loaded = load_environment(&[("PORT", "9000"), ("HOST", "builder")]).unwrap();
    assert_eq!(loaded.settings.listen.http, Some("0.0.0.0:9000".parse().unwrap()));
    assert_eq!(loaded.settings.listen.grpc, Some("127.0.0.1:8081".parse().unwrap()));
    assert_eq!(codes(&loaded.warnings), ["example", "data-closed"]);
    let root = runtime_root();
    let runtime = [("RUNTIME_ROOT", root.as_str()), ("RUNTIME_SUBDIRECTORY", "ratelimit")];
    let loaded = load_environment(&[&runtime[..], &[("PORT", "9000")]].concat()).unwrap();
    assert_eq!(loaded.settings.listen.http, Some("0.0.0.0:9000".parse().unwrap()));
    assert_eq!(loaded.settings.listen.grpc, Some("0.0.0.0:8081".parse().unwrap()));
}

#[test]
fn a_key_prefix_may_end_in_a_colon() {
    for (given, prefix) in [("ratelimit:", "ratelimit"), ("a:b:", "a:b"), ("shop", "shop")] {
        let variables = [("REDIS_URL", "r:1"), ("CACHE_KEY_PREFIX", given)];
        let loaded = load(&request("envoy/wildcard.yaml", &variables, &[])).unwrap();
        assert_eq!(redis(&loaded.spec).prefix, prefix);
    }
}

#[test]
fn tls_is_for_grpc_alone_and_needs_a_certificate() {
    let file = path("envoy/wildcard.yaml");
    let pem = file.to_str().unwrap();
    let all = [
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", pem),
        ("GRPC_SERVER_TLS_KEY", pem),
        ("GRPC_CLIENT_TLS_CACERT", pem),
        ("GRPC_CLIENT_TLS_SAN", "envoy.internal"),
    ];
    let loaded = load(&request("envoy/wildcard.yaml", &all, &[])).unwrap();
    let tls = loaded.settings.grpc_tls.unwrap();
    assert_eq!((tls.certificate, tls.client_authority), (file.clone(), Some(file.clone())));
    assert_eq!(tls.client_name.as_deref(), Some("envoy.internal"));
    assert_eq!(loaded.settings.tls, None, "HTTP and RESP stay plain");
    let refused = load(&request("envoy/wildcard.yaml", &all[..1], &[])).unwrap_err().to_string();
    for name in ["GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY"] {
        assert!(refused.contains(&format!("GRPC_SERVER_USE_TLS is set but {name} is not")));
    }
}

#[test]
fn statistics_go_to_statsd_unless_prometheus_asks() {
    let with =
        |list: &[(&str, &str)]| load(&request("envoy/wildcard.yaml", list, &[])).unwrap().settings;
    // The reference service sends over TCP to localhost by default.
    let statsd = with(&[("RUNTIME_WATCH_ROOT", "false")]).statsd.unwrap();
    assert_eq!((statsd.address.as_str(), statsd.protocol), ("localhost:8125", StatsdProtocol::Tcp));
    let statsd = with(&[
        ("USE_STATSD", "true"),
        ("STATSD_HOST", "statsd"),
        ("STATSD_PORT", "9125"),
        ("STATS_FLUSH_INTERVAL", "1m"),
        ("EXTRA_TAGS", "zone:eu,stage:test"),
    ])
    .statsd
    .unwrap();
    assert_eq!((statsd.address.as_str(), statsd.interval.as_secs()), ("statsd:9125", 60));
    assert_eq!(
        (statsd.tags, statsd.dialect),
        (vec!["zone:eu".to_owned(), "stage:test".to_owned()], StatsdDialect::Statsd)
    );
    let dog = with(&[("USE_STATSD", "false"), ("USE_DOG_STATSD", "true")]).statsd.unwrap();
    assert_eq!((dog.protocol, dog.dialect), (StatsdProtocol::Udp, StatsdDialect::Dogstatsd));
    let settings = with(&[("USE_STATSD", "false"), ("USE_PROMETHEUS", "true")]);
    assert_eq!(settings.statsd, None);
    assert_eq!(settings.listen.metrics, Some("0.0.0.0:9090".parse().unwrap()));
    let settings = with(&[("USE_PROMETHEUS", "true"), ("PROMETHEUS_ADDR", "127.0.0.1:9102")]);
    assert_eq!(settings.listen.metrics, Some("127.0.0.1:9102".parse().unwrap()));
    assert_eq!(with(&[("DISABLE_STATS", "true")]).statsd, None);
    assert_eq!(with(&[]).statsd, None, "only in an environment of that service");
}

#[test]
fn variables_are_honored_in_addition_to_files() {
    let loaded = load(&request(
        "envoy/wildcard.yaml",
        &[
            ("PORT", "1"),
            ("GRPC_HOST", "::1"),
            ("DEBUG_PORT", "6070"),
            ("LOG_LEVEL", "WARNING"),
            ("LOG_FORMAT", "json"),
            ("NEAR_LIMIT_RATIO", "0.9"),
            ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
            ("LIMIT_RESET_HEADER", "X-Reset"),
            ("SHADOW_MODE", "true"),
            ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "false"),
            ("REDIS_SOCKET_TYPE", "tcp"),
            ("REDIS_TYPE", "sentinel"),
            ("REDIS_URL", "main,a:1,b:2"),
            ("REDIS_AUTH", "secret"),
            ("REDIS_TIMEOUT", "50ms"),
            ("CACHE_KEY_PREFIX", "shop"),
            ("USE_STATSD", "false"),
            ("HOME", "/root"),
        ],
        &[],
    ))
    .unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.listen.http, Some("0.0.0.0:1".parse().unwrap()));
    assert_eq!(settings.listen.grpc, Some("[::1]:8081".parse().unwrap()));
    assert_eq!(settings.listen.admin, Some("127.0.0.1:6070".parse().unwrap()));
    assert_eq!(settings.log.level, LogLevel::Warn);
    assert!(settings.envoy.shadow_mode);
    assert_eq!(settings.envoy.usage, HitsUsage::ReportAboveOne);
    assert_eq!(settings.envoy.near_limit_thousandths, 900);
    assert_eq!(settings.envoy.reset_header, "X-Reset");
    let StoreSpec::Redis(name, redis) = &loaded.spec.stores[1] else { panic!("a store") };
    assert_eq!((name.as_str(), loaded.spec.domains[0].store.as_str()), ("redis", "redis"));
    let place = RedisPlace::Sentinel {
        addresses: vec!["redis://a:1".to_owned(), "redis://b:2".to_owned()],
        service: "main".to_owned(),
    };
    assert_eq!(redis.place, place);
    assert_eq!(redis.password.as_deref(), Some("secret"));
    assert_eq!(redis.prefix, "shop");
    let found = codes(&loaded.warnings);
    assert_eq!(found, ["reference", "data-closed"], "{}", shown(&loaded.warnings));
}

// That service has no such port, so a second instance would not start.
#[test]
fn the_redis_protocol_is_off_unless_it_is_set() {
    let root = runtime_root();
    let resp = |more: &[(&str, &str)]| {
        let mut list = vec![("RUNTIME_ROOT", root.as_str()), ("RUNTIME_SUBDIRECTORY", "ratelimit")];
        list.extend(more);
        load_environment(&list).unwrap().settings.listen.resp
    };
    assert_eq!(resp(&[]), None);
    let set = resp(&[("SLIDEGATE_LISTEN_RESP", "127.0.0.1:1")]);
    assert_eq!(set, Some("127.0.0.1:1".parse().unwrap()));
}

// That service counts denied requests by default. Usage that was not recorded could never be denied.
#[test]
fn usage_is_reported_unless_denied_requests_must_not_count() {
    const NAME: &str = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
    let root = runtime_root();
    let usage = |value: Option<&str>| {
        let mut list = vec![("RUNTIME_ROOT", root.as_str()), ("RUNTIME_SUBDIRECTORY", "ratelimit")];
        list.extend(value.map(|value| (NAME, value)));
        load_environment(&list).map(|loaded| loaded.settings.envoy.usage)
    };
    assert_eq!(usage(None).unwrap(), HitsUsage::ReportAboveOne);
    assert_eq!(usage(Some("0")).unwrap(), HitsUsage::ReportAboveOne);
    assert_eq!(usage(Some("true")).unwrap(), HitsUsage::Check);
    let refused = usage(Some("maybe")).unwrap_err().to_string();
    assert!(refused.contains("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT must be true or false"));
    let native = Settings::default();
    assert_eq!(native.envoy.usage, HitsUsage::Check);
}

#[test]
fn redis_places_of_every_type() {
    for (kind, url, tls, expected) in [
        ("SINGLE", "redis:6379", "false", RedisPlace::Single("redis://redis:6379".to_owned())),
        ("SINGLE", "redis:6379", "true", RedisPlace::Single("rediss://redis:6379".to_owned())),
        ("SINGLE", "/run/r.sock", "false", RedisPlace::Single("unix:///run/r.sock".to_owned())),
        (
            "CLUSTER",
            "a:1,b:2",
            "false",
            RedisPlace::Cluster(vec!["redis://a:1".to_owned(), "redis://b:2".to_owned()]),
        ),
    ] {
        let variables = [("REDIS_TYPE", kind), ("REDIS_URL", url), ("REDIS_TLS", tls)];
        let loaded = load(&request("envoy/wildcard.yaml", &variables, &[])).unwrap();
        let StoreSpec::Redis(_, redis) = &loaded.spec.stores[1] else { panic!("a store") };
        assert_eq!(redis.place, expected);
    }
}

#[test]
fn variables_that_cannot_be_honored_are_not_passed_over() {
    let refused = load(&request("envoy/wildcard.yaml", &[("CONFIG_TYPE", "GRPC_XDS_SOTW")], &[]))
        .unwrap_err();
    assert_eq!(codes(&refused.findings)[0], "config-type");
    let loaded =
        load(&request("envoy/wildcard.yaml", &[("BACKEND_TYPE", "memcache")], &[])).unwrap();
    assert_eq!(codes(&loaded.warnings), ["backend-type", "reference", "data-closed"]);
    // Ours are stronger than theirs.
    let variables = [("PORT", "1"), ("SLIDEGATE_LISTEN_HTTP", "off")];
    let loaded = load(&request("envoy/wildcard.yaml", &variables, &[])).unwrap();
    assert_eq!(loaded.settings.listen.http, None);
}

/// A variable with a value, and others without which it means nothing.
type Variable = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Every variable of the reference service.
const ALL: &[Variable] = &[
    ("HOST", "127.0.0.2", &[]),
    ("PORT", "1", &[]),
    ("DEBUG_HOST", "127.0.0.2", &[]),
    ("DEBUG_PORT", "1", &[]),
    ("GRPC_HOST", "127.0.0.2", &[]),
    ("GRPC_PORT", "1", &[]),
    ("GRPC_SERVER_USE_TLS", "true", &[]),
    ("GRPC_SERVER_TLS_CERT", "/nowhere", &[("GRPC_SERVER_USE_TLS", "true")]),
    ("LOG_LEVEL", "ERROR", &[]),
    ("LOG_FORMAT", "json", &[]),
    ("CONFIG_TYPE", "GRPC_XDS_SOTW", &[]),
    ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true", &[("RUNTIME_APPDIRECTORY", "nowhere")]),
    ("RUNTIME_ROOT", "/nowhere", &[]),
    ("RUNTIME_SUBDIRECTORY", "nowhere", &[]),
    ("RUNTIME_APPDIRECTORY", "nowhere", &[]),
    ("NEAR_LIMIT_RATIO", "0.5", &[]),
    ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true", &[]),
    ("LIMIT_RESPONSE_HEADERS_ENABLED", "true", &[]),
    ("LIMIT_LIMIT_HEADER", "x-a", &[]),
    ("LIMIT_REMAINING_HEADER", "x-b", &[]),
    ("LIMIT_RESET_HEADER", "x-c", &[]),
    ("SHADOW_MODE", "true", &[]),
    ("QUOTA_MODE", "true", &[]),
    ("RESPONSE_DYNAMIC_METADATA", "true", &[]),
    ("MERGE_DOMAIN_CONFIG", "true", &[]),
    ("REDIS_URL", "r:1", &[]),
    ("REDIS_TYPE", "CLUSTER", &[("REDIS_URL", "r:1")]),
    ("REDIS_TLS", "true", &[("REDIS_URL", "r:1")]),
    ("REDIS_AUTH", "secret", &[("REDIS_URL", "r:1")]),
    ("REDIS_TIMEOUT", "50ms", &[("REDIS_URL", "r:1")]),
    ("CACHE_KEY_PREFIX", "p:", &[("REDIS_URL", "r:1")]),
    ("REDIS_TLS_CACERT", "/nowhere", &[("REDIS_URL", "r:1")]),
    ("REDIS_SENTINEL_AUTH", "secret", &[("REDIS_URL", "main,a:1"), ("REDIS_TYPE", "SENTINEL")]),
    ("DISABLE_STATS", "true", &[]),
    ("USE_STATSD", "false", &[]),
    ("USE_DOG_STATSD", "true", &[]),
    ("STATSD_HOST", "h", &[]),
    ("STATSD_PORT", "1", &[]),
    ("STATSD_PROTOCOL", "udp", &[]),
    ("STATS_FLUSH_INTERVAL", "1m", &[]),
    ("EXTRA_TAGS", "a:b", &[]),
    ("USE_PROMETHEUS", "true", &[]),
    ("PROMETHEUS_ADDR", ":1", &[("USE_PROMETHEUS", "true")]),
    ("GRPC_UDS", "1", &[]),
    ("GRPC_MAX_CONNECTION_AGE", "1", &[]),
    ("GRPC_MAX_CONNECTION_AGE_GRACE", "1", &[]),
    ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "1", &[]),
    ("CONFIG_GRPC_XDS_NODE_ID", "1", &[]),
    ("CONFIG_GRPC_XDS_NODE_METADATA", "1", &[]),
    ("CONFIG_GRPC_XDS_SERVER_URL", "1", &[]),
    ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "1", &[]),
    ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "1", &[]),
    ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "1", &[]),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "1", &[]),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "1", &[]),
    ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "1", &[]),
    ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "1", &[]),
    ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "1", &[]),
    ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "1", &[]),
    ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "1", &[]),
    ("XDS_CLIENT_BACKOFF_JITTER", "1", &[]),
    ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1", &[]),
    ("USE_DOG_STATSD_MOGRIFIERS", "1", &[]),
    ("PROMETHEUS_MAPPER_YAML", "1", &[]),
    ("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "1", &[]),
    ("RUNTIME_WATCH_ROOT", "1", &[]),
    ("EXPIRATION_JITTER_MAX_SECONDS", "1", &[]),
    ("LOCAL_CACHE_SIZE_IN_BYTES", "1", &[]),
    ("REDIS_POOL_SIZE", "1", &[]),
    ("REDIS_POOL_ON_EMPTY_BEHAVIOR", "1", &[]),
    ("REDIS_PIPELINE_WINDOW", "1", &[]),
    ("REDIS_PIPELINE_LIMIT", "1", &[]),
    ("REDIS_CLUSTER_PIPELINE_PARALLELISM", "1", &[]),
    ("REDIS_TLS_CLIENT_CERT", "1", &[]),
    ("REDIS_TLS_CLIENT_KEY", "1", &[]),
    ("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "1", &[]),
    ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "1", &[]),
    ("REDIS_STARTUP_INITIAL_INTERVAL", "1", &[]),
    ("REDIS_STARTUP_MAX_INTERVAL", "1", &[]),
    ("REDIS_STARTUP_MAX_ELAPSED_TIME", "1", &[]),
    ("REDIS_PERSECOND", "1", &[]),
    ("REDIS_PERSECOND_SOCKET_TYPE", "1", &[]),
    ("REDIS_PERSECOND_TYPE", "1", &[]),
    ("REDIS_PERSECOND_URL", "1", &[]),
    ("REDIS_PERSECOND_POOL_SIZE", "1", &[]),
    ("REDIS_PERSECOND_AUTH", "1", &[]),
    ("REDIS_PERSECOND_TLS", "1", &[]),
    ("REDIS_PERSECOND_SENTINEL_AUTH", "1", &[]),
    ("REDIS_PERSECOND_PIPELINE_WINDOW", "1", &[]),
    ("REDIS_PERSECOND_PIPELINE_LIMIT", "1", &[]),
    ("REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", "1", &[]),
    ("REDIS_PERSECOND_TIMEOUT", "1", &[]),
    ("REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "1", &[]),
    ("MEMCACHE_HOST_PORT", "1", &[]),
    ("MEMCACHE_MAX_IDLE_CONNS", "1", &[]),
    ("MEMCACHE_SRV", "1", &[]),
    ("MEMCACHE_SRV_REFRESH", "1", &[]),
    ("MEMCACHE_TLS", "1", &[]),
    ("MEMCACHE_TLS_CLIENT_CERT", "1", &[]),
    ("MEMCACHE_TLS_CLIENT_KEY", "1", &[]),
    ("MEMCACHE_TLS_CACERT", "1", &[]),
    ("MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", "1", &[]),
    ("TRACING_ENABLED", "1", &[]),
    ("TRACING_SERVICE_NAME", "1", &[]),
    ("TRACING_SERVICE_NAMESPACE", "1", &[]),
    ("TRACING_SERVICE_INSTANCE_ID", "1", &[]),
    ("TRACING_EXPORTER_PROTOCOL", "1", &[]),
    ("TRACING_SAMPLING_RATE", "1", &[]),
];

/// What an environment leads to: settings and limits or errors, and all that is said about them.
fn outcome(list: &[(&str, &str)]) -> (Result<(Settings, Spec), Vec<String>>, String) {
    match load_environment(list) {
        Ok(loaded) => (Ok((loaded.settings, loaded.spec)), shown(&loaded.warnings)),
        Err(refused) => {
            let errors = refused.findings.iter().filter(|finding| finding.is_error());
            (Err(errors.map(|error| error.message.clone()).collect()), refused.to_string())
        }
    }
}

#[test]
fn every_variable_is_honored_or_named() {
    let root = runtime_root();
    let runtime = [("RUNTIME_ROOT", root.as_str()), ("RUNTIME_SUBDIRECTORY", "ratelimit")];
    for (name, value, needed) in ALL {
        let mut list: Vec<(&str, &str)> =
            runtime.into_iter().chain(needed.iter().copied()).collect();
        let without: Vec<_> = list.iter().copied().filter(|(known, _)| known != name).collect();
        list.retain(|(known, _)| known != name);
        list.push((name, value));
        let (with, said) = outcome(&list);
        let is_named = said.contains(&format!("{name} is not supported"));
        let is_honored = with != outcome(&without).0;
        assert!(is_named != is_honored, "{name}: named {is_named}, honored {is_honored}\n{said}");
    }
}
