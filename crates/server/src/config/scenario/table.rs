//! The keys of a file of tests.

use core::time::Duration;

use crate::config::table::leaves::{DOMAIN_NAME, HEADER, HOST, METHOD, NAME, PATH, TEXT};
use crate::config::table::{Absent, Field, Kind, Leaf, Section};

const CENTURY: Duration = Duration::from_secs(100 * 366 * 86_400);

pub(super) static FILE: Section = Section {
    what: "a file of tests",
    fields: &[
        Field {
            name: "slidegate_test",
            kind: Kind::Whole { least: 1, most: 1 },
            absent: Absent::Means("this version"),
            about: "The version of this format.",
            example: "1",
        },
        Field {
            name: "config",
            kind: Kind::Leaf(&PATH),
            absent: Absent::Means("as the command line says"),
            about: "The configuration under test, relative to this file.",
            example: "slidegate.yaml",
        },
        Field {
            name: "tests",
            kind: Kind::List(&Kind::Section(&TEST), 10_000),
            absent: Absent::Refused,
            about: "Each starts with fresh counts.",
            example: "[]",
        },
    ],
};

static TEST: Section = Section {
    what: "a test",
    fields: &[
        Field {
            name: "name",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Refused,
            about: "What it shows.",
            example: "five logins a minute",
        },
        Field {
            name: "steps",
            kind: Kind::List(&Kind::Section(&STEP), 100_000),
            absent: Absent::Refused,
            about: "Requests, in the order of time.",
            example: "[{at: 0s, policy: api, key: alice, expect: allow}]",
        },
    ],
};

static STEP: Section = Section {
    what: "a step",
    fields: &[
        Field {
            name: "at",
            kind: Kind::Time { least: Duration::ZERO, most: CENTURY },
            absent: Absent::Means("the time of the step before"),
            about: "When, from the start of the test.",
            example: "59s",
        },
        Field {
            name: "policy",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Means("`request` or `domain` is there"),
            about: "Asks a policy.",
            example: "login",
        },
        Field {
            name: "key",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Means("only without `policy`"),
            about: "For whom the policy is asked.",
            example: "alice",
        },
        Field {
            name: "tier",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Means("the policy's own quotas"),
            about: "The tier of the key.",
            example: "gold",
        },
        Field {
            name: "cost",
            kind: Kind::Whole { least: 1, most: (1 << 53) - 1 },
            absent: Absent::Default("1"),
            about: "Units that the policy is asked for.",
            example: "5",
        },
        Field {
            name: "request",
            kind: Kind::Section(&REQUEST),
            absent: Absent::Means("`policy` or `domain` is there"),
            about: "Asks the rules.",
            example: "{method: POST, path: /login}",
        },
        Field {
            name: "domain",
            kind: Kind::Leaf(&DOMAIN_NAME),
            absent: Absent::Means("`policy` or `request` is there"),
            about: "Asks a domain.",
            example: "shop",
        },
        Field {
            name: "descriptors",
            kind: Kind::List(&Kind::List(&Kind::Named(&ANY, &Kind::Leaf(&TEXT), 1), 32), 64),
            absent: Absent::Means("only without `domain`"),
            about: "What the domain is asked: lists of entries.",
            example: "[[{user: alice}, {path: /cart}]]",
        },
        Field {
            name: "hits",
            kind: Kind::Whole { least: 1, most: u32::MAX as u64 },
            absent: Absent::Default("1"),
            about: "Units that the domain is asked for.",
            example: "5",
        },
        Field {
            name: "times",
            kind: Kind::Whole { least: 1, most: 1_000_000 },
            absent: Absent::Default("1"),
            about: "How often, one after another; each is expected to be decided so.",
            example: "5",
        },
        Field {
            name: "expect",
            kind: Kind::Choice(&["allow", "deny"]),
            absent: Absent::Refused,
            about: "The decision.",
            example: "deny",
        },
        Field {
            name: "remaining",
            kind: Kind::Whole { least: 0, most: (1 << 53) - 1 },
            absent: Absent::Means("whatever it is"),
            about: "Units left after the last of `times`, in the tightest quota.",
            example: "4",
        },
        Field {
            name: "retry_after",
            kind: Kind::Time { least: Duration::ZERO, most: CENTURY },
            absent: Absent::Means("whatever it is"),
            about: "How long to wait, of a denied one.",
            example: "1s",
        },
    ],
};

static REQUEST: Section = Section {
    what: "a request",
    fields: &[
        Field {
            name: "method",
            kind: Kind::Leaf(&METHOD),
            absent: Absent::Default("GET"),
            about: "The method.",
            example: "POST",
        },
        Field {
            name: "path",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Refused,
            about: "The path, without a query.",
            example: "/login",
        },
        Field {
            name: "host",
            kind: Kind::Leaf(&HOST),
            absent: Absent::Default("localhost"),
            about: "The host, without a port.",
            example: "api.example.com",
        },
        Field {
            name: "address",
            kind: Kind::Leaf(&ADDRESS),
            absent: Absent::Default("192.0.2.1"),
            about: "The client's address.",
            example: "203.0.113.9",
        },
        Field {
            name: "headers",
            kind: Kind::Named(&HEADER, &Kind::Leaf(&TEXT), 64),
            absent: Absent::Default("{}"),
            about: "Header fields.",
            example: "{x-plan: gold}",
        },
    ],
};

static ANY: Leaf =
    Leaf { what: "a key", pattern: "^.+$", check: crate::config::leaf::text, secret: false };

static ADDRESS: Leaf = Leaf {
    what: "an address",
    pattern: "^[0-9a-fA-F:.]+$",
    check: |text| match text.parse::<core::net::IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err("use an address such as 203.0.113.9 or 2001:db8::1".to_owned()),
    },
    secret: false,
};
