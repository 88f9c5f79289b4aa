//! The variables of envoyproxy/ratelimit: those that set one setting, those that are read together,
//! and those that are not supported.

/// Variables that set one setting directly.
pub(super) const SETS: [(&str, &str); 12] = [
    ("LOG_FORMAT", "log.format"),
    ("NEAR_LIMIT_RATIO", "envoy.near_limit_ratio"),
    ("LIMIT_RESPONSE_HEADERS_ENABLED", "envoy.response_headers"),
    ("LIMIT_LIMIT_HEADER", "envoy.limit_header"),
    ("LIMIT_REMAINING_HEADER", "envoy.remaining_header"),
    ("LIMIT_RESET_HEADER", "envoy.reset_header"),
    ("SHADOW_MODE", "envoy.shadow_mode"),
    ("QUOTA_MODE", "envoy.quota_mode"),
    ("RESPONSE_DYNAMIC_METADATA", "envoy.dynamic_metadata"),
    ("MERGE_DOMAIN_CONFIG", "envoy.merge_domains"),
    ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "envoy.health_needs_limits"),
    ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "envoy.health_needs_store"),
];

/// Variables that `reference.rs` reads together.
pub(super) const READ: &str = "\
    HOST PORT GRPC_HOST GRPC_PORT DEBUG_HOST DEBUG_PORT GRPC_SERVER_USE_TLS GRPC_SERVER_TLS_CERT \
    GRPC_SERVER_TLS_KEY GRPC_CLIENT_TLS_CACERT GRPC_CLIENT_TLS_SAN LOG_LEVEL CONFIG_TYPE \
    FORCE_START_WITHOUT_INITIAL_CONFIG RUNTIME_ROOT RUNTIME_SUBDIRECTORY RUNTIME_APPDIRECTORY \
    RUNTIME_IGNOREDOTFILES STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT BACKEND_TYPE REDIS_URL \
    REDIS_TYPE REDIS_SOCKET_TYPE REDIS_TLS REDIS_TLS_CACERT REDIS_AUTH REDIS_SENTINEL_AUTH \
    REDIS_TIMEOUT CACHE_KEY_PREFIX DISABLE_STATS USE_STATSD USE_DOG_STATSD STATSD_HOST STATSD_PORT \
    STATSD_PROTOCOL STATS_FLUSH_INTERVAL EXTRA_TAGS USE_PROMETHEUS PROMETHEUS_ADDR PROMETHEUS_PATH";

/// Variables that other programs use too: they do not show that an environment is meant for the
/// reference service.
pub(super) const COMMON: &str = "\
    HOST PORT LOG_LEVEL LOG_FORMAT STATSD_HOST STATSD_PORT STATSD_PROTOCOL EXTRA_TAGS \
    TRACING_ENABLED TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID \
    TRACING_EXPORTER_PROTOCOL TRACING_SAMPLING_RATE";

/// Variables that are not supported: the reason, and their names.
pub(super) const IGNORED: [(&str, &str); 15] = [
    ("gRPC is served over TCP only: set GRPC_HOST and GRPC_PORT", "GRPC_UDS"),
    ("connections have no maximum age", "GRPC_MAX_CONNECTION_AGE GRPC_MAX_CONNECTION_AGE_GRACE"),
    (
        "limits are read from files",
        "CONFIG_GRPC_XDS_NODE_ID CONFIG_GRPC_XDS_NODE_METADATA CONFIG_GRPC_XDS_SERVER_URL \
         CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS \
         CONFIG_GRPC_XDS_SERVER_USE_TLS CONFIG_GRPC_XDS_CLIENT_TLS_CERT \
         CONFIG_GRPC_XDS_CLIENT_TLS_KEY CONFIG_GRPC_XDS_SERVER_TLS_CACERT \
         CONFIG_GRPC_XDS_SERVER_TLS_SAN XDS_CLIENT_BACKOFF_INITIAL_INTERVAL \
         XDS_CLIENT_BACKOFF_MAX_INTERVAL XDS_CLIENT_BACKOFF_RANDOM_FACTOR \
         XDS_CLIENT_BACKOFF_JITTER XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
    ),
    ("statistics keep their names", "USE_DOG_STATSD_MOGRIFIERS PROMETHEUS_MAPPER_YAML"),
    ("response times are in seconds", "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS"),
    ("files and links are both watched", "RUNTIME_WATCH_ROOT"),
    ("keys expire with their windows", "EXPIRATION_JITTER_MAX_SECONDS"),
    ("denials of up to 10,000 keys per limit are cached", "LOCAL_CACHE_SIZE_IN_BYTES"),
    (
        "one connection per server carries all calls",
        "REDIS_POOL_SIZE REDIS_POOL_ON_EMPTY_BEHAVIOR REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT \
         REDIS_CLUSTER_PIPELINE_PARALLELISM",
    ),
    ("no client certificate is sent to Redis", "REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY"),
    ("the server's name is always verified", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"),
    (
        "the daemon starts without waiting for Redis",
        "REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME",
    ),
    (
        "one Redis serves all limits, because keys do not change with every second",
        "REDIS_PERSECOND REDIS_PERSECOND_SOCKET_TYPE REDIS_PERSECOND_TYPE REDIS_PERSECOND_URL \
         REDIS_PERSECOND_AUTH REDIS_PERSECOND_TLS REDIS_PERSECOND_POOL_SIZE \
         REDIS_PERSECOND_SENTINEL_AUTH REDIS_PERSECOND_PIPELINE_WINDOW \
         REDIS_PERSECOND_PIPELINE_LIMIT REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM \
         REDIS_PERSECOND_TIMEOUT REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
    ),
    (
        "memcached is not a store",
        "MEMCACHE_HOST_PORT MEMCACHE_MAX_IDLE_CONNS MEMCACHE_SRV MEMCACHE_SRV_REFRESH \
         MEMCACHE_TLS MEMCACHE_TLS_CLIENT_CERT MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT \
         MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
    ),
    (
        "set OTEL_EXPORTER_OTLP_ENDPOINT, and `tracing` in a file",
        "TRACING_ENABLED TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE \
         TRACING_SERVICE_INSTANCE_ID TRACING_EXPORTER_PROTOCOL TRACING_SAMPLING_RATE",
    ),
];

/// Returns the names of all variables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let ignored = IGNORED.iter().flat_map(|(_, names)| names.split_whitespace());
    SETS.iter().map(|(name, _)| *name).chain(READ.split_whitespace()).chain(ignored)
}
