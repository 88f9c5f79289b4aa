//! When something becomes true, found by asking.

/// Ticks from `now` until `holds` is first true, for something that stays true once it is.
///
/// Looks 1, 2, 4, 8 ticks ahead until it holds and then halves the last step. Gives up after 2^62
/// ticks, which is longer than any answer can say.
pub(super) fn first_tick(now: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(now) {
        return 0;
    }
    let mut too_early = 0;
    let mut late_enough = 1;
    while !holds(now.saturating_add(late_enough)) {
        if late_enough >= 1 << 62 {
            return u64::MAX;
        }
        too_early = late_enough;
        late_enough *= 2;
    }
    while late_enough - too_early > 1 {
        let middle = too_early + (late_enough - too_early) / 2;
        if holds(now.saturating_add(middle)) {
            late_enough = middle;
        } else {
            too_early = middle;
        }
    }
    late_enough
}

#[cfg(test)]
mod tests {
    use super::first_tick;

    #[test]
    fn finds_what_stepping_tick_by_tick_finds() {
        for wanted in 100..400 {
            assert_eq!(first_tick(100, |tick| tick >= wanted), wanted - 100);
        }
    }

    #[test]
    fn gives_up_on_what_never_happens() {
        assert_eq!(first_tick(100, |_| false), u64::MAX);
    }
}
