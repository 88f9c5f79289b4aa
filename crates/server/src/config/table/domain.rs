//! A domain of descriptors: the keys of envoyproxy/ratelimit, and `store` and `algorithm` of ours.

use super::leaves::{DOMAIN_NAME, NAME, TEXT, UNIT};
use super::policy::ALGORITHM;
use super::{Absent, Field, Kind, Section};

pub(in crate::config) static DOMAIN: Section = Section {
    what: "a domain",
    fields: &[
        Field {
            name: "domain",
            kind: Kind::Leaf(&DOMAIN_NAME),
            absent: Absent::Refused,
            about: "What requests call it.",
            example: "shop",
        },
        Field {
            name: "store",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Default("memory"),
            about: "Where the counts of all its limits live. Not a key of envoyproxy/ratelimit.",
            example: "shared",
        },
        Field {
            name: "descriptors",
            kind: Kind::List(&Kind::Section(&DESCRIPTOR), 100_000),
            absent: Absent::Default("[]"),
            about: "The first level.",
            example: "[{key: user}]",
        },
    ],
};

pub(in crate::config) static DESCRIPTOR: Section = Section {
    what: "a descriptor",
    fields: &[
        Field {
            name: "key",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Refused,
            about: "Of the entry that it matches.",
            example: "user",
        },
        Field {
            name: "value",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Means("any value, each counted apart"),
            about: "Of the entry that it matches; `*` stands for any characters.",
            example: "tenant-*",
        },
        Field {
            name: "rate_limit",
            kind: Kind::Section(&RATE_LIMIT),
            absent: Absent::Means("matched and not limited, unless a deeper level is"),
            about: "The limit of requests whose descriptor ends here.",
            example: "{unit: minute, requests_per_unit: 100}",
        },
        Field {
            name: "shadow_mode",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Counted and never denied.",
            example: "true",
        },
        Field {
            name: "quota_mode",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Denies only together with all others of its kind.",
            example: "true",
        },
        Field {
            name: "detailed_metric",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Metrics by all keys and values of the request.",
            example: "true",
        },
        Field {
            name: "value_to_metric",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "The value becomes part of the metric.",
            example: "true",
        },
        Field {
            name: "share_threshold",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "All values that a `*` matches have one count.",
            example: "true",
        },
        Field {
            name: "metadata",
            kind: Kind::Any,
            absent: Absent::Means("none"),
            about: "Handed back with the answer.",
            example: "{plan: gold}",
        },
        Field {
            name: "descriptors",
            kind: Kind::List(&Kind::Section(&DESCRIPTOR), 100_000),
            absent: Absent::Default("[]"),
            about: "Further levels.",
            example: "[{key: path}]",
        },
    ],
};

pub(in crate::config) static RATE_LIMIT: Section = Section {
    what: "a rate limit",
    fields: &[
        Field {
            name: "unit",
            kind: Kind::Leaf(&UNIT),
            absent: Absent::Means("only with `unlimited`"),
            about: "The window. A month is 30 days, a year 365.",
            example: "minute",
        },
        Field {
            name: "requests_per_unit",
            kind: Kind::Whole { least: 0, most: u32::MAX as u64 },
            absent: Absent::Default("0"),
            about: "Requests in any stretch of the window; 0 denies everything.",
            example: "100",
        },
        Field {
            name: "unlimited",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "No limit; then there is no `unit`.",
            example: "true",
        },
        Field {
            name: "name",
            kind: Kind::Leaf(&TEXT),
            absent: Absent::Means("none"),
            about: "Told with the answer, and what `replaces` names.",
            example: "gold",
        },
        Field {
            name: "replaces",
            kind: Kind::List(&Kind::Section(&REPLACES), 1000),
            absent: Absent::Default("[]"),
            about: "Limits that do not apply to a request that meets this one.",
            example: "[{name: base}]",
        },
        Field {
            name: "algorithm",
            kind: ALGORITHM,
            absent: Absent::Default("log"),
            about: "How requests are counted. Not a key of envoyproxy/ratelimit.",
            example: "gcra",
        },
    ],
};

static REPLACES: Section = Section {
    what: "a replaced limit",
    fields: &[Field {
        name: "name",
        kind: Kind::Leaf(&TEXT),
        absent: Absent::Refused,
        about: "Of the limit that does not apply.",
        example: "base",
    }],
};
