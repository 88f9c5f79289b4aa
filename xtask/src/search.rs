//! `cargo xtask search`: searches for sequences of operations that a limiter decides unlike the definition.

use std::path::Path;

use crate::Outcome;
use crate::command::{self, cargo};
use crate::install;

/// How long the search takes by default.
pub(crate) const MINUTES: u32 = 5;

/// The searches that run one after the other: six in memory and five in Redis.
const SEARCHES: u32 = 6 + 5;

/// Tries sequences of operations for about `minutes`. Prints the worlds, states, depth and seconds.
pub(crate) fn run(root: &Path, minutes: u32) -> Outcome {
    install::servers()?;
    let mut test = cargo(root, &["test", "--workspace", "--test", "traces", "--test", "search"]);
    test.args(["search", "--", "--test-threads", "1", "--nocapture"]);
    let seconds = (minutes * 60 / SEARCHES).max(1);
    command::run(test.env("SLIDEGATE_SEARCH_SECONDS", seconds.to_string()))
}

/// Parses a number of minutes.
pub(crate) fn parse_minutes(word: &str) -> Result<u32, String> {
    match word.parse() {
        Ok(minutes @ 1..=10_000) => Ok(minutes),
        _ => Err(format!("`{word}` is not a number of minutes: use 1 to 10000")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_minutes;

    #[test]
    fn minutes_are_bounded() {
        assert_eq!(parse_minutes("5"), Ok(5));
        for word in ["0", "-1", "soon", "10001"] {
            assert!(parse_minutes(word).is_err(), "{word}");
        }
    }
}
