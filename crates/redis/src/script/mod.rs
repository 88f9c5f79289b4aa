//! The Lua scripts: their text, their arguments, their replies. Knows no connection.
//!
//! A script is composed at first use of the files in `src/scripts`: a prelude, the clock, one
//! algorithm or all, and `main.lua`. So there are six of them, and each is small.

mod ask;
mod limits;
mod reply;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

pub(crate) use ask::{Ask, Op, arguments, time};
pub(crate) use limits::ScriptLimits;
pub(crate) use reply::{Answer, parse};

/// Which script: that of one algorithm, or of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Log,
    Counter,
    Segments,
    Gcra,
    Fixed,
    /// For keys of several algorithms in one call.
    Mixed,
}

impl Kind {
    /// The script that can answer all of `asks`.
    pub(crate) fn of(asks: &[Ask<'_>]) -> Self {
        let mut kinds = asks.iter().map(|ask| ask.limits.kind());
        match kinds.next() {
            Some(first) if kinds.all(|kind| kind == first) => first,
            _ => Self::Mixed,
        }
    }

    /// Its short cut, which leaves its answer in `reply`, if it has one.
    fn quick(self) -> Option<&'static str> {
        match self {
            Self::Log => Some(LOG_QUICK),
            Self::Counter => Some(COUNTER_QUICK),
            Self::Gcra => Some(GCRA_QUICK),
            Self::Fixed => Some(FIXED_QUICK),
            Self::Segments | Self::Mixed => None,
        }
    }
}

/// Where a script has its time from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    #[cfg_attr(
        all(feature = "test-clock", not(test)),
        expect(dead_code, reason = "tests give the time")
    )]
    Server,
    #[cfg(any(test, feature = "test-clock"))]
    Given,
}

impl Clock {
    #[cfg(not(feature = "test-clock"))]
    const BUILT: Self = Self::Server;
    #[cfg(feature = "test-clock")]
    const BUILT: Self = Self::Given;

    fn text(self) -> &'static str {
        match self {
            Self::Server => include_str!("../scripts/clock.lua"),
            #[cfg(any(test, feature = "test-clock"))]
            Self::Given => include_str!("../scripts/clock_given.lua"),
        }
    }
}

const PRELUDE: &str = include_str!("../scripts/prelude.lua");
const LOG_QUICK: &str = include_str!("../scripts/log_quick.lua");
const LOG_CODES: &str = include_str!("../scripts/log_codes.lua");
const LOG_MERGE: &str = include_str!("../scripts/log_merge.lua");
const LOG: &str = include_str!("../scripts/log.lua");
const COUNTER_QUICK: &str = include_str!("../scripts/counter_quick.lua");
const COUNTER: &str = include_str!("../scripts/counter.lua");
const SEGMENTS: &str = include_str!("../scripts/segments.lua");
const GCRA_QUICK: &str = include_str!("../scripts/gcra_quick.lua");
const GCRA: &str = include_str!("../scripts/gcra.lua");
const FIXED_QUICK: &str = include_str!("../scripts/fixed_quick.lua");
const FIXED: &str = include_str!("../scripts/fixed.lua");
const MAIN: &str = include_str!("../scripts/main.lua");

/// A script, as it is sent and as it is called once the server has it.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    hash: String,
}

impl Script {
    fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// What `EVAL` is given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What `EVALSHA` is given.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }
}

/// The script that answers many checks of a kind, each as if it were asked alone; none if the kind has
/// no short cut. Those that its short cut cannot answer it leaves alone, and answers [`ALONE`].
pub(crate) fn script_for_many(kind: Kind) -> Option<&'static Script> {
    static LOG: Many = LazyLock::new(|| compose_for_many(Kind::Log, Clock::BUILT));
    static COUNTER: Many = LazyLock::new(|| compose_for_many(Kind::Counter, Clock::BUILT));
    static GCRA: Many = LazyLock::new(|| compose_for_many(Kind::Gcra, Clock::BUILT));
    static FIXED: Many = LazyLock::new(|| compose_for_many(Kind::Fixed, Clock::BUILT));
    let script: &'static Many = match kind {
        Kind::Log => &LOG,
        Kind::Counter => &COUNTER,
        Kind::Gcra => &GCRA,
        Kind::Fixed => &FIXED,
        Kind::Segments | Kind::Mixed => return None,
    };
    script.as_ref()
}

type Many = LazyLock<Option<Script>>;

/// What the script for many says of a check that has to be asked alone. Nothing was done for it.
pub(crate) const ALONE: &[u8] = &[255];

/// The script of a kind, made once.
pub(crate) fn script(kind: Kind) -> &'static Script {
    static LOG: LazyLock<Script> = LazyLock::new(|| compose(Kind::Log, Clock::BUILT));
    static COUNTER: LazyLock<Script> = LazyLock::new(|| compose(Kind::Counter, Clock::BUILT));
    static SEGMENTS: LazyLock<Script> = LazyLock::new(|| compose(Kind::Segments, Clock::BUILT));
    static GCRA: LazyLock<Script> = LazyLock::new(|| compose(Kind::Gcra, Clock::BUILT));
    static FIXED: LazyLock<Script> = LazyLock::new(|| compose(Kind::Fixed, Clock::BUILT));
    static MIXED: LazyLock<Script> = LazyLock::new(|| compose(Kind::Mixed, Clock::BUILT));
    match kind {
        Kind::Log => &LOG,
        Kind::Counter => &COUNTER,
        Kind::Segments => &SEGMENTS,
        Kind::Gcra => &GCRA,
        Kind::Fixed => &FIXED,
        Kind::Mixed => &MIXED,
    }
}

fn compose(kind: Kind, clock: Clock) -> Script {
    Script::new(text(kind, clock, MAIN))
}

/// The text of a script that ends with `main`.
fn text(kind: Kind, clock: Clock, main: &str) -> String {
    let algorithms: &[&str] = match kind {
        Kind::Log => &[LOG_CODES, LOG_MERGE, LOG],
        Kind::Counter => &[COUNTER],
        Kind::Segments => &[SEGMENTS],
        Kind::Gcra => &[GCRA],
        Kind::Fixed => &[FIXED],
        Kind::Mixed => &[LOG_CODES, LOG_MERGE, LOG, COUNTER, SEGMENTS, GCRA, FIXED],
    };
    let mut files = vec![clock.text()];
    // The short cut comes before all that it does not need.
    files.extend(kind.quick().map(|quick| [ONE, quick, ONE_END]).into_iter().flatten());
    files.push(PRELUDE);
    files.extend_from_slice(algorithms);
    files.push(main);
    files.into_iter().map(without_comments).collect()
}

/// What a short cut needs around it to answer the only key, or leave it to `main.lua`.
const ONE: &str = "local i, reply = 1\n";
const ONE_END: &str = "if reply then return reply end\n";

/// The same for each of many keys.
const MANY: &str = "local replies = {}\nfor i = 1, #KEYS do\nlocal reply\n";
const MANY_END: &str = "replies[i] = reply or '\\255'\nend\nreturn replies\n";

fn compose_for_many(kind: Kind, clock: Clock) -> Option<Script> {
    let files = [clock.text(), MANY, kind.quick()?, MANY_END];
    Some(Script::new(files.into_iter().map(without_comments).collect()))
}

/// The same text, line for line, without what only readers need: the server keeps it in memory.
fn without_comments(file: &str) -> String {
    let mut text = String::with_capacity(file.len());
    for line in file.lines() {
        let line = line.trim_start();
        if !line.starts_with("--") {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
