//! The variables of envoyproxy/ratelimit that set one setting, and those that are ignored.
//!
//! The others are read together, in `reference.rs`, or are the default here.

/// Variables that set one setting, as it is.
pub(super) const SETS: [(&str, &str); 10] = [
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
];

/// Variables that are ignored: the reason, and their names.
pub(super) const IGNORED: [(&str, &str); 18] = [
    ("it listens on TCP only: set GRPC_HOST and GRPC_PORT", "GRPC_UDS"),
    ("connections may stay open", "GRPC_MAX_CONNECTION_AGE GRPC_MAX_CONNECTION_AGE_GRACE"),
    ("every certificate of the authority is accepted", "GRPC_CLIENT_TLS_SAN"),
    ("a daemon without limits is healthy", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"),
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
    (
        "metrics are served for Prometheus, at /metrics of `listen.admin`",
        "USE_STATSD USE_DOG_STATSD USE_DOG_STATSD_MOGRIFIERS STATSD_HOST STATSD_PORT EXTRA_TAGS \
         STATS_FLUSH_INTERVAL DISABLE_STATS PROMETHEUS_ADDR PROMETHEUS_PATH \
         PROMETHEUS_MAPPER_YAML PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
    ),
    ("files and links are both watched", "RUNTIME_WATCH_ROOT"),
    ("keys expire with their windows", "EXPIRATION_JITTER_MAX_SECONDS"),
    ("denials are remembered by key, not by size", "LOCAL_CACHE_SIZE_IN_BYTES"),
    (
        "one connection per server carries all calls, many at a time",
        "REDIS_POOL_SIZE REDIS_POOL_ON_EMPTY_BEHAVIOR REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT \
         REDIS_CLUSTER_PIPELINE_PARALLELISM",
    ),
    ("no client certificate is shown to Redis", "REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY"),
    ("the server's name is always checked", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"),
    ("put the password into the Sentinels' addresses", "REDIS_SENTINEL_AUTH"),
    ("/readyz reports the store", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"),
    (
        "it starts without waiting for Redis",
        "REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME",
    ),
    (
        "keys do not churn here: one Redis serves all limits",
        "REDIS_PERSECOND REDIS_PERSECOND_SOCKET_TYPE REDIS_PERSECOND_TYPE REDIS_PERSECOND_URL \
         REDIS_PERSECOND_AUTH REDIS_PERSECOND_TLS",
    ),
    (
        "memcached is not a store here",
        "MEMCACHE_HOST_PORT MEMCACHE_MAX_IDLE_CONNS MEMCACHE_SRV MEMCACHE_SRV_REFRESH \
         MEMCACHE_TLS",
    ),
    (
        "traces are set up by OTEL_EXPORTER_OTLP_ENDPOINT and `tracing`",
        "TRACING_ENABLED TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_EXPORTER_PROTOCOL \
         TRACING_SAMPLING_RATE",
    ),
];
