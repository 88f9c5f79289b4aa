//! The time since the machine was started.

use core::time::Duration;

/// The time since the machine was started, including the time that it was suspended. It cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BootTime {
    /// Identifies the start of the machine: times are comparable if their ids are equal.
    pub(crate) id: [u8; 16],
    /// The time since then, up to [`LAG`](Self::LAG) behind real time.
    pub(crate) elapsed: Duration,
}

impl BootTime {
    /// The resolution of `/proc/uptime`.
    const LAG: Duration = Duration::from_millis(10);

    /// Returns the time that has surely passed since `earlier`, or `None` if the machine was restarted.
    pub(crate) fn since(&self, earlier: &Self) -> Option<Duration> {
        let at_most = earlier.elapsed.saturating_add(Self::LAG);
        // A clock that went back belongs to another container with an offset of its own.
        let is_comparable = self.id == earlier.id && self.elapsed >= earlier.elapsed;
        is_comparable.then(|| self.elapsed.saturating_sub(at_most))
    }

    /// Reads the kernel's clock. Returns `None` on other systems than Linux.
    pub(crate) fn now() -> Option<Self> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let id = u128::from_str_radix(&id.trim().replace('-', ""), 16).ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let elapsed = parse_seconds(uptime.split_whitespace().next()?)?;
        Some(Self { id: id.to_be_bytes(), elapsed })
    }
}

/// Reads `12345.67`.
fn parse_seconds(text: &str) -> Option<Duration> {
    let (seconds, hundredths) = text.split_once('.')?;
    let hundredths: u64 = hundredths.parse().ok().filter(|_| hundredths.len() == 2)?;
    let seconds: u64 = seconds.parse().ok()?;
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_millis(hundredths * 10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_to_hundredths() {
        assert_eq!(parse_seconds("12345.67"), Some(Duration::from_millis(12_345_670)));
        for bad in ["", "12", "12.", "12.3", "12.345", "-1.00", "x.00"] {
            assert_eq!(parse_seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_of_another_start_or_in_the_wrong_order_are_not_compared() {
        let at = |id, seconds| BootTime { id: [id; 16], elapsed: Duration::from_secs(seconds) };
        let passed = Duration::from_secs(5).saturating_sub(BootTime::LAG);
        assert_eq!(at(1, 15).since(&at(1, 10)), Some(passed));
        assert_eq!(at(1, 10).since(&at(1, 10)), Some(Duration::ZERO));
        assert_eq!(at(2, 15).since(&at(1, 10)), None);
        assert_eq!(at(1, 9).since(&at(1, 10)), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn linux_knows_when_it_was_started() {
        let first = BootTime::now().unwrap();
        assert!(first.elapsed > Duration::ZERO);
        assert!(BootTime::now().unwrap().since(&first).is_some());
    }
}
