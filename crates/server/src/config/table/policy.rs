//! A policy.

use core::time::Duration;

use super::leaves::{NAME, QUOTA};
use super::{Absent, Field, Kind, Section};

const LIMIT_MAX: u64 = (1 << 53) - 1;
const TEN_YEARS: Duration = Duration::from_secs(10 * 366 * 86_400);

pub(in crate::config) static POLICY: Section = Section {
    what: "a policy",
    fields: &[
        Field {
            name: "name",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Refused,
            about: "What callers, rules, headers and metrics call it.",
            example: "api",
        },
        Field {
            name: "quotas",
            kind: QUOTAS,
            absent: Absent::Refused,
            about: "One to eight; a request takes from all of them or from none.",
            example: "[10/second, {limit: 1000, window: 1h}]",
        },
        Field {
            name: "algorithm",
            kind: ALGORITHM,
            absent: Absent::Default("log"),
            about: "How units are counted; `log` is exact.",
            example: "{segments: 60}",
        },
        Field {
            name: "mode",
            kind: Kind::Choice(&["enforce", "shadow", "off"]),
            absent: Absent::Default("enforce"),
            about: "Whether a denial denies; is only reported; or nothing is judged at all.",
            example: "shadow",
        },
        Field {
            name: "enforce_percent",
            kind: Kind::Whole { least: 0, most: 100 },
            absent: Absent::Default("100"),
            about: "For how many of a hundred keys it is enforced; the others are in shadow.",
            example: "10",
        },
        Field {
            name: "candidate",
            kind: Kind::Section(&CANDIDATE),
            absent: Absent::Means("none"),
            about: "Quotas that might replace these: judged beside them and reported, never \
                    enforced.",
            example: "{quotas: [50/minute]}",
        },
        Field {
            name: "tiers",
            kind: Kind::Named(&NAME, &QUOTAS, 64),
            absent: Absent::Default("{}"),
            about: "Other quotas for some keys, by names of your choice. With `log` as many as \
                    `quotas` or fewer, otherwise as many.",
            example: "{gold: [1000/minute]}",
        },
        Field {
            name: "store",
            kind: Kind::Leaf(&NAME),
            absent: Absent::Default("memory"),
            about: "Where its counts live: `memory`, or a name under `stores`.",
            example: "shared",
        },
        Field {
            name: "failure_mode",
            kind: Kind::Choice(&["allow", "deny", "local"]),
            absent: Absent::Default("allow"),
            about: "What to answer when the store fails; `local` judges in this process.",
            example: "local",
        },
        Field {
            name: "secret_keys",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether keys are secrets, such as API tokens, that no log and no server may \
                    see.",
            example: "true",
        },
        Field {
            name: "global",
            kind: Kind::Flag,
            absent: Absent::Default("false"),
            about: "Whether the limit is meant to hold over all nodes. In `memory` it cannot, and \
                    you are warned.",
            example: "true",
        },
        Field {
            name: "nodes",
            kind: Kind::Whole { least: 1, most: 1_000_000 },
            absent: Absent::Default("1"),
            about: "Nodes among which the limit is divided while the store fails, with \
                    `failure_mode: local`.",
            example: "4",
        },
        Field {
            name: "guard_band",
            kind: Kind::Decimal { least: 0.001, most: 1.0 },
            absent: Absent::Means("the whole limit is used"),
            about: "The share of every limit that is used, in a shared store.",
            example: "0.95",
        },
        Field {
            name: "deny_cache",
            kind: Kind::Whole { least: 0, most: 1 << 24 },
            absent: Absent::Default("10000"),
            about: "Keys whose denials by a shared store are remembered here; 0 for none.",
            example: "0",
        },
        Field {
            name: "leases",
            kind: Kind::Time { least: Duration::from_millis(1), most: Duration::from_secs(1) },
            absent: Absent::Means("no leases"),
            about: "For how long units of hot keys are taken from a shared store in one call. \
                    With `log`, `log_capped` and `gcra`.",
            example: "5ms",
        },
    ],
};

static CANDIDATE: Section = Section {
    what: "a candidate",
    fields: &[
        Field {
            name: "quotas",
            kind: QUOTAS,
            absent: Absent::Refused,
            about: "One to eight.",
            example: "[50/minute]",
        },
        Field {
            name: "algorithm",
            kind: ALGORITHM,
            absent: Absent::Means("the policy's"),
            about: "How units are counted.",
            example: "gcra",
        },
    ],
};

pub(super) const QUOTAS: Kind =
    Kind::Either(&[Kind::Leaf(&QUOTA), Kind::List(&QUOTA_ITEM, slidegate::QUOTAS_MAX)]);

static QUOTA_ITEM: Kind = Kind::Either(&[Kind::Leaf(&QUOTA), Kind::Section(&QUOTA_MAP)]);

static QUOTA_MAP: Section = Section {
    what: "a quota",
    fields: &[
        Field {
            name: "limit",
            kind: Kind::Whole { least: 1, most: LIMIT_MAX },
            absent: Absent::Refused,
            about: "Units in any stretch of the window.",
            example: "1000",
        },
        Field {
            name: "window",
            kind: Kind::Time { least: Duration::from_millis(1), most: TEN_YEARS },
            absent: Absent::Refused,
            about: "How long a unit counts.",
            example: "1h",
        },
    ],
};

pub(super) const ALGORITHM: Kind =
    Kind::Either(&[Kind::Choice(&["log", "counter", "gcra", "fixed"]), Kind::One(&ALGORITHM_MAP)]);

static ALGORITHM_MAP: Section = Section {
    what: "an algorithm",
    fields: &[
        Field {
            name: "segments",
            kind: Kind::Whole { least: 1, most: 1024 },
            absent: Absent::Means("the other is there"),
            about: "Sub-windows that a window is cut into.",
            example: "60",
        },
        Field {
            name: "log_capped",
            kind: Kind::Whole { least: 64, most: 65_536 },
            absent: Absent::Means("the other is there"),
            about: "The exact log up to so many bytes a key; then neighbours are merged, to the \
                    safe side.",
            example: "4096",
        },
    ],
};
