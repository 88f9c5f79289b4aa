//! The Lua scripts: their text, their arguments, their replies.
//!
//! A script is composed at first use from the files in `src/scripts`: the clock, the algorithm's
//! fast path if it has one, the prelude, one algorithm or all of them, and `main.lua`. The server
//! keeps the text in memory, so a script contains only what it needs.

mod limits;
mod op;
mod reply;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

pub(crate) use limits::ScriptLimits;
pub(crate) use op::{CHARGES_MAX, Charge, KeyOp, Op, arguments, time};
pub(crate) use reply::{KeyReply, parse, taken};

/// Selects a script: that of one algorithm, or of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptKind {
    Log,
    Counter,
    Segments,
    Gcra,
    Fixed,
    /// For keys of several algorithms in one call.
    Mixed,
}

impl ScriptKind {
    const ALL: [Self; 6] =
        [Self::Log, Self::Counter, Self::Segments, Self::Gcra, Self::Fixed, Self::Mixed];

    /// The script that supports all of `ops`.
    pub(crate) fn of(ops: &[KeyOp<'_>]) -> Self {
        let mut kinds = ops.iter().map(|op| op.limits.kind());
        match kinds.next() {
            Some(first) if kinds.all(|kind| kind == first) => first,
            _ => Self::Mixed,
        }
    }

    /// The files of the algorithms.
    fn algorithms(self) -> &'static [&'static str] {
        match self {
            Self::Log => &[LOG_CODES, LOG_MERGE, LOG_BLOCKS, LOG_REFUND, LOG],
            Self::Counter => &[COUNTER],
            Self::Segments => &[SEGMENTS],
            Self::Gcra => &[GCRA],
            Self::Fixed => &[FIXED],
            Self::Mixed => {
                &[LOG_CODES, LOG_MERGE, LOG_BLOCKS, LOG_REFUND, LOG, COUNTER, SEGMENTS, GCRA, FIXED]
            }
        }
    }

    /// The fast path, which leaves its answer in `reply`, if there is one.
    fn quick(self) -> Option<[&'static str; 3]> {
        let part = match self {
            Self::Log => return Some(["", LOG_QUICK, ""]),
            Self::Counter => COUNTER_QUICK,
            Self::Gcra => GCRA_QUICK,
            Self::Fixed => FIXED_QUICK,
            Self::Segments | Self::Mixed => return None,
        };
        let (begin, end) = SMALL_QUICK.split_once("-- ALGORITHM\n")?;
        Some([begin, part, end])
    }
}

/// The source of a script's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// `TIME`: no client's clock is trusted. A key outlives its content by a second.
    #[cfg_attr(
        all(feature = "test-clock", not(test)),
        expect(dead_code, reason = "tests give the time")
    )]
    Server,
    /// An argument behind those of the keys. The server's own clock goes on meanwhile, so keys
    /// outlive their content by more than any test lasts.
    #[cfg(any(test, feature = "test-clock"))]
    Given,
}

impl Clock {
    #[cfg(not(feature = "test-clock"))]
    const BUILT: Self = Self::Server;
    #[cfg(feature = "test-clock")]
    const BUILT: Self = Self::Given;

    /// Sets `us`, the microseconds since the Unix epoch, and `SLACK`, the milliseconds by which a
    /// key outlives its content.
    fn files(self) -> [&'static str; 2] {
        let slack = match self {
            Self::Server => "local SLACK = 1000",
            #[cfg(any(test, feature = "test-clock"))]
            Self::Given => {
                "local SLACK = 3600000\nif #ARGV > #KEYS then us = tonumber(ARGV[#ARGV]) end"
            }
        };
        [READ_CLOCK, slack]
    }
}

