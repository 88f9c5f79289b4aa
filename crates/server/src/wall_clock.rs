//! The time of day, for what clients compare with their own clocks. Decisions never depend on it.

use std::time::SystemTime;

#[expect(clippy::disallowed_methods, reason = "clients compare it with the time of day")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}
