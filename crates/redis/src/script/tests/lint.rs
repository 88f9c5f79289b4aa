//! The text of the scripts: what it must not contain, and the bytes of the log's codes.

use super::super::{
    COUNTER, COUNTER_QUICK, Clock, FIXED, FIXED_QUICK, GCRA, GCRA_QUICK, LOG, LOG_BLOCKS,
    LOG_CODES, LOG_MERGE, LOG_QUICK, LOG_REFUND, LOG_REFUND_QUICK, MAIN, PRELUDE, READ_CLOCK,
    SEGMENTS, SMALL_QUICK, ScriptKind, batch_text, text,
};
use super::Caller;

const FILES: [&str; 18] = [
    READ_CLOCK,
    PRELUDE,
    SMALL_QUICK,
    LOG_QUICK,
    LOG_REFUND_QUICK,
    LOG_CODES,
    LOG_MERGE,
    LOG_BLOCKS,
    LOG_REFUND,
    LOG,
    COUNTER,
    COUNTER_QUICK,
    GCRA_QUICK,
    FIXED_QUICK,
    SEGMENTS,
    GCRA,
    FIXED,
    MAIN,
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
    for file in FILES {
        for line in lines(file) {
            for banned in ["tostring", "math.random", "math.floor", "%d", "os.", "cjson"] {
                let is_ttl = banned == "%d" && line.contains("ttl < 2147483648 and '%d'");
                assert!(is_ttl || !line.contains(banned), "{banned}: {line}");
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
        "edit",
        "record",
        "index",
        "'\\0",
    ];
    for file in FILES {
        for line in lines(file).filter(|line| line.contains("..")) {
            let line = line.replace("...", "");
            let right = line.split_once('=').map_or(line.as_str(), |(_, right)| right);
            for part in right.split("..").map(str::trim) {
                let part = part.trim_start_matches("return").trim_start_matches(['{', ' ', '(']);
                let known = bytes.iter().any(|bytes| part.contains(bytes));
                assert!(known, "{part:?} in {line}");
            }
        }
    }
}

/// A production script that took its time from an argument would let any caller set it.
#[test]
fn production_scripts_do_not_read_the_test_clock() {
    for kind in ScriptKind::ALL {
        assert!(text(kind, Clock::Given, MAIN).contains("ARGV[#ARGV]"));
        let single = text(kind, Clock::Server, MAIN);
        for script in [Some(single), batch_text(kind, Clock::Server)].into_iter().flatten() {
            assert!(!script.contains("ARGV[#ARGV]"), "{kind:?} trusts its caller's clock");
            assert!(script.contains("redis.call('TIME')"), "{kind:?} has no clock");
            assert!(!script.contains("\n--"), "{kind:?} carries its comments");
        }
    }
}

/// A script that ends here writes and reads the codes of a log.
const WRITE_AND_READ_CODES: &str = "
local codes = log_codes(kit(us, SLACK))
local code = codes.write(tonumber(ARGV[1]), tonumber(ARGV[2]))
local units, gap, bytes = codes.read(ARGV[3], 1)
return { code, string.format('%.0f %.0f %.0f', units, gap, bytes) }
";

// A byte that differs would make a log unreadable for the other side, or read as other times.
#[test]
fn lua_has_the_golden_bytes() {
    let mut caller = Caller::start();
    // The fast paths would take the first argument for an operation.
    let script = text(ScriptKind::Log, Clock::Server, WRITE_AND_READ_CODES);
    let script = script.replacen("repeat", "while false do", 2);
    let script = redis::Script::new(&script.replacen("until true", "end", 2));
    let golden = include_str!("../../../../../conformance/golden/log-codes.txt");
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let [units, gap, hex] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
        let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let (code, read): (Vec<u8>, String) =
            script.arg(units).arg(gap).arg(&bytes).invoke(&mut caller.connection).unwrap();
        assert_eq!(code, bytes, "{line}");
        assert_eq!(read, format!("{units} {gap} {}", bytes.len()), "{line}");
    }
}
