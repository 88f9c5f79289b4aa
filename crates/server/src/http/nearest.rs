//! The name that somebody may have meant.

/// The nearest of the names, if it is near: a letter wrong, missing, added or swapped for every three.
pub(crate) fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let most = (wanted.len() / 3).max(1);
    // Nobody meant anything by a word as long as this.
    if wanted.len() > WORD_MAX {
        return None;
    }
    let near = names.into_iter().take(NAMES_MAX).map(|name| (distance(wanted, name), name));
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

const WORD_MAX: usize = 64;

/// Each is compared, so their number is bounded.
const NAMES_MAX: usize = 1000;

/// Letters to change, add or take away, two swapped neighbours counting once.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if other.len() > 2 * WORD_MAX {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, &letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, &against) in other.iter().enumerate() {
            let change = last[column] + usize::from(letter != against);
            let mut least = change.min(last[column + 1] + 1).min(next[column] + 1);
            let swapped =
                row > 0 && column > 0 && letter == other[column - 1] && one[row - 1] == against;
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = core::mem::replace(&mut last, next);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name() {
        let names = ["api", "login", "search"];
        for (wanted, found) in [
            ("apii", Some("api")),
            ("pai", Some("api")),
            ("lgoin", Some("login")),
            ("serach", Some("search")),
            ("sarch", Some("search")),
            ("upload", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, names), found, "{wanted}");
        }
        assert_eq!(nearest(&"a".repeat(1000), names), None);
    }
}