const READ_CLOCK: &str = "local time = redis.call('TIME')\nlocal us = time[1] * 1000000 + time[2]";
const PRELUDE: &str = include_str!("../scripts/prelude.lua");
const LOG_QUICK: &str = include_str!("../scripts/log_quick.lua");
const LOG_CODES: &str = include_str!("../scripts/log_codes.lua");
const LOG_MERGE: &str = include_str!("../scripts/log_merge.lua");
const LOG_BLOCKS: &str = include_str!("../scripts/log_blocks.lua");
const LOG_REFUND: &str = include_str!("../scripts/log_refund.lua");
const LOG_REFUND_QUICK: &str = include_str!("../scripts/log_refund_quick.lua");
const LOG: &str = include_str!("../scripts/log.lua");
const SMALL_QUICK: &str = include_str!("../scripts/small_quick.lua");
const COUNTER_QUICK: &str = include_str!("../scripts/counter_quick.lua");
const COUNTER: &str = include_str!("../scripts/counter.lua");
const SEGMENTS: &str = include_str!("../scripts/segments.lua");
const GCRA_QUICK: &str = include_str!("../scripts/gcra_quick.lua");
const GCRA: &str = include_str!("../scripts/gcra.lua");
const FIXED_QUICK: &str = include_str!("../scripts/fixed_quick.lua");
const FIXED: &str = include_str!("../scripts/fixed.lua");
const MAIN: &str = include_str!("../scripts/main.lua");

/// A script: its text for `EVAL`, its hash for `EVALSHA`.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) hash: String,
}

impl Script {
    fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }
}

/// The script of a kind, composed once.
pub(crate) fn script(kind: ScriptKind) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; ScriptKind::ALL.len()] =
        [const { OnceLock::new() }; ScriptKind::ALL.len()];
    SCRIPTS[kind as usize].get_or_init(|| Script::new(text(kind, Clock::BUILT, MAIN)))
}

/// The script that decides many checks of a kind, each as if it were sent alone. Replies [`ALONE`]
/// for a check that the fast path cannot decide. Returns `None` if the kind has no fast path.
pub(crate) fn batch_script(kind: ScriptKind) -> Option<&'static Script> {
    static SCRIPTS: [OnceLock<Option<Script>>; ScriptKind::ALL.len()] =
        [const { OnceLock::new() }; ScriptKind::ALL.len()];
    let compose = || batch_text(kind, Clock::BUILT).map(Script::new);
    SCRIPTS[kind as usize].get_or_init(compose).as_ref()
}

/// The reply of a batch script for a check that has to be sent alone. Nothing was done for it.
pub(crate) const ALONE: &[u8] = &[255];

const RETURN_REPLY: &str = "if reply then return reply end";

/// The text of a script that ends with `main`. The fast path comes before all that it does not
/// need.
fn text(kind: ScriptKind, clock: Clock, main: &str) -> String {
    let mut files = clock.files().to_vec();
    if let Some(quick) = kind.quick() {
        files.push("do\nlocal i, reply = 1");
        files.extend(quick);
        files.push(RETURN_REPLY);
        if kind == ScriptKind::Log {
            files.extend([LOG_REFUND_QUICK, RETURN_REPLY]);
        }
        files.push("end");
    }
    files.push(PRELUDE);
    files.extend_from_slice(kind.algorithms());
    files.push(main);
    compose(&files)
}

/// The text of a script that runs the fast path for each of its keys.
fn batch_text(kind: ScriptKind, clock: Clock) -> Option<String> {
    let each = "local replies = {}\nfor i = 1, #KEYS do\nlocal reply";
    let end = "replies[i] = reply or '\\255'\nend\nreturn replies";
    let [time, slack] = clock.files();
    let [begin, part, rest] = kind.quick()?;
    Some(compose(&[time, slack, each, begin, part, rest, end]))
}

/// The files in one text, line for line, without comments.
fn compose(files: &[&str]) -> String {
    let mut text = String::new();
    for line in files.iter().flat_map(|file| file.lines()) {
        let line = line.trim_start();
        if !line.starts_with("--") {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
