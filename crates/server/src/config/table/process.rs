//! The file, and the settings of the process.

use core::time::Duration;

use super::leaves::{COLLECTOR, ENDPOINT, HEADER, NAME, NETWORK, PATH};
use super::{Absent, DOMAIN, Field, Kind, POLICY, RULE, STORE, Section};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

pub(in crate::config) static ROOT: Section = Section {
    what: "the configuration",
    fields: &[
        Field {
            name: "slidegate",
            kind: Kind::Whole { least: 1, most: 1 },
            absent: Absent::Means("the format is told by the other keys"),
            about: "The version of this format.",
            example: "1",
        },
        Field {
            name: "listen",
            kind: Kind::Section(&LISTEN),
            absent: Absent::Means("all listeners on loopback"),
            about: "Where it listens.",
            example: "{http: 0.0.0.0:8080, resp: off}",
        },
        Field {
            name: "tls",
            kind: Kind::Section(&TLS),
            absent: Absent::Means("no TLS"),
            about: "TLS of the data listeners.",
            example: "{certificate: server.pem, key: server.key}",
        },
        Field {
            name: "admin",
            kind: Kind::Section(&ADMIN),
            absent: Absent::Means("loopback only"),
            about: "Who may use the admin listener.",
            example: "{token_file: admin.token}",
        },
        Field {
            name: "memory",
            kind: Kind::Section(&MEMORY),
            absent: Absent::Means("the defaults below"),
            about: "The store named `memory`, which is always there.",
            example: "{limit_mb: 512}",
        },
        Field {
            name: "snapshot",
            kind: Kind::Section(&SNAPSHOT),
            absent: Absent::Means("counts are lost at a restart"),
            about: "Keeps the counts in memory over a restart.",
            example: "{path: slidegate.snapshot}",
        },
        Field {
            name: "stores",
            kind: Kind::Named(&NAME, &Kind::Section(&STORE), 64),
            absent: Absent::Means("only `memory`"),
            about: "Redis or Valkey servers that share counts, by names of your choice.",
            example: "{shared: {redis: \"redis://127.0.0.1:6379\"}}",
        },
        Field {
            name: "trusted_proxies",
            kind: Kind::List(&Kind::Leaf(&NETWORK), 256),
            absent: Absent::Default("[]"),
            about: "Networks of proxies whose word about the client's address is taken.",
            example: "[10.0.0.0/8]",
        },
        Field {
            name: "address",
            kind: Kind::Section(&ADDRESS),
            absent: Absent::Means("the defaults below"),
            about: "How the client's address is found, and how much of it counts.",
            example: "{header: forwarded}",
        },
        Field {
            name: "policies",
            kind: Kind::List(&Kind::Section(&POLICY), 10_000),
            absent: Absent::Default("[]"),
            about: "Limits that callers and rules name.",
            example: "[{name: api, quotas: [100/minute]}]",
        },
        Field {
            name: "rules",
            kind: Kind::List(&Kind::Section(&RULE), 1000),
            absent: Absent::Default("[]"),
            about: "Which HTTP requests meet which policies, for forward auth.",
            example: "[{name: all, key: [address], policy: api}]",
        },
        Field {
            name: "domains",
            kind: Kind::List(&Kind::Section(&DOMAIN), 1000),
            absent: Absent::Default("[]"),
            about: "Trees of descriptors for Envoy, as envoyproxy/ratelimit has them.",
            example: "[{domain: shop, descriptors: [{key: user}]}]",
        },
        Field {
            name: "envoy",
            kind: Kind::Section(&ENVOY),
            absent: Absent::Means("the defaults below"),
            about: "What Envoy is answered.",
            example: "{response_headers: true}",
        },
        Field {
            name: "overload",
            kind: Kind::Section(&OVERLOAD),
            absent: Absent::Means("no guard"),
            about: "The guard against more requests than usual.",
            example: "{enabled: true, concurrency_max: 512}",
        },
        Field {
            name: "audit",
            kind: Kind::Section(&AUDIT),
            absent: Absent::Means("no audit log"),
            about: "A line of JSON for every decision.",
            example: "{path: audit.log}",
        },
        Field {
            name: "limits",
            kind: Kind::Section(&LIMITS),
            absent: Absent::Means("the defaults below"),
            about: "Bounds on what clients may send.",
            example: "{connections: 2000}",
        },
        Field {
            name: "log",
            kind: Kind::Section(&LOG),
            absent: Absent::Means("the defaults below"),
            about: "The daemon's own log.",
            example: "{level: debug}",
        },
        Field {
            name: "tracing",
            kind: Kind::Section(&TRACING),
            absent: Absent::Means("no spans"),
            about: "Spans of decisions, for a collector of OpenTelemetry.",
            example: "{endpoint: \"http://127.0.0.1:4317\", sample_ratio: 0.01}",
        },
    ],
};

