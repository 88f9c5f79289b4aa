//! What a script must not do, found by reading it.

use super::super::{
    COUNTER, COUNTER_QUICK, FIXED, FIXED_QUICK, GCRA, GCRA_QUICK, LOG, LOG_CODES, LOG_MERGE,
    LOG_QUICK, MAIN, PRELUDE, SEGMENTS,
};

const FILES: [(&str, &str); 14] = [
    ("prelude", PRELUDE),
    ("log_quick", LOG_QUICK),
    ("log_codes", LOG_CODES),
    ("log_merge", LOG_MERGE),
    ("log", LOG),
    ("counter", COUNTER),
    ("counter_quick", COUNTER_QUICK),
    ("gcra_quick", GCRA_QUICK),
    ("fixed_quick", FIXED_QUICK),
    ("segments", SEGMENTS),
    ("gcra", GCRA),
    ("fixed", FIXED),
    ("main", MAIN),
    ("clock", include_str!("../../scripts/clock.lua")),
];

/// Lines of code, with the comments gone.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with("--"))
}

/// In Lua 5.1 a time that is made a string by `tostring` or `..` loses digits, and so does a quotient
/// that is rounded before it is floored; on old servers `math.random` is the same on every call.
/// `%d` cuts a fraction off, which only a TTL can do without as its slack is longer; and it is for
/// numbers of 31 bits, which is all that `long` has on some machines.
#[test]
fn no_script_rounds_or_rolls_dice() {
    for (name, text) in FILES {
        for line in lines(text) {
            for banned in ["tostring", "math.random", "math.floor", "%d", "os.", "cjson"] {
                let is_ttl = banned == "%d" && line.contains("ttl < 2147483648 and '%d'");
                assert!(is_ttl || !line.contains(banned), "{name} has {banned}: {line}");
            }
        }
    }
}

/// `..` is for bytes. What is put together must be seen to be bytes.
#[test]
fn only_bytes_are_put_together() {
    let bytes = [
        "pack(",
        "char(",
        "sub(",
        "rep(",
        "table.concat(",
        "codes.write(",
        "head",
        "tail",
        "code",
        "text",
        "codes",
        "blank",
        "bytes",
        "ring",
        "spare",
        "state",
        "before",
        "'\\0",
    ];
    for (name, text) in FILES {
        for line in lines(text).filter(|line| line.contains("..")) {
            let line = line.replace("...", "");
            let right = line.split_once('=').map_or(line.as_str(), |(_, right)| right);
            for part in right.split("..").map(str::trim) {
                let part = part.trim_start_matches("return").trim_start_matches(['{', ' ', '(']);
                let known = bytes.iter().any(|bytes| part.contains(bytes));
                assert!(known, "{name} puts {part:?} together: {line}");
            }
        }
    }
}

/// A production script that took its time from an argument would let any caller set it.
#[test]
fn the_clock_of_tests_is_in_no_other_script() {
    use super::super::{Clock, Kind, compose_for_many, text};
    let kinds = [Kind::Log, Kind::Counter, Kind::Segments, Kind::Gcra, Kind::Fixed, Kind::Mixed];
    for kind in kinds {
        let served = text(kind, Clock::Server, MAIN);
        assert!(!served.contains("ARGV[#ARGV]"), "{kind:?} believes its caller's clock");
        assert!(served.contains("redis.call('TIME')"), "{kind:?} has no clock");
        assert!(text(kind, Clock::Given, MAIN).contains("ARGV[#ARGV]"));
        assert!(!served.contains("\n--"), "{kind:?} carries its comments");
    }
    for script in kinds.into_iter().filter_map(|kind| compose_for_many(kind, Clock::Server)) {
        assert!(!script.text().contains("ARGV[#ARGV]"), "believes its caller's clock");
        assert!(script.text().contains("redis.call('TIME')"), "has no clock");
    }
}
