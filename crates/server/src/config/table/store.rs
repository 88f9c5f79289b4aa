//! A shared store.

use core::time::Duration;

use super::leaves::{NAME, PATH, PREFIX, REDIS, SECRET, TEXT};
use super::{Absent, Field, Kind, Section};

const MILLI: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(in crate::config) static STORE: Section = Section {
    what: "a store",
    fields: &[
        Field {
            name: "redis",
            kind: Kind::Leaf(&REDIS),
            absent: Absent::Means("`sentinel` or `cluster` is there"),
            about: "One server.",
            example: "\"redis://127.0.0.1:6379\"",
        },
        Field {
            name: "sentinel",
            kind: Kind::Section(&SENTINEL),
            absent: Absent::Means("`redis` or `cluster` is there"),
            about: "The primary that Sentinels know.",
            example: "{addresses: [\"redis://10.0.0.1:26379\"], service: main}",
        },
        Field {
            name: "cluster",
            kind: Kind::List(&Kind::Leaf(&REDIS), 64),
            absent: Absent::Means("`redis` or `sentinel` is there"),
            about: "Some nodes of a cluster; the others are found from these.",
            example: "[\"redis://10.0.0.1:7000\", \"redis://10.0.0.2:7000\"]",
        },
        Field {
            name: "username",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Means("as the address says"),
            about: "The user.",
            example: "slidegate",
        },
        Field {
            name: "password_file",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Means("as the address says"),
            about: "A file with the password.",
            example: "redis.password",
        },
        Field {
            name: "password",
            kind: Kind::Leaf(&SECRET),
            absent: Absent::Means("as the address says"),
            about: "The password itself; better kept in a `password_file`.",
            example: "swordfish",
        },
        Field {
            name: "database",
            kind: Kind::Whole { least: 0, most: 1 << 30 },
            absent: Absent::Means("as the address says, else 0"),
            about: "The number of the database, instead of the one in the address; a cluster has only 0.",
            example: "2",
        },
        Field {
            name: "prefix",
            kind: Kind::Leaf(&PREFIX),
            absent: Absent::Default("sg"),
            about: "What all keys in Redis begin with; the same on all nodes.",
            example: "shop",
        },
        Field {
            name: "key_secret_file",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Means("no policy here can have `secret_keys`"),
            about: "A file of at least 16 bytes that secret keys are hashed with; the same on all \
                    nodes.",
            example: "keys.secret",
        },
        Field {
            name: "deadline",
            kind: Kind::Time { least: MILLI, most: MINUTE },
            absent: Absent::Default("20ms"),
            about: "How long a call may take; then the policy's `failure_mode` decides.",
            example: "10ms",
        },
        Field {
            name: "connect_deadline",
            kind: Kind::Time { least: MILLI, most: MINUTE },
            absent: Absent::Default("200ms"),
            about: "How long connecting may take.",
            example: "1s",
        },
        Field {
            name: "in_flight_max",
            kind: Kind::Whole { least: 1, most: 1 << 20 },
            absent: Absent::Default("1024"),
            about: "Checks under way at a time; more are not sent.",
            example: "256",
        },
        Field {
            name: "together_max",
            kind: Kind::Whole { least: 1, most: 256 },
            absent: Absent::Default("32"),
            about: "Checks that go in one call if they come at the same time; 1 for none.",
            example: "1",
        },
        Field {
            name: "tls_authority",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Means("the machine's authorities"),
            about: "Authorities as PEM that a `rediss://` server's certificate must be of.",
            example: "redis-ca.pem",
        },
    ],
};

static SENTINEL: Section = Section {
    what: "Sentinels",
    fields: &[
        Field {
            name: "addresses",
            kind: Kind::List(&Kind::Leaf(&REDIS), 64),
            absent: Absent::Refused,
            about: "Of the Sentinels.",
            example: "[\"redis://10.0.0.1:26379\", \"redis://10.0.0.2:26379\"]",
        },
        Field {
            name: "service",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Refused,
            about: "The name by which they know the primary.",
            example: "main",
        },
    ],
};