static LISTEN: Section = Section {
    what: "listeners",
    fields: &[
        Field {
            name: "http",
            kind: Kind::Leaf(&ENDPOINT),
            absent: Absent::Default("127.0.0.1:8080"),
            about: "The HTTP API, forward auth, and Envoy's `/json`.",
            example: "0.0.0.0:8080",
        },
        Field {
            name: "grpc",
            kind: Kind::Leaf(&ENDPOINT),
            absent: Absent::Default("127.0.0.1:8081"),
            about: "Envoy's rate limit service.",
            example: "\"[::1]:8081\"",
        },
        Field {
            name: "resp",
            kind: Kind::Leaf(&ENDPOINT),
            absent: Absent::Default("127.0.0.1:6380"),
            about: "The Redis protocol.",
            example: "off",
        },
        Field {
            name: "admin",
            kind: Kind::Leaf(&ENDPOINT),
            absent: Absent::Default("127.0.0.1:9090"),
            about: "Metrics, health, reload. Beyond loopback only with `admin.token_file` or \
                    `admin.tls.client_authority`.",
            example: "127.0.0.1:9091",
        },
    ],
};

static TLS: Section = Section {
    what: "TLS",
    fields: &[
        Field {
            name: "certificate",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Refused,
            about: "The chain as PEM, the server's own certificate first. Read again when it \
                    changes.",
            example: "server.pem",
        },
        Field {
            name: "key",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Refused,
            about: "The private key as PEM.",
            example: "server.key",
        },
        Field {
            name: "client_authority",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Means("clients show no certificate"),
            about: "Authorities as PEM: clients must show a certificate of one of them.",
            example: "clients.pem",
        },
    ],
};

static ADMIN: Section = Section {
    what: "admin access",
    fields: &[
        Field {
            name: "token_file",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Means("no token is asked for"),
            about: "A file with the token that requests must carry as `Authorization: Bearer`.",
            example: "admin.token",
        },
        Field {
            name: "tls",
            kind: Kind::Section(&TLS),
            absent: Absent::Means("no TLS"),
            about: "TLS of the admin listener.",
            example: "{certificate: admin.pem, key: admin.key}",
        },
    ],
};

static MEMORY: Section = Section {
    what: "memory",
    fields: &[
        Field {
            name: "limit_mb",
            kind: Kind::Whole { least: 1, most: 1 << 20 },
            absent: Absent::Default("256"),
            about: "What all counts in memory together may take, in MiB.",
            example: "512",
        },
        Field {
            name: "on_full",
            kind: Kind::Choice(&["overflow", "lru", "deny"]),
            absent: Absent::Default("overflow"),
            about: "What happens to a key that finds no room: counted in a shared sketch that can \
                    only over-count, another key is moved there, or denied.",
            example: "deny",
        },
        Field {
            name: "sweep_interval",
            kind: Kind::Time { least: MILLI, most: HOUR },
            absent: Absent::Default("10s"),
            about: "How often keys are looked at, to drop those whose windows have passed.",
            example: "5s",
        },
    ],
};

static SNAPSHOT: Section = Section {
    what: "a snapshot",
    fields: &[
        Field {
            name: "path",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Refused,
            about: "The file, or a directory.",
            example: "slidegate.snapshot",
        },
        Field {
            name: "interval",
            kind: Kind::Time { least: SECOND, most: DAY },
            absent: Absent::Default("30s"),
            about: "How often it is written. After a crash, counts since the last one are lost.",
            example: "10s",
        },
        Field {
            name: "start_empty_if_damaged",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether to start without counts when the file is damaged; otherwise the daemon \
                    does not start.",
            example: "true",
        },
    ],
};

