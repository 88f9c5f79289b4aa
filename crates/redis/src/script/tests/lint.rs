//! The text of the scripts: what it must not contain, and the bytes of the log's codes.

use std::io::Write;
use std::process::{Command, Stdio};

use super::super::{Clock, MAIN, ScriptKind, batch_text, text};
use super::Caller;
use super::source::{origins, source_files};

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
    for file in source_files() {
        for line in lines(&file.text) {
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
    for file in source_files() {
        for line in lines(&file.text).filter(|line| line.contains("..")) {
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

// Shadowed and undefined names are not errors in Lua until the line runs.
#[test]
fn luacheck_finds_nothing() {
    let files = source_files();
    let texts = |kind| [Some(text(kind, Clock::Given, MAIN)), batch_text(kind, Clock::Given)];
    for text in ScriptKind::ALL.into_iter().flat_map(texts).flatten() {
        let findings = luacheck(&text);
        let origins = origins(&text, &files);
        let shown: Vec<String> = findings
            .lines()
            .map(|finding| {
                let line = finding.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
                let origin = line.and_then(|line| origins.get(line - 1)?.as_ref());
                origin.map_or_else(|| finding.to_owned(), |origin| format!("{origin}: {finding}"))
            })
            .collect();
        assert!(shown.is_empty(), "{}", shown.join("\n"));
    }
    assert_eq!(luacheck(crate::sweep::SCRIPT), "");
}

#[test]
fn luacheck_is_run_with_the_names_that_redis_defines() {
    let found = luacheck("local x = KEYS[1]\nlocal function f(x) return x, redis, struct, y end\n");
    assert!(found.contains("shadowing upvalue 'x'") && found.contains("undefined variable 'y'"));
    assert!(!found.contains("'redis'") && !found.contains("'KEYS'"), "{found}");
}

/// The findings in a script, one per line: `stdin:LINE:COLUMN: TEXT`.
fn luacheck(text: &str) -> String {
    let mut command = Command::new("luacheck");
    command.args([
        "--no-config",
        "--std",
        "lua51",
        "--read-globals",
        "KEYS",
        "ARGV",
        "redis",
        "struct",
    ]);
    command.args(["--no-max-line-length", "--formatter", "plain", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("luacheck is missing: install Debian's package `lua-check`");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
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
local codes = log_codes(make_kit(us, SLACK))
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
