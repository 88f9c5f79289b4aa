//! A rule.

use super::leaves::{HEADER, HOST, METHOD, NAME, PATH_PATTERN, TEXT};
use super::{Absent, Field, Kind, Section};

pub(in crate::config) static RULE: Section = Section {
    what: "a rule",
    fields: &[
        Field {
            name: "name",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Refused,
            about: "For metrics and messages.",
            example: "login",
        },
        Field {
            name: "match",
            kind: Kind::Section(&MATCH),
            absent: Absent::Means("every request"),
            about: "Which requests: all that is named here must be so.",
            example: "{path: /login, method: POST}",
        },
        Field {
            name: "key",
            kind: Kind::Either(&[WORD, Kind::List(&PART, 8)]),
            absent: Absent::Refused,
            about: "By what requests are counted apart: all parts together.",
            example: "[address, {header: x-api-key}]",
        },
        Field {
            name: "policy",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Refused,
            about: "The policy that judges them.",
            example: "api",
        },
        Field {
            name: "tier_header",
            kind: Kind::Leaf(&HEADER),
            absent: Absent::Means("the policy's own quotas"),
            about: "The header whose value names a tier. It must come from your own proxy: \
                    clients can write what they like.",
            example: "x-plan",
        },
        Field {
            name: "cost",
            kind: Kind::Whole { least: 1, most: (1 << 53) - 1 },
            absent: Absent::Default("1"),
            about: "Units of one request.",
            example: "5",
        },
        Field {
            name: "missing_key",
            kind: Kind::Choice(&["skip", "deny", "address"]),
            absent: Absent::Default("skip"),
            about: "What happens to a request that lacks a part of the key: the rule does not \
                    apply; it is denied; it is counted by its address.",
            example: "address",
        },
    ],
};

static MATCH: Section = Section {
    what: "a match",
    fields: &[
        Field {
            name: "path",
            kind: Kind::Either(&[
                Kind::Leaf(&PATH_PATTERN),
                Kind::List(&Kind::Leaf(&PATH_PATTERN), 256),
            ]),
            absent: Absent::Means("any"),
            about: "One of these paths; `*` at the end matches what begins so.",
            example: "[/login, /api/*]",
        },
        Field {
            name: "method",
            kind: Kind::Either(&[Kind::Leaf(&METHOD), Kind::List(&Kind::Leaf(&METHOD), 64)]),
            absent: Absent::Means("any"),
            about: "One of these methods.",
            example: "[POST, PUT]",
        },
        Field {
            name: "host",
            kind: Kind::Either(&[Kind::Leaf(&HOST), Kind::List(&Kind::Leaf(&HOST), 256)]),
            absent: Absent::Means("any"),
            about: "One of these hosts, without a port.",
            example: "api.example.com",
        },
        Field {
            name: "header",
            kind: Kind::Named(&HEADER, &Kind::Leaf(&TEXT), 32),
            absent: Absent::Means("any"),
            about: "All of these headers with these values; `\"*\"` is any value.",
            example: "{x-plan: gold, authorization: \"*\"}",
        },
    ],
};

static PART: Kind = Kind::Either(&[WORD, Kind::One(&PART_MAP)]);

const WORD: Kind = Kind::Choice(&["address", "host", "method", "path"]);

static PART_MAP: Section = Section {
    what: "a part of a key",
    fields: &[
        Field {
            name: "header",
            kind: Kind::Leaf(&HEADER),
            absent: Absent::Means("the other is there"),
            about: "The value of a header.",
            example: "x-api-key",
        },
        Field {
            name: "constant",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Means("the other is there"),
            about: "The same for all.",
            example: "everybody",
        },
    ],
};