static ADDRESS: Section = Section {
    what: "client addresses",
    fields: &[
        Field {
            name: "header",
            kind: Kind::Choice(&["x-forwarded-for", "forwarded"]),
            absent: Absent::Means("`x-forwarded-for` if there are `trusted_proxies`"),
            about: "The header that the trusted proxies write. Only this one is read.",
            example: "forwarded",
        },
        Field {
            name: "ipv4_prefix",
            kind: Kind::Whole { least: 8, most: 32 },
            absent: Absent::Default("32"),
            about: "How many bits of an IPv4 address count.",
            example: "24",
        },
        Field {
            name: "ipv6_prefix",
            kind: Kind::Whole { least: 32, most: 128 },
            absent: Absent::Default("64"),
            about: "How many bits of an IPv6 address count: one client commonly has a whole /64.",
            example: "56",
        },
    ],
};

static ENVOY: Section = Section {
    what: "answers to Envoy",
    fields: &[
        Field {
            name: "charge_all",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether a request that one descriptor denies is charged to all, as \
                    envoyproxy/ratelimit does; otherwise to none.",
            example: "true",
        },
        Field {
            name: "shadow_mode",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether no request is denied: judged and counted only.",
            example: "true",
        },
        Field {
            name: "quota_mode",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether all descriptors are in quota mode.",
            example: "true",
        },
        Field {
            name: "response_headers",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether answers carry the three headers below.",
            example: "true",
        },
        Field {
            name: "limit_header",
            kind: Kind::Leaf(&HEADER),
            absent: Absent::Default("RateLimit-Limit"),
            about: "The header that tells the limit.",
            example: "X-RateLimit-Limit",
        },
        Field {
            name: "remaining_header",
            kind: Kind::Leaf(&HEADER),
            absent: Absent::Default("RateLimit-Remaining"),
            about: "The header that tells what remains.",
            example: "X-RateLimit-Remaining",
        },
        Field {
            name: "reset_header",
            kind: Kind::Leaf(&HEADER),
            absent: Absent::Default("RateLimit-Reset"),
            about: "The header that tells in how many seconds more is available.",
            example: "X-RateLimit-Reset",
        },
        Field {
            name: "dynamic_metadata",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether answers carry the metadata of descriptors.",
            example: "true",
        },
        Field {
            name: "merge_domains",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether several files may add to one domain.",
            example: "true",
        },
        Field {
            name: "near_limit_ratio",
            kind: Kind::Decimal { least: 0.0, most: 1.0 },
            absent: Absent::Default("0.8"),
            about: "The share of a limit from which on a request counts as near it; to \
                    thousandths.",
            example: "0.9",
        },
    ],
};

static OVERLOAD: Section = Section {
    what: "the overload guard",
    fields: &[
        Field {
            name: "enabled",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether it guards: the HTTP listener, and the calls of gRPC.",
            example: "true",
        },
        Field {
            name: "multiple_percent",
            kind: Kind::Whole { least: 101, most: 10_000 },
            absent: Absent::Default("200"),
            about: "How far arrivals may exceed their baseline, in per cent of it.",
            example: "300",
        },
        Field {
            name: "concurrency_max",
            kind: Kind::Whole { least: 1, most: 10_000_000 },
            absent: Absent::Means("no bound"),
            about: "Requests served at a time, over both.",
            example: "512",
        },
        Field {
            name: "queue_max",
            kind: Kind::Whole { least: 0, most: 10_000_000 },
            absent: Absent::Default("256"),
            about: "Requests that may wait for room at a time.",
            example: "64",
        },
        Field {
            name: "delay_max",
            kind: Kind::Time { least: Duration::ZERO, most: MINUTE },
            absent: Absent::Default("250ms"),
            about: "How long a request may wait for room.",
            example: "100ms",
        },
    ],
};

static AUDIT: Section = Section {
    what: "the audit log",
    fields: &[
        Field {
            name: "path",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Refused,
            about: "The file; older ones get a number behind the name.",
            example: "audit.log",
        },
        Field {
            name: "decisions",
            kind: Kind::Choice(&["denials", "all", "sampled"]),
            absent: Absent::Default("denials"),
            about: "Which decisions are written down.",
            example: "sampled",
        },
        Field {
            name: "sample_percent",
            kind: Kind::Whole { least: 1, most: 100 },
            absent: Absent::Default("1"),
            about: "How many of a hundred, with `decisions: sampled`.",
            example: "10",
        },
        Field {
            name: "size_max_mb",
            kind: Kind::Whole { least: 1, most: 1 << 20 },
            absent: Absent::Default("100"),
            about: "The size of a file in MiB, from which on a new one is begun.",
            example: "500",
        },
        Field {
            name: "files",
            kind: Kind::Whole { least: 1, most: 1000 },
            absent: Absent::Default("5"),
            about: "Files kept, the current one included.",
            example: "10",
        },
    ],
};

static LIMITS: Section = Section {
    what: "bounds",
    fields: &[
        Field {
            name: "connections",
            kind: Kind::Whole { least: 1, most: 10_000_000 },
            absent: Absent::Default("10000"),
            about: "Connections open at a time, over all data listeners.",
            example: "2000",
        },
        Field {
            name: "header_timeout",
            kind: Kind::Time { least: Duration::from_millis(10), most: HOUR },
            absent: Absent::Default("10s"),
            about: "How long a client may take to send the head of a request.",
            example: "5s",
        },
        Field {
            name: "body_max_kb",
            kind: Kind::Whole { least: 1, most: 64 << 10 },
            absent: Absent::Default("64"),
            about: "The largest body or message, in KiB.",
            example: "256",
        },
        Field {
            name: "batch_max",
            kind: Kind::Whole { least: 1, most: 1_000_000 },
            absent: Absent::Default("1000"),
            about: "Checks in one batch.",
            example: "100",
        },
        Field {
            name: "key_max",
            kind: Kind::Whole { least: 16, most: 65_536 },
            absent: Absent::Default("1024"),
            about: "The longest key, in bytes.",
            example: "256",
        },
        Field {
            name: "descriptors_max",
            kind: Kind::Whole { least: 1, most: 10_000 },
            absent: Absent::Default("64"),
            about: "Descriptors in one request, and entries in one descriptor.",
            example: "16",
        },
        Field {
            name: "streams_max",
            kind: Kind::Whole { least: 1, most: 1 << 20 },
            absent: Absent::Default("1024"),
            about: "Requests under way on one HTTP/2 connection.",
            example: "256",
        },
    ],
};

static LOG: Section = Section {
    what: "the log",
    fields: &[
        Field {
            name: "level",
            kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
            absent: Absent::Default("info"),
            about: "What is logged: this and what is worse.",
            example: "warn",
        },
        Field {
            name: "format",
            kind: Kind::Choice(&["text", "json"]),
            absent: Absent::Default("text"),
            about: "For people, or an object a line.",
            example: "json",
        },
    ],
};

static TRACING: Section = Section {
    what: "tracing",
    fields: &[
        Field {
            name: "endpoint",
            kind: Kind::Leaf(&COLLECTOR),
            absent: Absent::Means("no spans"),
            about: "The collector, asked by OTLP over gRPC; `OTEL_EXPORTER_OTLP_ENDPOINT` is the \
                    same. Takes a program built with `--features otlp`.",
            example: "http://127.0.0.1:4317",
        },
        Field {
            name: "sample_ratio",
            kind: Kind::Decimal { least: 0.0, most: 1.0 },
            absent: Absent::Default("1"),
            about: "The share of requests that get a span, of those whose callers do not say.",
            example: "0.01",
        },
        Field {
            name: "queue_max",
            kind: Kind::Whole { least: 1, most: 1_000_000 },
            absent: Absent::Default("2048"),
            about: "Spans that wait to be sent; more are left out.",
            example: "10000",
        },
    ],
};
